"""On a server each call of the ledger takes few round trips, and what it writes is on disk when it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dp_operators.budget import Charge, ChargeConflict, ChargeState, LedgerFrozen, PrivacyLedger
from dp_operators.budget.tables import queries
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import DRAW, execute

pytestmark = pytest.mark.postgres
OTHER = "e" * 64
CALLS: dict[str, tuple[Callable[[PrivacyLedger, Charge], Any], int]] = {
    # what it is decided on, and the write
    "reserve": (lambda ledger, _: ledger.reserve("visits", release="new", epsilon="0.125", blocks=["2026-11-21"]), 2),
    # what there is, and the disk
    "reserve again": (
        lambda ledger, charge: ledger.reserve("visits", release=charge.release, epsilon="0.125", blocks=charge.blocks),
        2,
    ),
    "record_draw": (lambda ledger, charge: ledger.record_draw(charge.id, DRAW), 1),
    "burn": (lambda ledger, charge: ledger.burn(charge.id, reason="lost"), 1),
    "start_run": (lambda ledger, charge: ledger.start_run(charge.id), 3),
    "void": (lambda ledger, charge: ledger.void(charge.id), 3),
}


@pytest.fixture
def reserved(owner: PrivacyLedger) -> Charge:
    return owner.reserve("visits", release="mine", epsilon="0.125", blocks=["2026-11-21"])


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each message that waits for its answer."""
    made: list[int] = []
    by_driver = queries._by_driver

    def counted(connection: Any, call: Callable[[Any], Any]) -> Any:
        made.append(1)
        return by_driver(connection, call)

    monkeypatch.setattr(queries, "_by_driver", counted)
    return made


@pytest.mark.parametrize("name", CALLS)
def test_call_takes_few_round_trips(owner: PrivacyLedger, reserved: Charge, trips: list[int], name: str) -> None:
    call, number = CALLS[name]
    call(owner, reserved)
    assert len(trips) == number
    assert owner.verification().findings == ()


def test_commit_takes_one_round_trip(owner: PrivacyLedger, reserved: Charge, trips: list[int]) -> None:
    owner.record_draw(reserved.id, DRAW)
    del trips[:]
    ended = owner.commit(reserved.id, OTHER, events=[{"mechanism": "pure"}], figures=[{"name": "auc"}], actor="worker")
    assert len(trips) == 1
    assert ended == owner.charge(reserved.id)
    assert (ended.state, ended.manifest_sha256, ended.draw_sha256) == (ChargeState.COMMITTED, OTHER, DRAW)
    assert (ended.drawn_events, ended.figures) == (({"mechanism": "pure"},), ({"name": "auc"},))
    assert owner.log()[-1].actor == "worker"


@pytest.mark.parametrize("name", ["record_draw", "burn"])
def test_unread_change_gives_the_charge_as_it_is_then(owner: PrivacyLedger, reserved: Charge, name: str) -> None:
    changed = CALLS[name][0](owner, reserved)
    assert changed == owner.charge(reserved.id) != reserved
    # and once more, nothing
    head = owner.head()
    assert CALLS[name][0](owner, reserved) == changed
    assert owner.head() == head


def test_every_write_waits_for_the_disk(owner: PrivacyLedger, postgres_url: str) -> None:
    """The server has written its log to the disk up to the change: a crash takes nothing back."""
    charge = owner.reserve("visits", release="mine", epsilon="0.125", blocks=["2026-11-21"])
    for call in (
        lambda: owner.record_draw(charge.id, DRAW),
        lambda: owner.commit(charge.id, OTHER),
        lambda: owner.reserve("visits", release="next", epsilon="0.125", blocks=["2026-11-21"]),
    ):
        position = execute(postgres_url, "SELECT pg_current_wal_insert_lsn()::text")[0][0]
        call()
        flushed = f"SELECT pg_current_wal_flush_lsn() > '{position}'\\:\\:pg_lsn"
        assert execute(postgres_url, flushed) == [(True,)]


REFUSED: dict[str, tuple[Callable[[PrivacyLedger, str], Any], type[Exception], str]] = {
    "unknown": (lambda ledger, _: ledger.record_draw("unknown", DRAW), InvalidRequest, "must be a charge of this"),
    "undrawn": (lambda ledger, charge: ledger.commit(charge, OTHER), ChargeConflict, "must have a recorded draw"),
    "frozen draw": (lambda ledger, charge: ledger.record_draw(charge, DRAW), LedgerFrozen, "restored"),
    "frozen end": (lambda ledger, charge: ledger.burn(charge), LedgerFrozen, "restored"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_change_says_why_at_its_first_attempt(
    owner: PrivacyLedger, reserved: Charge, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def no_pause(seconds: float) -> None:
        raise AssertionError(f"waits {seconds} s and tries again")

    call, error, message = REFUSED[name]
    if "frozen" in name:
        owner.freeze(reason="restored")
    head = owner.head()
    monkeypatch.setattr("dp_operators.budget.tables.database.time.sleep", no_pause)
    with pytest.raises(error, match=message):
        call(owner, reserved.id)
    assert owner.head() == head
    assert owner.charge(reserved.id) == reserved


def test_second_draw_is_refused_with_the_first(owner: PrivacyLedger, reserved: Charge) -> None:
    owner.record_draw(reserved.id, DRAW)
    with pytest.raises(ChargeConflict, match=f"is not the draw of charge {reserved.id}, which is {DRAW}"):
        owner.record_draw(reserved.id, OTHER)
