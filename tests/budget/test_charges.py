from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest

from dp_operators.budget import (
    BudgetExceeded,
    Charge,
    ChargeConflict,
    ChargeState,
    LedgerFrozen,
    LedgerUnavailable,
    NotAllowed,
    PrivacyLedger,
)
from spark_jobs.contract import InvalidRequest, Neighbours, PrivacyUnit
from tests.support.ledgers import DRAW, commit, tamper

REQUEST, OTHER = "a" * 64, "b" * 64
MANIFEST = "c" * 64


@pytest.fixture
def charged(ledger: PrivacyLedger) -> Charge:
    ledger.open_account("visits", epsilon="1", tables=["/lake/visits"])
    return ledger.reserve("visits", release="first", epsilon="0.4", request_sha256=REQUEST, actor="dag/task")


def settle(ledger: PrivacyLedger, verb: str, charge: str, *given: str, **told: str) -> Charge:
    if verb == "commit":
        ledger.record_draw(charge, DRAW)
    settled: Charge = getattr(ledger, verb)(charge, *given, **told)
    return settled


def left(ledger: PrivacyLedger) -> Decimal:
    return ledger.remaining("visits").epsilon


def test_reservation_says_what_it_is_and_counts_as_spent(ledger: PrivacyLedger, charged: Charge) -> None:
    assert charged.state == "reserved"
    assert (charged.account, charged.release, charged.generation) == ("visits", "first", 1)
    assert charged.cost.epsilon == Decimal("0.4")
    assert charged.blocks == ("all",)
    assert charged.request_sha256 == REQUEST
    assert charged.manifest_sha256 is None
    assert charged.settled_at is None
    assert (charged.actor, charged.neighbours, charged.unit) == ("dag/task", Neighbours.ADD_REMOVE, PrivacyUnit())
    assert ledger.charge(charged.id) == ledger.find_charge("visits", "first") == charged
    assert left(ledger) == Decimal("0.6")


def test_reserving_again_finds_the_same_charge(ledger: PrivacyLedger, charged: Charge) -> None:
    again = ledger.reserve("visits", release="first", epsilon=0.40, request_sha256=REQUEST, actor="a retry")
    assert again == charged
    assert left(ledger) == Decimal("0.6")
    assert len(ledger.history("visits")) == 1


@pytest.mark.parametrize(
    "change", [{"request_sha256": OTHER}, {"request_sha256": ""}, {"epsilon": "0.3"}, {"epsilon": "0.5"}]
)
def test_key_pays_for_one_request_at_one_cost(ledger: PrivacyLedger, charged: Charge, change: dict) -> None:
    with pytest.raises(ChargeConflict, match="release: got 'first'; is reserved for another request, cost or blocks"):
        ledger.reserve("visits", release="first", **{"epsilon": "0.4", "request_sha256": REQUEST, **change})
    assert left(ledger) == Decimal("0.6")
    assert ledger.charge(charged.id) == charged


def test_accounts_keep_their_keys_apart(ledger: PrivacyLedger, charged: Charge) -> None:
    ledger.open_account("others", epsilon="1")
    other = ledger.reserve("others", release="first", epsilon="0.9", request_sha256=OTHER)
    assert other.id != charged.id
    assert left(ledger) == Decimal("0.6")
    assert ledger.remaining("others").epsilon == Decimal("0.1")
    assert [charge.id for charge in ledger.history("visits")] == [charged.id]


FINAL = [
    ("commit", (MANIFEST,), ChargeState.COMMITTED, "0.6"),
    ("commit", (), ChargeState.COMMITTED, "0.6"),
    ("burn", (), ChargeState.BURNT, "0.6"),
    ("void", (), ChargeState.VOID, "1"),
]


