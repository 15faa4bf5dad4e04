"""Sub-budgets, and caps that are raised: who, when, why."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from dp_operators.budget import BudgetExceeded, ChargeConflict, PrivacyLedger
from spark_jobs.contract import InvalidRequest
from tests.support.ledgers import commit


@pytest.fixture
def shared(ledger: PrivacyLedger) -> PrivacyLedger:
    ledger.open_account("visits", epsilon="1", actor="admin")
    ledger.allot("visits", "research", epsilon="0.5", actor="admin", reason="half for them")
    ledger.allot("visits", "product", epsilon="0.75", actor="admin")
    return ledger


def test_charge_must_fit_the_allotment_and_the_account(shared: PrivacyLedger) -> None:
    shared.reserve("visits", release="a", epsilon="0.5", allotment="research")
    with pytest.raises(BudgetExceeded, match="sub-budget research in account visits has 0 of 0.5 left") as exceeded:
        shared.reserve("visits", release="b", epsilon="0.1", allotment="research")
    assert (exceeded.value.allotment, exceeded.value.never_fits) == ("research", False)
    with pytest.raises(BudgetExceeded, match="epsilon: got '0.75'; account visits has 0.5 of 1 left"):
        shared.reserve("visits", release="c", epsilon="0.75", allotment="product")
    shared.reserve("visits", release="d", epsilon="0.5")
    with pytest.raises(BudgetExceeded, match="account visits has 0 of 1 left"):
        shared.reserve("visits", release="e", epsilon="0.1", allotment="product")
    assert shared.verification().findings == ()


def test_remaining_of_an_allotment_is_the_lesser_of_both(shared: PrivacyLedger) -> None:
    assert shared.remaining("visits", allotment="research").epsilon == Decimal("0.5")
    shared.reserve("visits", release="a", epsilon="0.75")
    assert shared.remaining("visits", allotment="research").epsilon == Decimal("0.25")
    with pytest.raises(InvalidRequest, match="allotment: got 'nobody'; must be a sub-budget of account visits"):
        shared.remaining("visits", allotment="nobody")


def test_given_back_is_given_back_to_both(shared: PrivacyLedger) -> None:
    charge = shared.reserve("visits", release="a", epsilon="0.5", allotment="research")
    assert shared.charge(charge.id).allotment == "research"
    shared.void(charge.id)
    assert shared.remaining("visits").epsilon == 1
    assert shared.remaining("visits", allotment="research").epsilon == Decimal("0.5")
    assert shared.verification().findings == ()


def test_key_is_bound_to_its_allotment(shared: PrivacyLedger) -> None:
    charge = shared.reserve("visits", release="a", epsilon="0.5", allotment="research")
    assert shared.reserve("visits", release="a", epsilon="0.5", allotment="research") == charge
    with pytest.raises(ChargeConflict):
        shared.reserve("visits", release="a", epsilon="0.5", allotment="product")


def test_allotment_has_its_cap_in_each_block(ledger: PrivacyLedger) -> None:
    ledger.open_account("visits", epsilon="1", blocks="day(at)")
    ledger.allot("visits", "team", epsilon="0.5")
    for day in ("2026-11-20", "2026-11-21"):
        ledger.reserve("visits", release=day, epsilon="0.5", blocks=day, allotment="team")
        with pytest.raises(BudgetExceeded, match=f"sub-budget team in block {day} of account visits has 0 of 0.5 left"):
            ledger.reserve("visits", release=f"{day}, again", epsilon="0.1", blocks=day, allotment="team")
    assert ledger.verification().findings == ()


def test_allotting_again_finds_it_and_otherwise_is_refused(shared: PrivacyLedger) -> None:
    before = shared.head()
    assert shared.allot("visits", "research", epsilon="0.50") in shared.sub_budgets("visits")
    with pytest.raises(InvalidRequest, match="allotment: got 'research'; already exists, with a cap of epsilon 0.5"):
        shared.allot("visits", "research", epsilon="0.6")
    assert shared.head() == before


def test_raise_is_an_event_with_an_author_and_a_reason(shared: PrivacyLedger) -> None:
    shared.reserve("visits", release="a", epsilon="1")
    raised = shared.raise_cap("visits", epsilon="2", actor="dpo", reason="the board's decision 7")
    assert raised == shared.account("visits")
    assert raised.cap.epsilon == 2
    entry = shared.log("visits")[-1]
    assert (entry.action, entry.actor, entry.reason) == ("raised", "dpo", "the board's decision 7")
    assert json.loads(entry.details)["epsilon"] == "2"
    shared.reserve("visits", release="b", epsilon="1")
    assert shared.raise_cap("visits", epsilon="2.0", actor="dpo", reason="again") == raised
    assert shared.log("visits")[-1].action == "reserved"
    assert shared.verification().findings == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"epsilon": "0.9"},
            "cap: got 'epsilon 0.9'; must be at least epsilon 1, because a privacy loss cannot be undone",
        ),
        ({"actor": ""}, "actor: got ''; must be printable text"),
        ({"reason": ""}, "reason: got ''; must be printable text"),
        ({"delta": "1e-6"}, "delta: got '1e-6'; cannot be used in an account whose composition is pure"),
        ({"allotment": "research", "epsilon": "0.4"}, "must be at least epsilon 0.5"),
        ({"allotment": "nobody"}, "allotment: got 'nobody'; must be a sub-budget"),
    ],
)
def test_cap_is_not_lowered_and_not_raised_by_nobody(shared: PrivacyLedger, change: dict, message: str) -> None:
    before = shared.head()
    with pytest.raises(InvalidRequest) as refused:
        shared.raise_cap("visits", **{"epsilon": "2", "actor": "dpo", "reason": "why", **change})
    assert message in str(refused.value)
    assert shared.head() == before


def test_caps_of_other_compositions_are_raised_too(ledger: PrivacyLedger) -> None:
    ledger.open_account("rho", composition="zcdp", rho="0.5", delta="1e-6")
    ledger.allot("rho", "team", rho="0.25")
    ledger.reserve("rho", release="a", rho="0.25", allotment="team")
    ledger.raise_cap("rho", rho="0.75", actor="dpo", reason="r")
    ledger.raise_cap("rho", rho="0.5", allotment="team", actor="dpo", reason="r")
    assert ledger.remaining("rho", allotment="team", kind="gaussian").rho == Decimal("0.25")
    ledger.open_account("both", composition="approximate", epsilon="1", delta="1e-6")
    raised = ledger.raise_cap("both", delta="1e-5", actor="dpo", reason="r")
    assert (raised.cap.epsilon, raised.cap.delta, raised.slack) == (1, Decimal("0.00001"), Decimal("0.0000005"))
    with pytest.raises(InvalidRequest, match="must be at least rho|must be at least epsilon"):
        ledger.raise_cap("rho", rho="0.7", actor="dpo", reason="r")
    assert ledger.verification().findings == ()


def test_frozen_ledger_is_read_and_not_written(shared: PrivacyLedger) -> None:
    charge = shared.reserve("visits", release="a", epsilon="0.5")
    shared.freeze(reason="restored from the backup of Sunday", actor="dba")
    writes = {
        "reserve": lambda: shared.reserve("visits", release="b", epsilon="0.1"),
        "commit": lambda: commit(shared, charge.id),
        "void": lambda: shared.void(charge.id),
        "open": lambda: shared.open_account("others", epsilon="1"),
        "raise": lambda: shared.raise_cap("visits", epsilon="2", actor="a", reason="b"),
        "allot": lambda: shared.allot("visits", "third", epsilon="1"),
    }
    for write in writes.values():
        with pytest.raises(InvalidRequest, match="is frozen .restored from the backup of Sunday. and can only be read"):
            write()
    assert shared.remaining("visits").epsilon == Decimal("0.5")
    assert shared.reserve("visits", release="a", epsilon="0.5") == charge
    assert shared.verification().findings == ()
    shared.thaw(actor="dpo", reason="reconciled")
    assert commit(shared, charge.id).state == "committed"
    assert [entry.action for entry in shared.log()][-4:] == ["frozen", "thawed", "draw recorded", "committed"]
    assert shared.verification().findings == ()


LEFT = {
    ("pure", "pure"): ("0.75", "0", None),
    ("pure", "gaussian"): ("0", "0", "0"),
    ("pure", "approximate"): ("0.75", "0", None),
    ("zcdp", "pure"): ("0.8", "0", "0.32"),
    ("zcdp", "gaussian"): ("0", "0", "0.32"),
    ("zcdp", "approximate"): ("0.8", "0", "0.32"),
    ("approximate", "gaussian"): ("0", "0", "0"),
}
CAPS = {
    "pure": {"epsilon": "1"},
    "zcdp": {"rho": "0.5", "delta": "1e-6"},
    "approximate": {"epsilon": "1", "delta": "1e-5"},
}
COSTS = {"pure": {"epsilon": "0.25"}, "zcdp": {"rho": "0.18"}, "approximate": {"epsilon": "0.25", "delta": "1e-6"}}


@pytest.mark.parametrize(("composition", "kind"), LEFT)
def test_what_remains_is_told_for_a_kind_of_charge(ledger: PrivacyLedger, composition: str, kind: str) -> None:
    ledger.open_account("a", composition=composition, **CAPS[composition])
    ledger.reserve("a", release="r", **COSTS[composition])
    left = ledger.remaining("a", kind=kind)
    told = (str(left.epsilon), str(left.delta), None if left.rho is None else str(left.rho))
    assert told == LEFT[composition, kind]


@pytest.mark.parametrize("kind", ["pure", "gaussian"])
def test_what_remains_can_be_charged_to_the_last_and_nothing_more(ledger: PrivacyLedger, kind: str) -> None:
    ledger.open_account("a", composition="zcdp", rho="0.5", delta="1e-6")
    ledger.reserve("a", release="r", epsilon="0.3")
    left = ledger.remaining("a", kind=kind)
    currency, most = ("epsilon", left.epsilon) if kind == "pure" else ("rho", left.rho)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("a", release="too much", **{currency: most + Decimal("1e-20")})
    ledger.reserve("a", release="the rest", **{currency: most})
    assert (ledger.remaining("a", kind=kind).rho or 0) < Decimal("1e-25")


def test_of_each_currency_the_scarcer_purse_counts(ledger: PrivacyLedger) -> None:
    """The account is short of delta, and the allotment of epsilon: a charge needs both."""
    ledger.open_account("a", composition="approximate", epsilon="2", delta="1e-5", slack="0")
    ledger.allot("a", "team", epsilon="0.5", delta="1e-5")
    ledger.reserve("a", release="r", epsilon="0.25", delta="9e-6")
    left = ledger.remaining("a", allotment="team", kind="approximate")
    assert (left.epsilon, left.delta) == (Decimal("0.5"), Decimal("1e-6"))
    with pytest.raises(BudgetExceeded):
        ledger.reserve("a", release="s", epsilon="0.5", delta="2e-6", allotment="team")
    told = ledger.affordable("a", epsilon="0.1", delta="1e-7", allotment="team")["all"]
    assert (told.epsilon, told.delta) == (Decimal("0.5"), Decimal("1e-6"))
