"""Faults of the machine: serialisation failures, a server that dies in mid-transaction, a full disk, a clock."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from dp_operators.budget import BudgetExceeded, LedgerUnavailable, PrivacyLedger
from dp_operators.budget.tables import audit
from dp_operators.budget.tables.database import BACKOFF
from dp_operators.budget.transactions import charges as charge_changes
from spark_jobs.contract.store.failpoints import VARIABLE
from tests.support.ledgers import await_pause, commit, new_ledger
from tests.support.postgres import PostgresServer, running_postgres


class Refused(Exception):
    """What a driver raises, as far as the ledger looks at it."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(f"refused with {sqlstate}")
        self.sqlstate = sqlstate


def failing(monkeypatch: pytest.MonkeyPatch, times: int, sqlstate: str) -> list[float]:
    """Make reservations fail so often before they work; when each was tried."""
    tried: list[float] = []
    reserve = charge_changes.reserve

    def attempt(connection: object, order: object) -> object:
        tried.append(time.monotonic())
        if len(tried) <= times:
            raise DBAPIError(None, None, Refused(sqlstate))
        return reserve(connection, order)  # type: ignore[arg-type]

    monkeypatch.setattr(charge_changes, "reserve", attempt)
    return tried


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "23505"])
def test_serialisation_failures_are_tried_again_with_growing_pauses(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch, sqlstate: str
) -> None:
    ledger.open_account("visits", epsilon="1")
    tried = failing(monkeypatch, 4, sqlstate)
    assert ledger.reserve("visits", release="r", epsilon="0.1").state == "reserved"
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert all(pause >= least for pause, least in zip(pauses, BACKOFF, strict=False))
    assert len(ledger.history("visits")) == 1


def test_endless_serialisation_failures_end_as_unavailable(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.open_account("visits", epsilon="1")
    tried = failing(monkeypatch, 1000, "40001")
    with pytest.raises(LedgerUnavailable):
        ledger.reserve("visits", release="r", epsilon="0.1")
    assert len(tried) == len(BACKOFF) + 1


def test_other_failures_are_told_at_once(ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.open_account("visits", epsilon="1")
    tried = failing(monkeypatch, 1, "53100")
    with pytest.raises(LedgerUnavailable):
        ledger.reserve("visits", release="r", epsilon="0.1")
    assert len(tried) == 1


def test_exceeded_budget_is_never_tried_again(ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.open_account("visits", epsilon="1")
    tried = failing(monkeypatch, 0, "")
    with pytest.raises(BudgetExceeded):
        ledger.reserve("visits", release="r", epsilon="2")
    assert len(tried) == 1


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("call", "failpoint"),
    [
        ("reserve", "ledger_before_write"),
        ("reserve", "ledger_before_commit"),
        ("raise_cap", "ledger_before_commit"),
    ],
)
@pytest.mark.sampled
def test_server_that_restarts_in_mid_transaction_loses_nothing(
    own_server: PostgresServer, tmp_path: Path, failpoint: str, call: str
) -> None:
    """The caller sleeps inside its change while the server crashes and comes back; it goes on, and pays once."""
    url = own_server.create_database()
    ledger = PrivacyLedger(url)
    ledger.migrate()
    ledger.open_account("visits", epsilon="1")
    gate = tmp_path / "gate"

    def change() -> None:
        os.environ[VARIABLE] = f"{failpoint}:pause:{gate}"
        own = PrivacyLedger(url)
        if call == "reserve":
            own.reserve("visits", release="r", epsilon="0.25", request_sha256="x")
        else:
            own.raise_cap("visits", epsilon="2", actor="dpo", reason="why")

    process = multiprocessing.get_context("fork").Process(target=change, daemon=True)
    process.start()
    await_pause(gate, process)
    own_server.stop_hard()
    own_server.start()
    gate.touch()
    process.join(60)
    assert process.exitcode == 0
    assert ledger.verification().findings == ()
    assert [entry.action for entry in ledger.log()] == ["opened", {"reserve": "reserved", "raise_cap": "raised"}[call]]
    ledger.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = new_ledger(tmp_path / "ledger.db")
    ledger.open_account("visits", epsilon="1000")
    ledger.reserve("visits", release="before", epsilon="1")
    ledger.close()
    return url


def test_full_disk_is_told_and_nothing_is_half_written(small_disk: str) -> None:
    """The file may grow no further: the ledger says so, keeps what it had, and goes on once there is room."""
    fork = multiprocessing.get_context("fork")
    answered = fork.Queue()

    def fill() -> None:
        size = Path(small_disk.removeprefix("sqlite:///")).stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, size + 8192))
        ledger = PrivacyLedger(small_disk)
        for number in range(500):
            try:
                answered.put(ledger.reserve("visits", release=f"r{number}" + "x" * 200, epsilon="0.5").id)
            except LedgerUnavailable as away:
                answered.put(str(away))
                break
        answered.put(None)
        answered.close()
        answered.join_thread()

    process = fork.Process(target=fill, daemon=True)
    process.start()
    said = list(iter(lambda: answered.get(timeout=60), None))
    process.join(60)
    *charges, last = said
    assert "cannot be used: " in last
    assert "disk" in last
    ledger = PrivacyLedger(small_disk)
    assert ledger.verification().findings == ()
    assert [charge.id for charge in ledger.history("visits")][1:] == charges
    assert ledger.reserve("visits", release="after", epsilon="0.5").state == "reserved"
    with sqlite3.connect(small_disk.removeprefix("sqlite:///")) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_clock_that_goes_backwards_changes_no_order_and_makes_nothing_stale(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.open_account("visits", epsilon="1")
    first = ledger.reserve("visits", release="first", epsilon="0.1")

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) - timedelta(days=365)

    monkeypatch.setattr(audit, "datetime", Earlier)
    second = ledger.reserve("visits", release="second", epsilon="0.1")
    commit(ledger, second.id)
    assert second.reserved_at < first.reserved_at
    assert [charge.release for charge in ledger.history("visits")] == ["first", "second"]
    assert [entry.seq for entry in ledger.log()] == [1, 2, 3, 4, 5]
    assert ledger.stale(timedelta(hours=1)) == ()
    assert ledger.verification().findings == ()
    monkeypatch.undo()
    assert ledger.stale(timedelta(hours=1)) == ()
    ledger.reserve("visits", release="third", epsilon="0.1")
    assert ledger.verification().findings == ()


def test_reservation_is_stale_once_nobody_renews_it(ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.open_account("visits", epsilon="1")
    charges = [ledger.reserve("visits", release=name, epsilon="0.1") for name in ("kept up", "left", "settled")]
    commit(ledger, charges[2].id)

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + timedelta(hours=2)

    monkeypatch.setattr(audit, "datetime", Later)
    ledger.renew(charges[0].id)
    assert [charge.release for charge in ledger.stale(timedelta(hours=1))] == ["left"]
    assert str(ledger.remaining("visits").epsilon) == "0.7"