@pytest.mark.parametrize(("verb", "given", "state", "remaining"), FINAL)
def test_charge_is_settled_once_and_then_found_settled(
    ledger: PrivacyLedger, charged: Charge, verb: str, given: tuple[str, ...], state: ChargeState, remaining: str
) -> None:
    settled = settle(ledger, verb, charged.id, *given, actor="worker")
    assert settled.state is state
    assert settled.manifest_sha256 == (given[0] if given else None)
    assert settled.settled_at is not None
    assert left(ledger) == Decimal(remaining)

    assert getattr(ledger, verb)(charged.id, *given, actor="another") == settled == ledger.charge(charged.id)
    assert left(ledger) == Decimal(remaining)
    drawn = ["draw recorded"] if verb == "commit" else []
    assert [entry.action for entry in ledger.log("visits")] == ["opened", "reserved", *drawn, state.value]
    assert ledger.verify()


@pytest.mark.parametrize(("verb", "given", "state", "remaining"), FINAL)
@pytest.mark.parametrize(("then", "then_given"), [(verb, given) for verb, given, _, _ in FINAL])
def test_settled_charge_is_never_settled_otherwise(
    ledger: PrivacyLedger,
    charged: Charge,
    verb: str,
    given: tuple[str, ...],
    state: ChargeState,
    remaining: str,
    then: str,
    then_given: tuple[str, ...],
) -> None:
    settled = settle(ledger, verb, charged.id, *given)
    if (then, then_given) != (verb, given):
        with pytest.raises(ChargeConflict, match=f"charge: got '{charged.id}'; is {state}"):
            getattr(ledger, then)(charged.id, *then_given)
    assert ledger.charge(charged.id) == settled
    assert left(ledger) == Decimal(remaining)


def test_committed_charge_keeps_its_one_manifest(ledger: PrivacyLedger, charged: Charge) -> None:
    commit(ledger, charged.id, MANIFEST)
    with pytest.raises(ChargeConflict, match="is committed with another manifest, cccc"):
        commit(ledger, charged.id, OTHER)
    assert ledger.charge(charged.id).manifest_sha256 == MANIFEST


@pytest.mark.parametrize(("verb", "state"), [("commit", "committed"), ("burn", "burnt")])
def test_spent_key_is_never_charged_again(ledger: PrivacyLedger, charged: Charge, verb: str, state: str) -> None:
    settled = settle(ledger, verb, charged.id)
    assert ledger.reserve("visits", release="first", epsilon="0.4", request_sha256=REQUEST) == settled
    with pytest.raises(ChargeConflict, match=f"is {state} for another request"):
        ledger.reserve("visits", release="first", epsilon="0.4", request_sha256=OTHER)
    assert left(ledger) == Decimal("0.6")


def test_void_charge_frees_its_key_for_a_new_charge(ledger: PrivacyLedger, charged: Charge) -> None:
    ledger.void(charged.id, reason="tombstoned")
    second = ledger.reserve("visits", release="first", epsilon="0.7", request_sha256=OTHER)
    assert (second.generation, second.state) == (2, "reserved")
    assert second.id != charged.id
    assert ledger.find_charge("visits", "first") == second
    assert left(ledger) == Decimal("0.3")

    ledger.void(second.id)
    third = ledger.reserve("visits", release="first", epsilon="0.7", request_sha256=OTHER)
    assert third.generation == 3
    assert [charge.state for charge in ledger.history("visits")] == ["void", "void", "reserved"]
    with pytest.raises(ChargeConflict, match="is void and can no longer be committed"):
        ledger.commit(charged.id, MANIFEST)
    assert ledger.verify()


def test_charge_that_was_never_made_is_not_found(ledger: PrivacyLedger, charged: Charge) -> None:
    assert ledger.find_charge("visits", "second") is None
    assert ledger.find_charge("nobody", "first") is None


def test_tenths_add_up_to_exactly_one(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon=1)
    for number in range(10):
        ledger.reserve("visits", release=f"release {number}", epsilon=0.1)
    assert left(ledger) == 0
    with pytest.raises(BudgetExceeded):
        ledger.reserve("visits", release="one more", epsilon="0.000000000000000000000000000001")


