"""A charge knows when an application was started for it, and its one draw; what may have been drawn is spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from dp_operators.budget import Charge, ChargeConflict, PrivacyLedger
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import DRAW, commit, tamper

OTHER = "e" * 64
WORKERS = 8


@pytest.fixture
def charge(ledger: PrivacyLedger) -> Charge:
    ledger.open_account("visits", epsilon="1")
    return ledger.reserve("visits", release="r", epsilon="0.25")


def left(ledger: PrivacyLedger) -> Decimal:
    return ledger.remaining("visits").epsilon


def test_run_is_in_the_log_before_it_happens_and_hands_out_the_charges_secret(
    ledger: PrivacyLedger, charge: Charge
) -> None:
    first, second = ledger.start_run(charge.id, actor="worker"), ledger.start_run(charge.id)
    assert (first.number, second.number) == (1, 2)
    assert first.key == second.key == ledger.run_key(charge.id)
    assert len(first.key) == 32
    assert first.key != ledger.run_key(ledger.reserve("visits", release="other", epsilon="0.25").id)
    started = [entry for entry in ledger.log("visits") if entry.action == "run started"]
    assert [(entry.actor, entry.details) for entry in started] == [("worker", '{"run":1}'), ("", '{"run":2}')]
    assert ledger.charge(charge.id).open_runs == (1, 2)
    assert ledger.verification().findings == ()


def test_secret_is_in_no_log_and_no_text(ledger: PrivacyLedger, charge: Charge) -> None:
    run = ledger.start_run(charge.id)
    said = repr((run, ledger.charge(charge.id), ledger.log(), ledger.history("visits")))
    assert run.key.hex() not in said
    assert repr(run.key) not in said


REASONS: dict[str, tuple[Callable[[PrivacyLedger, str], object], str]] = {
    "a run": (lambda ledger, charge: ledger.start_run(charge), "an application was started for it"),
    "one run of two": (
        lambda ledger, charge: (ledger.start_run(charge), ledger.start_run(charge), ledger.end_run(charge, 1)),
        "an application was started for it",
    ),
    "a draw": (lambda ledger, charge: ledger.record_draw(charge, DRAW), "its draw is recorded"),
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_may_have_been_drawn_is_never_given_back(ledger: PrivacyLedger, charge: Charge, reason: str) -> None:
    begin, why = REASONS[reason]
    begin(ledger, charge.id)
    head = ledger.head()
    with pytest.raises(ChargeConflict, match=f"can no longer be void: {why}, .*; burn it, which leaves its cost spent"):
        ledger.void(charge.id)
    assert ledger.head() == head
    assert left(ledger) == Decimal("0.75")
    assert ledger.burn(charge.id).state == "burnt"
    assert left(ledger) == Decimal("0.75")
    assert ledger.verification().findings == ()


def test_run_that_read_no_row_is_ended_and_the_charge_given_back(ledger: PrivacyLedger, charge: Charge) -> None:
    run = ledger.start_run(charge.id)
    ended = ledger.end_run(charge.id, run.number, actor="worker")
    assert ended == ledger.end_run(charge.id, run.number) == ledger.charge(charge.id)
    assert (ended.runs, ended.open_runs, ended.may_have_drawn) == (1, (), False)
    assert ledger.void(charge.id).state == "void"
    assert left(ledger) == 1
    assert [entry.action for entry in ledger.log("visits")][2:] == ["run started", "run ended", "void"]
    assert ledger.verification().findings == ()


@pytest.mark.parametrize("number", [0, 2, -1])
def test_run_that_never_was_is_not_ended(ledger: PrivacyLedger, charge: Charge, number: int) -> None:
    ledger.start_run(charge.id)
    with pytest.raises(InvalidRequest, match=f"run: got {number}; must be a run of charge"):
        ledger.end_run(charge.id, number)


def test_charge_has_one_draw(ledger: PrivacyLedger, charge: Charge) -> None:
    ledger.start_run(charge.id)
    drawn = ledger.record_draw(charge.id, DRAW, actor="worker")
    assert drawn.draw_sha256 == DRAW
    assert ledger.record_draw(charge.id, DRAW) == drawn
    head = ledger.head()
    with pytest.raises(ChargeConflict, match=f"draw: got '{OTHER}'; is not the draw of charge .*, which is {DRAW}"):
        ledger.record_draw(charge.id, OTHER)
    with pytest.raises(InvalidRequest, match="draw_sha256: got 'ab'; must be 64 hexadecimal digits"):
        ledger.record_draw(charge.id, "ab")
    assert ledger.head() == head
    ledger.commit(charge.id, "m")
    assert ledger.record_draw(charge.id, DRAW).state == "committed"
    assert ledger.verification().findings == ()


def test_commit_without_a_recorded_draw_is_refused(ledger: PrivacyLedger, charge: Charge) -> None:
    head = ledger.head()
    with pytest.raises(ChargeConflict, match="must have a recorded draw to be committed"):
        ledger.commit(charge.id, "m")
    assert ledger.head() == head


@pytest.mark.parametrize("end", ["burn", "void"])
def test_nothing_runs_or_draws_for_a_charge_that_has_ended(ledger: PrivacyLedger, charge: Charge, end: str) -> None:
    getattr(ledger, end)(charge.id)
    for call in (lambda: ledger.start_run(charge.id), lambda: ledger.record_draw(charge.id, DRAW)):
        with pytest.raises(ChargeConflict, match="is (burnt|void), and no"):
            call()
    assert ledger.verification().findings == ()


def test_files_of_a_committed_release_are_made_again_by_a_further_run(ledger: PrivacyLedger, charge: Charge) -> None:
    key = ledger.start_run(charge.id).key
    commit(ledger, charge.id, "m")
    again = ledger.start_run(charge.id)
    assert (again.number, again.key) == (2, key)
    with pytest.raises(ChargeConflict, match="is committed, and its runs can no longer change"):
        ledger.end_run(charge.id, 2)
    assert ledger.verification().findings == ()


def test_frozen_ledger_starts_and_draws_nothing(ledger: PrivacyLedger, charge: Charge) -> None:
    ledger.start_run(charge.id)
    ledger.freeze(reason="it was restored")
    for call in (
        lambda: ledger.start_run(charge.id),
        lambda: ledger.end_run(charge.id, 1),
        lambda: ledger.record_draw(charge.id, DRAW),
    ):
        with pytest.raises(InvalidRequest, match="is frozen"):
            call()


def test_restored_charge_counts_as_spent_and_its_old_draft_cannot_be_opened(
    ledger: PrivacyLedger, charge: Charge
) -> None:
    ledger.freeze(reason="it was restored")
    order: dict[str, Any] = {"epsilon": "0.25", "request_sha256": "ab", "actor": "dba", "reason": "found"}
    forgotten = ledger.restore("visits", id="forgotten", release="old", **order)
    seen = ledger.restore("visits", id="seen", release="visible", **order)
    assert (forgotten.runs, forgotten.open_runs, seen.may_have_drawn) == (1, (1,), True)
    committed = ledger.restore_commit(seen.id, "m", actor="dba", reason="visible")
    assert (committed.state, committed.draw_sha256) == ("committed", "")
    ledger.thaw(actor="dba", reason="reconciled")
    assert ledger.start_run(forgotten.id).number == 2
    with pytest.raises(ChargeConflict, match="can no longer be void"):
        ledger.void(forgotten.id)
    assert left(ledger) == Decimal("0.25")
    assert ledger.verification().findings == ()


RACES: dict[str, Callable[[PrivacyLedger, str], Any]] = {
    "start": lambda ledger, charge: ledger.start_run(charge) and "started",
    "draw": lambda ledger, charge: ledger.record_draw(charge, DRAW) and "drawn",
    "void": lambda ledger, charge: ledger.void(charge) and "void",
    "burn": lambda ledger, charge: ledger.burn(charge) and "burnt",
}


@pytest.mark.parametrize("rivals", [("start", "void"), ("draw", "void"), ("start", "draw", "void", "burn")], ids=str)
def test_race_never_gives_back_what_may_have_been_drawn(ledger: PrivacyLedger, rivals: tuple[str, ...]) -> None:
    ledger.open_account("visits", epsilon="10")
    outcomes: Counter[str] = Counter()
    for number in range(6):
        charge = ledger.reserve("visits", release=f"r{number}", epsilon="0.25")

        def attempt(worker: int, charge: Charge = charge) -> str:
            try:
                return str(RACES[rivals[worker % len(rivals)]](ledger, charge.id))
            except ChargeConflict:
                return "conflict"

        with ThreadPoolExecutor(WORKERS) as pool:
            told = set(pool.map(attempt, range(WORKERS)))
        outcomes.update(told)
        assert not ({"started", "drawn"} & told and "void" in told)
        assert not {"burnt", "void"} <= told
        assert ledger.charge(charge.id).may_have_drawn == bool({"started", "drawn"} & told)
    assert outcomes["conflict"]
    assert ledger.verification().findings == ()


def test_race_of_draws_has_one_winner(ledger: PrivacyLedger, charge: Charge) -> None:
    hashes = [f"{number:064x}" for number in range(WORKERS)]

    def record(digest: str) -> str:
        try:
            return str(ledger.record_draw(charge.id, digest).draw_sha256)
        except ChargeConflict:
            return "conflict"

    with ThreadPoolExecutor(WORKERS) as pool:
        told = Counter(pool.map(record, hashes))
    assert told == {ledger.charge(charge.id).draw_sha256: 1, "conflict": WORKERS - 1}
    assert ledger.verification().findings == ()


TAMPERING = [
    ("UPDATE charges SET open_runs = '[]'", "open_runs is [], the log says [1]"),
    ("UPDATE charges SET runs = 0", "runs is 0, the log says 1"),
    (f"UPDATE charges SET draw_sha256 = '{OTHER}'", "draw_sha256 is eeee"),
]


@pytest.mark.parametrize(("tampering", "finding"), TAMPERING)
def test_log_says_what_ran_and_what_was_drawn(
    ledger: PrivacyLedger, ledger_url: str, charge: Charge, tampering: str, finding: str
) -> None:
    ledger.start_run(charge.id)
    ledger.record_draw(charge.id, DRAW)
    assert ledger.verification().findings == ()
    tamper(ledger_url, tampering)
    [found] = ledger.verification().findings
    assert finding in found
