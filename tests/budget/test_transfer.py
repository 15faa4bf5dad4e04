"""A ledger that moves takes its whole log along, and what stays behind can no longer be charged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from dp_operators.budget import LedgerUnavailable, PrivacyLedger
from dp_operators.budget.tables.audit import GENESIS
from dp_operators.budget.transfer import move
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import BOTH, commit, execute, in_processes, killed_at, new_ledger
from tests.support.postgres import PostgresServer


@pytest.fixture
def source(tmp_path: Path) -> Iterator[PrivacyLedger]:
    ledger = new_ledger(tmp_path / "old.db")
    ledger.open_account("visits", epsilon="2", blocks="day(at)", tables=["/lake/visits"])
    ledger.open_account("rho", composition="zcdp", rho="0.5", delta="1e-6")
    ledger.allot("visits", "team", epsilon="1")
    charge = ledger.reserve("visits", release="a", epsilon="0.5", blocks=["2026-11-20", "2026-11-21"], allotment="team")
    commit(ledger, charge.id, "ab")
    ledger.reserve("visits", release="b", epsilon="0.5", blocks="2026-11-21..2026-11-24")
    ledger.void(ledger.reserve("rho", release="c", rho="0.1").id)
    stream = ledger.reserve("visits", release="stream", epsilon="0.5", blocks="2026-11-30")
    ledger.start_run(stream.id, actor="worker")
    ledger.record_steps(stream.id, first=0, steps=4, object_sha256="a" * 64, previous_sha256=GENESIS)
    yield ledger
    ledger.close()


@pytest.mark.slow
def test_moved_ledger_is_the_same_and_goes_on(source: PrivacyLedger, empty_ledger_url: str) -> None:
    target = PrivacyLedger(empty_ledger_url)
    history, blocks = source.history("visits"), source.blocks("visits")
    head = move(source, target, actor="dba")
    assert head == target.head()
    assert target.verification().findings == ()
    assert (target.history("visits"), target.blocks("visits")) == (history, blocks)
    assert target.accounts() == source.accounts()
    assert target.log()[: len(source.log())] == source.log()
    assert [(entry.action, entry.actor) for entry in target.log()[-2:]] == [("moved", "dba"), ("arrived", "dba")]
    commit(target, history[1].id, "cd")
    with pytest.raises(InvalidRequest, match="is frozen .moved to "):
        commit(source, history[1].id, "cd")
    assert target.verification().findings == ()
    assert move(source, target, actor="dba") == target.head()
    with pytest.raises(InvalidRequest, match="must be an empty ledger"):
        move(target, source, actor="dba")
    target.close()


def is_live(ledger: PrivacyLedger) -> bool:
    """Whether it takes a charge; one that it takes is given back."""
    try:
        charge = ledger.reserve("rho", release="probe", rho="0.001")
    except (InvalidRequest, LedgerUnavailable) as refused:
        return not re.search("is frozen|has no privacy ledger|must be an open account", str(refused))
    ledger.void(charge.id)
    return True


def thaws(ledger: PrivacyLedger) -> None:
    """Somebody tries to make it live."""
    with suppress(InvalidRequest):
        ledger.thaw(actor="dba", reason="it should work")


@pytest.fixture(params=BOTH)
def two_urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The URLs of two databases without a ledger, once of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/new.db", f"sqlite:///{tmp_path}/newer.db"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    made = server.create_database(), server.create_database()
    yield made
    for url in made:
        server.drop_database(url)


@pytest.mark.parametrize("restored", ["", "restored from a backup"])
def test_moved_ledger_is_neither_moved_nor_thawed(
    source: PrivacyLedger, two_urls: tuple[str, str], restored: str
) -> None:
    if restored:
        source.freeze(actor="dba", reason=restored)
    first, second = map(PrivacyLedger, two_urls)
    head = move(source, first, actor="dba")
    for _ in range(2):
        with pytest.raises(InvalidRequest, match=f"was moved to {re.escape(first.name)}, and is never live again"):
            move(source, second, actor="dba")
        with pytest.raises(InvalidRequest, match="was moved to .*use the ledger there"):
            source.thaw(actor="dba", reason="it should work")
    with pytest.raises(InvalidRequest, match="is frozen .moved to .*; use the ledger to which it was moved"):
        source.open_account("more", epsilon="1")
    thaws(second)
    assert [is_live(ledger) for ledger in (source, first, second)] == [False, not restored, False]
    assert first.frozen() == restored  # what was frozen for a reason is not thawed by a move
    assert move(source, first, actor="another") in (head, first.head())
    for ledger in (source, first):
        assert ledger.verification().findings == ()
    first.close()
    second.close()


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("failpoint", ["ledger_before_commit", "ledger_after_commit"])
@pytest.mark.parametrize("passed", range(4))
@pytest.mark.parametrize("then", ["repeat", "elsewhere", "go on"])
def test_move_killed_at_any_of_its_changes_leaves_one_live_ledger(
    source: PrivacyLedger, two_urls: tuple[str, str], failpoint: str, passed: int, then: str
) -> None:
    """Prepared, copied, left, arrived: whichever was the last, no charge is lost and no two ledgers take charges."""
    before = source.history("visits")
    first, second = map(PrivacyLedger, two_urls)
    first.migrate()
    killed_at(f"{failpoint}:after:{passed}", lambda: move(source, first, actor="dba"))
    for ledger in (source, first):
        thaws(ledger)
        assert ledger.verification().findings == ()
    left = bool(execute(source.name, "SELECT moved FROM audit_head WHERE moved <> ''"))
    assert is_live(source) is not left
    assert not (is_live(source) and is_live(first))
    target = first
    if then == "go on" and not left:
        source.void(source.reserve("rho", release="meanwhile", rho="0.001").id)
    if then == "elsewhere":
        target = first if left else second
        if left:
            with pytest.raises(InvalidRequest, match="was moved to "):
                move(source, second, actor="dba")
        else:
            move(source, second, actor="dba")
            with pytest.raises(InvalidRequest, match="was moved to "):
                move(source, first, actor="dba")
            thaws(first)
            assert not is_live(first)
    move(source, target, actor="dba")
    thaws(source)
    assert not is_live(source)
    assert is_live(target)
    assert target.history("visits") == before
    assert target.log()[: len(source.log())] == source.log()
    assert target.verification().findings == source.verification().findings == ()
    first.close()
    second.close()


@pytest.mark.slow
def test_moves_at_once_make_one_ledger(source: PrivacyLedger, two_urls: tuple[str, str]) -> None:
    before = source.history("visits")
    urls = (*two_urls, *two_urls)

    def attempt(number: int) -> str:
        target = PrivacyLedger(urls[number])
        try:
            move(PrivacyLedger(source._database._url.render_as_string()), target, actor="dba")
        except (InvalidRequest, LedgerUnavailable) as refused:
            return str(refused)
        return "moved"

    done = in_processes(attempt, 4)
    targets = [PrivacyLedger(url) for url in two_urls]
    assert "moved" in done
    assert all(re.search("^moved$|was moved to |locked", answer) for answer in done)
    assert sum(map(is_live, (source, *targets))) == 1
    [live] = filter(is_live, targets)
    assert live.history("visits") == before
    assert live.verification().findings == ()
    for target in targets:
        target.close()


@pytest.mark.postgres
def test_server_refuses_every_entry_of_a_moved_ledger(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """Whatever SQL a role runs, its owner's included."""
    url = postgres_server.create_database()
    old, new = PrivacyLedger(url), new_ledger(tmp_path / "new.db")
    old.migrate()
    old.open_account("visits", epsilon="1")
    charge = old.reserve("visits", release="a", epsilon="0.5")
    move(old, PrivacyLedger(f"sqlite:///{tmp_path}/newer.db"), actor="dba")
    entry = "INSERT INTO audit_log (at, actor, action, account, charge, reason, details) VALUES"
    for forged in (
        f"{entry} ('', 'a', 'thawed', '', '', 'b', '{{}}')",
        f"{entry} ('', 'a', 'reserved', 'visits', '', 'b', '@')".replace("@", '{"runs" : "1"}'),
        f"{entry} ('', 'a', 'moved', '', '', 'b', '@')".replace("@", '{"to" : "elsewhere"}'),
        f"UPDATE charges SET state = 'burnt' WHERE id = '{charge.id}'",
        "INSERT INTO charges SELECT 'x', account, 'b', 1, 0, state, epsilon, delta, rho, blocks, events, request_sha256"
        " FROM charges",
    ):
        with pytest.raises(DBAPIError):
            execute(url, forged)
    assert old.verification().findings == ()
    old.close()
    new.close()
    postgres_server.drop_database(url)


def test_ledger_that_goes_on_after_its_move_does_not_verify(source: PrivacyLedger, tmp_path: Path) -> None:
    move(source, PrivacyLedger(f"sqlite:///{tmp_path}/new.db"), actor="dba")
    execute(source.name, "UPDATE audit_head SET moved = '', frozen = ''")
    assert any("was moved to" in finding for finding in source.verification().findings)


def test_damaged_ledger_is_not_moved(source: PrivacyLedger, tmp_path: Path) -> None:
    execute(source.name, "UPDATE block_totals SET epsilon = '0'")
    target = PrivacyLedger(f"sqlite:///{tmp_path}/new.db")
    with pytest.raises(InvalidRequest, match="must be sound: total visits"):
        move(source, target, actor="dba")
    assert source.frozen() == ""
    with pytest.raises(InvalidRequest, match="must be another database"):
        move(source, source, actor="dba")