def test_costs_of_every_size_are_kept_to_the_last_digit(ledger: PrivacyLedger) -> None:
    tiny = Decimal("0.000000000000000000000000000001")
    ledger.open_account("visits", epsilon="1000000000000")
    charges = [ledger.reserve("visits", release=f"{cost}", epsilon=cost) for cost in (tiny, "999999999999", "0.5")]
    assert [charge.cost.epsilon for charge in ledger.history("visits")] == [tiny, 999999999999, Decimal("0.5")]
    assert left(ledger) == Decimal("0.499999999999999999999999999999")

    ledger.void(charges[0].id)
    assert left(ledger) == Decimal("0.5")
    assert ledger.verification().findings == ()


def test_exceeded_budget_says_what_is_left(ledger: PrivacyLedger, charged: Charge) -> None:
    with pytest.raises(BudgetExceeded) as exceeded:
        ledger.reserve("visits", release="second", epsilon="0.61")
    error = exceeded.value
    assert str(error) == (
        "epsilon: got '0.61'; account visits has 0.6 of 1 left; "
        "request less, or have the cap raised (`dp-budget raise visits`); `dp-budget show visits` lists what is spent"
    )
    assert (error.account, error.block, error.requested) == ("visits", "all", Decimal("0.61"))
    assert (error.remaining, error.cap, error.never_fits) == (Decimal("0.6"), Decimal(1), False)
    assert isinstance(error, InvalidRequest)
    assert ledger.find_charge("visits", "second") is None
    assert len(ledger.log()) == 2


def test_charge_above_the_cap_never_fits(ledger: PrivacyLedger, charged: Charge) -> None:
    with pytest.raises(BudgetExceeded, match="request no more than the cap") as exceeded:
        ledger.reserve("visits", release="second", epsilon="1.1")
    assert exceeded.value.never_fits


def test_charge_may_take_all_that_is_left(ledger: PrivacyLedger, charged: Charge) -> None:
    ledger.reserve("visits", release="second", epsilon="0.6")
    assert left(ledger) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"account": "nobody"}, "account: got 'nobody'; must be an open account"),
        ({"account": ""}, "account: got ''; must be printable text"),
        ({"release": ""}, "release: got ''; must be printable text"),
        ({"release": "a\tb"}, "release: got 'a\\tb'; must be printable text"),
        ({"epsilon": 0}, "epsilon: got '0'; must be above 0"),
        ({"epsilon": "-0.1"}, "epsilon: got '-0.1'; must be above 0"),
        ({"epsilon": float("nan")}, "epsilon: got nan; must be a finite decimal number"),
        ({"epsilon": "Infinity"}, "epsilon: got 'Infinity'; must be a finite decimal number"),
        ({"epsilon": "a lot"}, "epsilon: got 'a lot'; must be a finite decimal number"),
        ({"epsilon": "0." + "1" * 31}, "must have at most 30 digits"),
        ({"delta": "1e-9"}, "delta: got '1e-9'; cannot be used in an account whose composition is pure"),
        ({"rho": 1}, "rho: got 1; cannot be used in an account whose composition is pure"),
        ({"blocks": ()}, "blocks: must name at least one block"),
        ({"blocks": ("2026-11-21",)}, "blocks: got '2026-11-21'; must be a block of account visits"),
        ({"blocks": ("all", "some")}, "blocks: got 'some'; must be a block of account visits"),
        ({"allotment": "team"}, "allotment: got 'team'; must be a sub-budget of account visits"),
        ({"events": [object()]}, "events: must be a list of plain JSON values"),
        ({"events": [float("nan")]}, "events: must be a list of plain JSON values"),
        (
            {"neighbours": Neighbours.REPLACE_ONE},
            "neighbours: got 'replace_one'; must be that of account visits, which is add_remove",
        ),
        ({"unit": PrivacyUnit(column="person")}, "unit: got "),
        ({"tables": ["/lake/other"]}, "table: got 'file:///lake/other'; is not bound to account visits"),
    ],
)
def test_bad_reservation_is_refused_in_one_line(
    ledger: PrivacyLedger, charged: Charge, change: dict, message: str
) -> None:
    asked = {"account": "visits", "release": "second", "epsilon": "0.1", **change}
    with pytest.raises(InvalidRequest) as refused:
        ledger.reserve(asked.pop("account"), **asked)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert left(ledger) == Decimal("0.6")
    assert len(ledger.log()) == 2


