"""A ledger that moves takes its whole log along, and what stays behind can no longer be charged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.transfer import move
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import commit, execute, killed_at, new_ledger


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
    assert [(entry.action, entry.actor) for entry in target.log()[-2:]] == [("frozen", "dba"), ("thawed", "dba")]
    commit(target, history[1].id, "cd")
    with pytest.raises(InvalidRequest, match="is frozen .moved to "):
        commit(source, history[1].id, "cd")
    assert target.verification().findings == ()
    with pytest.raises(InvalidRequest, match="must be an empty ledger"):
        move(source, target, actor="dba")
    target.close()


@pytest.mark.parametrize("failpoint", ["ledger_before_commit", "ledger_after_commit"])
def test_interrupted_move_can_be_made_again(source: PrivacyLedger, tmp_path: Path, failpoint: str) -> None:
    """Killed at its first change, the freezing; nothing was copied, and the old ledger is still the one."""
    target = new_ledger(tmp_path / "new.db")
    killed_at(failpoint, lambda: move(source, target, actor="dba"))
    assert target.head().seq == 0
    move(source, target, actor="dba")
    assert target.history("visits") == source.history("visits")


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("failpoint", ["ledger_before_commit", "ledger_after_commit"])
@pytest.mark.parametrize("passed", range(4))
def test_move_killed_at_any_of_its_changes_leaves_one_whole_ledger(
    source: PrivacyLedger, empty_ledger_url: str, failpoint: str, passed: int
) -> None:
    """Frozen, copied, thawed: whichever was the last, no charge is lost and no two ledgers take charges."""
    before = source.history("visits")
    target = PrivacyLedger(empty_ledger_url)
    target.migrate()
    killed_at(f"{failpoint}:after:{passed}", lambda: move(source, target, actor="dba"))
    assert source.verification().findings == ()
    assert target.verification().findings == ()
    copied = target.head().seq > 0
    assert not copied or is_frozen(source)
    if not copied:
        move(source, target, actor="dba")
    else:
        with pytest.raises(InvalidRequest, match="must be an empty ledger"):
            move(source, target, actor="dba")
        if is_frozen(target):
            target.thaw(actor="dba", reason="moved")
    assert is_frozen(source)
    assert not is_frozen(target)
    assert target.history("visits") == before
    assert target.verification().findings == ()
    target.close()


def is_frozen(ledger: PrivacyLedger) -> bool:
    """Whether it takes no charge; one that it takes is given back."""
    try:
        charge = ledger.reserve("rho", release="probe", rho="0.001")
    except InvalidRequest as refused:
        return "is frozen" in str(refused)
    ledger.void(charge.id)
    return False


def test_damaged_ledger_is_not_moved(source: PrivacyLedger, tmp_path: Path) -> None:
    execute(source.name, "UPDATE block_totals SET epsilon = '0'")
    target = PrivacyLedger(f"sqlite:///{tmp_path}/new.db")
    with pytest.raises(InvalidRequest, match="must be sound: total visits"):
        move(source, target, actor="dba")
    assert source.frozen() == ""
    with pytest.raises(InvalidRequest, match="must be another database"):
        move(source, source, actor="dba")
