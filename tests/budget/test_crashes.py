"""Killed workers and crashed servers: what was answered stays, what was not is all there or not at all (I4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import Connection

from dp_operators.budget import Charge, LedgerUnavailable, PrivacyLedger
from dp_operators.budget.tables.database import Database
from spark_jobs.contract.store.failpoints import LEDGER_POINTS
from tests.support.ledgers import DRAW, commit, killed_at
from tests.support.postgres import PostgresServer, running_postgres


@pytest.mark.parametrize("failpoint", LEDGER_POINTS)
def test_kill_during_a_reservation_leaves_it_whole_or_out(ledger: PrivacyLedger, failpoint: str) -> None:
    ledger.open_account("visits", epsilon="1")

    def reserve() -> Charge:
        return ledger.reserve("visits", release="r", epsilon="0.4", request_sha256="x")

    killed_at(failpoint, reserve)
    made = ledger.find_charge("visits", "r")
    assert made is None or failpoint != "ledger_before_write"
    assert made is not None or failpoint != "ledger_after_commit"
    assert ledger.remaining("visits").epsilon == (1 if made is None else Decimal("0.6"))
    assert ledger.verification().findings == ()

    again = reserve()
    assert made is None or again == made
    assert ledger.history("visits") == (again,)
    assert ledger.remaining("visits").epsilon == Decimal("0.6")
    assert ledger.verification().findings == ()


@pytest.mark.sampled("verb")
@pytest.mark.parametrize("failpoint", LEDGER_POINTS)
@pytest.mark.parametrize("verb", ["commit", "burn", "void"])
def test_kill_while_settling_leaves_it_settled_or_not(ledger: PrivacyLedger, verb: str, failpoint: str) -> None:
    ledger.open_account("visits", epsilon="1")
    charge = ledger.reserve("visits", release="r", epsilon="0.4")
    settle: Callable[[str], Charge] = getattr(ledger, verb)
    if verb == "commit":
        charge = ledger.record_draw(charge.id, DRAW)
    logged = len(ledger.log("visits"))

    killed_at(failpoint, lambda: settle(charge.id))
    assert (ledger.charge(charge.id) == charge) or failpoint != "ledger_before_write"
    assert (ledger.charge(charge.id) != charge) or failpoint != "ledger_after_commit"
    assert ledger.verification().findings == ()

    settled = settle(charge.id)
    assert ledger.remaining("visits").epsilon == (1 if settled.state == "void" else Decimal("0.6"))
    assert len(ledger.log("visits")) == logged + 1
    assert ledger.verification().findings == ()


@pytest.mark.parametrize("failpoint", ["ledger_before_commit", "ledger_after_commit"])
def test_kill_while_opening_leaves_the_account_whole_or_out(ledger: PrivacyLedger, failpoint: str) -> None:
    def open_account() -> object:
        return ledger.open_account("visits", epsilon="1", tables=["/lake/visits"])

    killed_at(failpoint, open_account)
    assert len(ledger.accounts()) == (failpoint == "ledger_after_commit")
    assert ledger.verification().findings == ()
    open_account()
    assert len(ledger.log()) == 1
    assert ledger.verification().findings == ()


def test_file_is_asked_to_be_on_disk_after_every_commit(tmp_path: Path) -> None:
    """A machine's crash cannot be had in a test: what SQLite is told, in changes as in reads, by its own account."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    PrivacyLedger(url).migrate()
    database = Database(url, patience=1)

    def settings(connection: Connection) -> list[object]:
        asked = ("synchronous", "journal_mode", "foreign_keys")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in asked]

    for way in (database.read, database.change, database.alone):
        extra = 3
        assert way(settings) == [extra, "delete", 1]
    database.close()


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def own_ledger(own_server: PostgresServer) -> Iterator[PrivacyLedger]:
    ledger = PrivacyLedger(own_server.create_database())
    ledger.migrate()
    ledger.open_account("visits", epsilon="100")
    yield ledger
    ledger.close()


def crash(server: PostgresServer) -> None:
    server.stop_hard()
    server.start()


@pytest.mark.verify
@pytest.mark.postgres
def test_answered_changes_outlive_a_crash_of_the_server(own_ledger: PrivacyLedger, own_server: PostgresServer) -> None:
    answered = []
    for number in range(3):
        answered.append(own_ledger.reserve("visits", release=f"r{number}", epsilon="0.1"))
        crash(own_server)
        answered[number] = commit(own_ledger, answered[number].id, "manifest")
        crash(own_server)
    assert own_ledger.history("visits") == tuple(answered)
    assert own_ledger.verification().findings == ()


UNFLUSHED = """
SET synchronous_commit = off;
INSERT INTO charges (id, account, release_key, generation, entry, state, epsilon, delta, blocks, events, request_sha256,
    actor, reserved_at, renewed_at)
VALUES ('left', 'visits', 'r', 1, 0, 'reserved', '0.1', '0', '["all"]', '[]', '', '', '', '')
"""


@pytest.mark.verify
@pytest.mark.postgres
@pytest.mark.parametrize(
    "look",
    [
        lambda ledger: ledger.find_charge("visits", "r") is not None,
        lambda ledger: ledger.remaining("visits").epsilon < 100,
        lambda ledger: ledger.head().seq == 2,
        lambda ledger: ledger.verification().head.seq == 2,
        lambda ledger: ledger.reserve("visits", release="r", epsilon="0.1").generation == 1,
    ],
    ids=["find_charge", "remaining", "head", "verify", "reserve"],
)
def test_what_a_reader_saw_outlives_a_crash_of_the_server(
    own_ledger: PrivacyLedger, own_server: PostgresServer, look: Callable[[PrivacyLedger], bool]
) -> None:
    """The writer dies before its change is on disk; whoever was told of the change may rely on it all the same."""
    own_server.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")  # or the change reaches the disk by itself
    own_server.execute("SELECT pg_reload_conf()")
    own_ledger.remaining("visits")

    # as a writer does that dies between its two commits
    own_server.execute(UNFLUSHED, own_ledger.name.replace("%2F", "/"))
    seen = look(own_ledger)
    crash(own_server)
    assert seen
    assert own_ledger.find_charge("visits", "r") is not None


@pytest.mark.postgres
def test_server_that_is_down_makes_the_ledger_unavailable_until_it_is_back(
    own_ledger: PrivacyLedger, own_server: PostgresServer
) -> None:
    charge = own_ledger.reserve("visits", release="r", epsilon="0.1")
    own_server.stop_hard()
    with pytest.raises(LedgerUnavailable, match="nothing is released until it answers"):
        commit(own_ledger, charge.id)
    own_server.start()
    assert commit(own_ledger, charge.id).state == "committed"