def test_terms_of_the_account_are_accepted(ledger: PrivacyLedger, charged: Charge) -> None:
    second = ledger.reserve(
        "visits",
        release="second",
        epsilon="0.1",
        delta="0.0",
        blocks="all",
        neighbours="add_remove",
        unit=PrivacyUnit(),
        tables=["file:///lake/visits/"],
        events=[{"mechanism": "laplace", "scale": "2"}, "pure"],
    )
    assert second.events == ({"mechanism": "laplace", "scale": "2"}, "pure")
    assert ledger.charge(second.id) == second


def test_what_the_draw_spent_is_kept_beside_what_was_planned(ledger: PrivacyLedger, charged: Charge) -> None:
    drawn = [{"mechanism": "pure", "epsilon": "0.1", "label": "a"}, {"mechanism": "pure", "epsilon": "0.2"}]
    committed = commit(ledger, charged.id, MANIFEST, events=drawn)
    assert committed.events == charged.events
    assert committed.drawn_events == tuple(drawn)
    assert ledger.charge(charged.id) == committed
    assert json.loads(ledger.log()[-1].details) == {"manifest_sha256": MANIFEST, "events": drawn}
    # the first word stays: a retry that says otherwise finds the charge as it is
    assert commit(ledger, charged.id, MANIFEST, events=[]).drawn_events == tuple(drawn)
    assert ledger.verification().findings == ()


FOUND = [
    {"name": "roc_curve.auc", "value": 0.73, "interval": [0.721, 0.742], "population": None, "status": "ok"},
    {"name": "roc_curve.Zürich.auc", "value": None, "interval": None, "population": None, "status": "undefined"},
]


def test_what_was_found_is_recorded_with_the_commit(ledger: PrivacyLedger, charged: Charge) -> None:
    committed = commit(ledger, charged.id, MANIFEST, figures=FOUND)
    assert committed.figures == tuple(FOUND)
    assert ledger.charge(charged.id) == ledger.history(charged.account)[0] == committed
    assert json.loads(ledger.log()[-1].details) == {"manifest_sha256": MANIFEST, "figures": FOUND}
    # a repetition changes nothing, whatever it says
    assert commit(ledger, charged.id, MANIFEST, figures=[]) == committed
    assert ledger.verification().findings == ()
    with pytest.raises(InvalidRequest, match="figures: must be a list of plain JSON values"):
        ledger.commit(charged.id, MANIFEST, figures=[{"value": float("nan")}])


def test_figures_that_were_altered_afterwards_are_seen(ledger: PrivacyLedger, charged: Charge, ledger_url: str) -> None:
    commit(ledger, charged.id, MANIFEST, figures=FOUND)
    tamper(ledger_url, "UPDATE charges SET figures = replace(figures, '0.73', '0.93')")
    [finding] = ledger.verification().findings
    assert finding.startswith(f"charge {charged.id}: figures is ")


def test_settling_without_a_word_of_the_draw_tells_none(ledger: PrivacyLedger, charged: Charge) -> None:
    assert commit(ledger, charged.id, MANIFEST).drawn_events is None
    assert json.loads(ledger.log()[-1].details) == {"manifest_sha256": MANIFEST}
    with pytest.raises(InvalidRequest, match="events: must be a list of plain JSON values"):
        commit(ledger, charged.id, MANIFEST, events=[float("nan")])


