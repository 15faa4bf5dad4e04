from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, exact_sum
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.meter import BudgetMeter, BudgetOverspent, RhoMeter, Spending

AMOUNTS = st.decimals("1e-10", "10", places=10).filter(lambda number: number > 0)


@given(granted=AMOUNTS, asked=st.lists(AMOUNTS, max_size=12))
def test_no_sequence_of_spendings_exceeds_the_grant(granted, asked):
    meter = BudgetMeter(granted)
    paid = Decimal(0)
    for amount in asked:
        before = meter.spendings
        try:
            meter.spend(amount, label="part")
            paid += amount
        except BudgetOverspent:
            assert paid + amount > granted
            assert meter.spendings == before
    assert meter.spent.epsilon == paid == granted - meter.remaining
    assert paid <= granted


@given(granted=AMOUNTS, part=st.decimals("0.01", "1", places=3))
def test_a_share_and_the_rest_are_the_whole(granted, part):
    meter = BudgetMeter(granted)
    share = meter.spend_share(part, label="share")
    assert share <= granted * part
    assert granted * part - share < Decimal("1e-25")
    if meter.remaining:
        meter.spend_rest(label="rest")
    assert meter.remaining == 0
    assert meter.spent.epsilon == granted


def test_tenths_are_tenths():
    meter = BudgetMeter(0.3)
    for _ in range(3):
        meter.spend(0.1, label="a tenth")
    assert meter.remaining == 0
    with pytest.raises(BudgetOverspent, match="one more"):
        meter.spend("1e-30", label="one more")


def test_deltas_are_metered_too():
    meter = BudgetMeter(1, "1e-6")
    meter.spend("0.5", delta="1e-6", label="approximate")
    with pytest.raises(BudgetOverspent):
        meter.spend("0.5", delta="1e-12", label="too much delta")
    meter.spend("0.5", label="pure")
    assert meter.spent == Budget(epsilon=1, delta="1e-6")
    assert meter.remaining_delta == 0


@pytest.mark.parametrize("amount", [0, -1, "nan", "inf"])
def test_amounts_that_pay_for_nothing_are_refused(amount):
    with pytest.raises(InvalidRequest):
        BudgetMeter(1).spend(amount, label="nothing")
    with pytest.raises(InvalidRequest):
        BudgetMeter(amount)


def test_rest_of_nothing_is_refused():
    meter = BudgetMeter(1)
    meter.spend_rest(label="all")
    with pytest.raises(BudgetOverspent):
        meter.spend_rest(label="more")


@pytest.mark.parametrize("granted", ["1", "1000000000", "1e12", "1e-12"])
def test_events_say_what_was_paid_for_and_survive_json(granted):
    meter = BudgetMeter(granted)
    meter.spend_share("0.02", label="noisy size")
    meter.spend_rest(label="trees")
    assert [event.label for event in meter.spendings] == ["noisy size", "trees"]
    assert codec.decode(tuple[Spending, ...], codec.encode(meter.spendings, tuple[Spending, ...])) == meter.spendings
    assert sum(event.epsilon for event in meter.spendings) == meter.granted.epsilon


def test_thousands_of_spendings_are_kept_and_add_up_exactly():
    amounts = [Decimal(1 + part % 7).scaleb(-(10 + part % 20)) for part in range(3000)]
    whole = exact_sum(*amounts)
    meter = BudgetMeter(whole, "1e-6")
    early = None
    for part, amount in enumerate(amounts):
        meter.spend(amount, delta="1e-12", label=f"part {part}")
        early = early or meter.spendings
    assert meter.remaining == 0
    assert meter.spent == Budget(epsilon=whole, delta="3e-9")
    assert meter.remaining_delta == Decimal("1e-6") - Decimal("3e-9")
    assert [event.epsilon for event in meter.spendings] == amounts
    # what was read once does not change
    assert [event.label for event in early] == ["part 0"]


def test_a_refused_spending_changes_nothing():
    meter, rho = BudgetMeter(1, "1e-6"), RhoMeter(1)
    meter.spend("0.4", delta="1e-7", label="first")
    before = (meter.spent, meter.remaining, meter.remaining_delta, meter.spendings, rho.remaining, rho.spendings)
    for refused in (
        lambda: meter.spend("0.61", label="epsilon"),
        lambda: meter.spend("0.1", delta="1e-6", label="delta"),
        lambda: rho.spend("1.1", label="rho"),
    ):
        with pytest.raises(BudgetOverspent):
            refused()
    assert before == (
        meter.spent,
        meter.remaining,
        meter.remaining_delta,
        meter.spendings,
        rho.remaining,
        rho.spendings,
    )


def test_a_meter_of_rho_adds_exactly_and_never_goes_below_zero():
    meter = RhoMeter("0.3")
    assert [meter.spend(0.1, label="one"), meter.spend("0.2", label="two")] == [Decimal("0.1"), Decimal("0.2")]
    assert meter.remaining == 0
    assert meter.spendings == (("one", Decimal("0.1")), ("two", Decimal("0.2")))
    with pytest.raises(BudgetOverspent, match="three"):
        meter.spend("1e-9", label="three")
    assert meter.granted == Decimal("0.3")
    assert len(meter.spendings) == 2


@pytest.mark.parametrize("rho", [0, -1, "nan", "inf"])
def test_a_meter_of_rho_refuses_what_is_no_amount(rho):
    with pytest.raises(InvalidRequest):
        RhoMeter(rho)
    with pytest.raises(InvalidRequest):
        RhoMeter(1).spend(rho, label="none")


def test_budgets_of_thirty_digits_are_spent_exactly():
    random = np.random.default_rng(1)
    for _ in range(200):
        granted = Decimal(int(random.integers(10**17))) * 10**12 + Decimal(int(random.integers(10**12)))
        granted = granted.scaleb(-29)
        meter = BudgetMeter(granted)
        meter.spend_share("0.15", label="a look")
        meter.spend_share(f"{random.random() / 2 + 0.01:.6f}", label="another")
        meter.spend_rest(label="the rest")
        assert exact_sum(*(event.epsilon for event in meter.spendings)) == granted
