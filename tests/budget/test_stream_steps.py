"""The steps of a stream are one chain of hashes: no fork, no gap and no change is ever recorded."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from dp_operators.budget import Charge, ChargeConflict, LedgerFrozen, NotAllowed, PrivacyLedger
from dp_operators.budget.transfer import move
from dp_operators.budget.values import StreamHead
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import execute, tamper

GENESIS, A, B, C = "0" * 64, "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def charge(ledger: PrivacyLedger) -> Charge:
    ledger.open_account("visits", epsilon="1")
    charge = ledger.reserve("visits", release="stream", epsilon="0.25")
    ledger.start_run(charge.id)
    return charge


def record(ledger: PrivacyLedger, charge: Charge, first: int, steps: int, *hashes: str, **more: object) -> StreamHead:
    previous, content = hashes
    return ledger.record_steps(
        charge.id, first=first, steps=steps, object_sha256=content, previous_sha256=previous, **more
    )


def test_steps_follow_each_other_and_are_in_the_log(ledger: PrivacyLedger, charge: Charge) -> None:
    assert ledger.stream_head(charge.id) == StreamHead()
    assert record(ledger, charge, 0, 24, GENESIS, A, actor="worker") == StreamHead(steps=24, sha256=A, first=0)
    assert (
        record(ledger, charge, 24, 1, A, B) == ledger.stream_head(charge.id) == StreamHead(steps=25, sha256=B, first=24)
    )
    assert [(steps.first, steps.object_sha256) for steps in ledger.recorded_steps(charge.id)] == [(0, A), (24, B)]
    entries = [entry for entry in ledger.log("visits") if entry.action == "steps recorded"]
    assert [(entry.actor, entry.charge) for entry in entries] == [("worker", charge.id), ("", charge.id)]
    assert ledger.verification().findings == ()


def test_repeating_changes_nothing(ledger: PrivacyLedger, charge: Charge) -> None:
    record(ledger, charge, 0, 2, GENESIS, A)
    record(ledger, charge, 2, 2, A, B)
    head = ledger.head()
    assert record(ledger, charge, 0, 2, GENESIS, A) == StreamHead(steps=4, sha256=B, first=2)
    assert ledger.head() == head


@pytest.mark.parametrize(
    ("first", "steps", "previous", "content", "line"),
    [
        (0, 2, GENESIS, C, "steps: got '0 to 1'; are recorded already, with another object"),
        (0, 1, GENESIS, A, "steps: got '0 to 0'; are recorded already, with another object"),
        (1, 1, A, C, "steps: got '1 to 1'; are recorded already, with another object"),
        (2, 1, GENESIS, C, "steps: got '2 to 2'; do not follow the last ones: the stream is at step 2"),
        (3, 1, A, C, "steps: got '3 to 3'; do not follow the last ones"),
        (2, 1, B, C, "steps: got '2 to 2'; do not follow the last ones"),
    ],
)
def test_forks_gaps_and_steps_out_of_order_are_refused(
    ledger: PrivacyLedger, charge: Charge, first: int, steps: int, previous: str, content: str, line: str
) -> None:
    record(ledger, charge, 0, 2, GENESIS, A)
    head = ledger.head()
    with pytest.raises(ChargeConflict) as refused:
        record(ledger, charge, first, steps, previous, content)
    assert str(refused.value).startswith(line)
    assert ledger.head() == head


def test_nothing_is_recorded_for_a_charge_that_ended(ledger: PrivacyLedger, charge: Charge) -> None:
    ledger.burn(charge.id, reason="ended")
    with pytest.raises(ChargeConflict, match="cannot be recorded: charge .* is burnt"):
        record(ledger, charge, 0, 1, GENESIS, A)


def test_a_committed_charge_pays_for_all_later_steps(ledger: PrivacyLedger, charge: Charge) -> None:
    record(ledger, charge, 0, 1, GENESIS, A)
    ledger.record_draw(charge.id, A)
    ledger.commit(charge.id, C)
    assert record(ledger, charge, 1, 1, A, B).steps == 2
    assert ledger.verification().findings == ()


def test_a_frozen_ledger_takes_only_what_a_restored_one_forgot(ledger: PrivacyLedger, charge: Charge) -> None:
    ledger.freeze(reason="restored")
    with pytest.raises(LedgerFrozen):
        record(ledger, charge, 0, 1, GENESIS, A)
    record(ledger, charge, 0, 1, GENESIS, A, restored=True, reason="reconciled from here")
    assert ledger.stream_head(charge.id).steps == 1
    assert ledger.verification().findings == ()


def test_no_charge_and_no_hash_are_one_line(ledger: PrivacyLedger, charge: Charge) -> None:
    with pytest.raises(InvalidRequest, match="charge: got 'x'; must be a charge of this ledger"):
        ledger.record_steps("x", first=0, steps=1, object_sha256=A, previous_sha256=GENESIS)
    with pytest.raises(InvalidRequest, match="object_sha256: got 'x'"):
        ledger.record_steps(charge.id, first=0, steps=1, object_sha256="x", previous_sha256=GENESIS)


def test_of_many_objects_for_a_step_one_is_recorded(ledger: PrivacyLedger, charge: Charge) -> None:
    def attempt(digit: int) -> bool:
        try:
            record(ledger, charge, 0, 1, GENESIS, f"{digit:064x}")
        except ChargeConflict:
            return False
        return True

    with ThreadPoolExecutor(max_workers=4) as pool:
        assert sum(pool.map(attempt, range(1, 9))) == 1
    assert len(ledger.recorded_steps(charge.id)) == 1
    assert ledger.verification().findings == ()


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE stream_steps SET object_sha256 = '{C}'",
        "DELETE FROM stream_steps",
        "INSERT INTO stream_steps (charge, first, steps, object_sha256, previous_sha256, recorded_at, recorded_by) "
        f"SELECT charge, 5, 1, '{C}', '{A}', '', '' FROM stream_steps",
    ],
)
def test_the_database_itself_keeps_the_chain(
    ledger: PrivacyLedger, ledger_url: str, charge: Charge, statement: str
) -> None:
    record(ledger, charge, 0, 2, GENESIS, A)
    with pytest.raises((DBAPIError, psycopg.Error), match="what is recorded stays|do not follow the last ones"):
        execute(ledger_url, statement)
    assert ledger.verification().findings == ()


def test_verification_finds_a_changed_chain(ledger: PrivacyLedger, ledger_url: str, charge: Charge) -> None:
    record(ledger, charge, 0, 2, GENESIS, A)
    drop = "steps_stay_on_update" if ledger_url.startswith("sqlite") else "steps_stay ON stream_steps"
    tamper(ledger_url, f"DROP TRIGGER {drop}", f"UPDATE stream_steps SET object_sha256 = '{C}'")
    assert ledger.verification().findings == (
        f"steps of charge {charge.id}, 0: object_sha256 is {C}, the log says {A}",
    )


def test_a_stream_moves_with_its_ledger(ledger: PrivacyLedger, charge: Charge, tmp_path: Path) -> None:
    record(ledger, charge, 0, 2, GENESIS, A)
    record(ledger, charge, 2, 2, A, B)
    target = PrivacyLedger(f"sqlite:///{tmp_path}/moved.db")
    move(ledger, target, actor="admin")
    assert target.stream_head(charge.id) == StreamHead(steps=4, sha256=B, first=2)
    assert target.verification().findings == ()


@pytest.mark.postgres
def test_on_a_server_a_charger_records_and_a_viewer_does_not(owner: PrivacyLedger, as_role: Callable[..., str]) -> None:
    mine = owner.reserve("visits", release="stream", epsilon="0.125", blocks=("2026-11-21",))
    others = owner.reserve("others", release="stream", epsilon="0.125")
    for each in (mine, others):
        owner.start_run(each.id)
    charging, viewing = PrivacyLedger(as_role("charge", account="visits")), PrivacyLedger(as_role("view"))
    record(charging, mine, 0, 1, GENESIS, A)
    assert viewing.stream_head(mine.id).steps == 1
    with pytest.raises(NotAllowed):
        record(viewing, mine, 1, 1, A, B)
    with pytest.raises(InvalidRequest, match="must be a charge of this ledger"):
        record(charging, others, 0, 1, GENESIS, A)
    assert owner.verification().findings == ()