@pytest.mark.parametrize("verb", ["commit", "burn", "void", "renew", "charge"])
def test_unknown_charge_is_refused(ledger: PrivacyLedger, charged: Charge, verb: str) -> None:
    with pytest.raises(InvalidRequest, match="charge: got 'no-such'; must be a charge of this ledger"):
        getattr(ledger, verb)("no-such")


@pytest.mark.parametrize("ask", [PrivacyLedger.remaining, PrivacyLedger.account, PrivacyLedger.history])
def test_unknown_account_is_refused(ledger: PrivacyLedger, ask) -> None:
    with pytest.raises(InvalidRequest, match="account: got 'nobody'; must be an open account"):
        ask(ledger, "nobody")


@pytest.mark.parametrize(
    "ask",
    [
        lambda ledger, text: ledger.account(text),
        lambda ledger, text: ledger.remaining(text),
        lambda ledger, text: ledger.remaining("visits", text),
        lambda ledger, text: ledger.history(text),
        lambda ledger, text: ledger.log(text),
        lambda ledger, text: ledger.charge(text),
        lambda ledger, text: ledger.find_charge(text, "first"),
        lambda ledger, text: ledger.find_charge("visits", text),
        lambda ledger, text: ledger.account_for_table(text),
        lambda ledger, text: ledger.commit(text),
        lambda ledger, text: ledger.renew(text),
    ],
)
@pytest.mark.parametrize("text", ["a\x00b", "", 7])
def test_question_about_no_name_is_refused(tmp_path: Path, ask, text: object) -> None:
    ledger = PrivacyLedger(f"sqlite:///{tmp_path}/it-is-not-even-asked.db")
    with pytest.raises(InvalidRequest, match="must be printable text"):
        ask(ledger, text)


def test_unknown_block_is_refused(ledger: PrivacyLedger, charged: Charge) -> None:
    with pytest.raises(InvalidRequest, match="blocks: got 'some'; must be a block of account visits"):
        ledger.remaining("visits", "some")


def test_heartbeat_is_kept_while_the_charge_is_reserved(ledger: PrivacyLedger, charged: Charge) -> None:
    renewed = ledger.renew(charged.id)
    assert renewed.renewed_at > charged.renewed_at
    assert ledger.verify()

    commit(ledger, charged.id)
    assert ledger.renew(charged.id).renewed_at == renewed.renewed_at
    assert ledger.renew(charged.id).state == "committed"


def test_history_is_in_the_order_of_the_reservations(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon=10)
    made = [ledger.reserve("visits", release=name, epsilon=1).id for name in ("c", "a", "b")]
    commit(ledger, made[2])
    assert [charge.id for charge in ledger.history("visits")] == made


ERRORS: list[Exception] = [
    InvalidRequest("epsilon", "x", "must be a number", "write one"),
    InvalidRequest("epsilon", "x", "must be a number", "write one").within("budget"),
    BudgetExceeded(
        account="a", block="b", requested=Decimal(2), remaining=Decimal(0), cap=Decimal(1), allotment="team"
    ),
    ChargeConflict("release", "r", "is another's", "use another"),
    LedgerFrozen("it was restored"),
    NotAllowed("postgresql://h/db", "permission denied"),
    LedgerUnavailable("postgresql://h/db", "it is away"),
]


def fail(number: int) -> None:
    raise ERRORS[number]


def test_errors_survive_a_pool_of_processes() -> None:
    with ProcessPoolExecutor(1) as pool:
        for number, error in enumerate(ERRORS):
            with pytest.raises(type(error)) as raised:
                pool.submit(fail, number).result()
            assert str(raised.value) == str(error)
            assert {name: value for name, value in vars(raised.value).items() if name != "__notes__"} == vars(error)
