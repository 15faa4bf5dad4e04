"""How charges add up, held against fractions, published formulas and brute force."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_operators.budget.composition import (
    added,
    cap_of,
    cost_in,
    epsilon_at,
    fits,
    limits_of,
    room,
    subtracted,
    zero_cost,
)
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.privacy import exact_decimal, plain

costs = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(1, 10**12 - 1), st.integers(-18, 0)
)
small = st.builds(lambda digits: Decimal(digits).scaleb(-6), st.integers(1, 5 * 10**6))


def pure(epsilon: object):
    return cost_in("pure", epsilon)


@given(costs, costs)
def test_sums_are_exact(left: Decimal, right: Decimal) -> None:
    total = added(pure(left), pure(right))
    assert Fraction(total.epsilon) == Fraction(left) + Fraction(right)
    assert subtracted(total, pure(right)).epsilon == left


@given(costs, costs)
def test_half_squares_are_exact_and_are_taken_off_exactly(left: Decimal, right: Decimal) -> None:
    one, other = cost_in("zcdp", left), cost_in("approximate", right, "1e-9")
    total = added(one, other)
    assert Fraction(total.rho or 0) == (Fraction(left) ** 2 + Fraction(right) ** 2) / 2
    assert subtracted(total, other) == one


@given(costs, st.integers(2, 40))
def test_budget_fits_up_to_the_last_digit(cost: Decimal, times: int) -> None:
    """So many equal charges fill a cap of exactly their sum, and nothing more goes in."""
    spent = pure(cost)
    for _ in range(times - 1):
        spent = added(spent, pure(cost))
    limits = limits_of("pure", spent.model_copy(update={"epsilon": Decimal(plain(spent.epsilon))}), Decimal(0))
    assert Fraction(spent.epsilon) == times * Fraction(cost)
    assert fits(limits, spent)
    assert not fits(limits, added(spent, pure("0.000000000000000000000000000001")))


@given(costs)
def test_amount_is_the_same_after_a_round_trip_through_the_rows(cost: Decimal) -> None:
    assert exact_decimal(plain(cost)) == cost
    assert "E" not in plain(cost)


@given(small, st.integers(2, 12))
def test_epsilon_of_a_rho_is_never_below_the_bound_and_hardly_above(rho: Decimal, digits: int) -> None:
    with localcontext(prec=200):
        told = epsilon_at(rho, Decimal(1).scaleb(-digits))
        squared = 4 * rho * digits * Decimal(10).ln()
        assert (told - rho) ** 2 >= squared > (told - Decimal("1e-27") - rho) ** 2


@given(small, st.integers(2, 12))
def test_rho_of_an_epsilon_never_exceeds_it_and_hardly_misses_it(epsilon: Decimal, digits: int) -> None:
    delta = Decimal(1).scaleb(-digits)
    cap, _ = cap_of("zcdp", epsilon, delta, None)
    assert cap.epsilon == epsilon
    assert cap.rho is not None
    assert epsilon_at(cap.rho, delta) <= epsilon + Decimal("2e-28")
    assert epsilon_at(cap.rho + Decimal("1e-20"), delta) > epsilon


def caps(composition: str, slack: str | None = None):
    given_ = {"pure": ("1", 0, None), "zcdp": (None, "1e-6", "0.5"), "approximate": ("1", "1e-5", None)}[composition]
    cap, part = cap_of(composition, *given_, slack)
    return cap, limits_of(composition, cap, part)


@pytest.mark.parametrize(
    ("composition", "slack"), [("pure", None), ("zcdp", None), ("approximate", None), ("approximate", "0")]
)
@given(seed=st.integers(0, 10**6))
def test_largest_charge_fits_and_nothing_larger(composition: str, slack: str | None, seed: int) -> None:
    """After any history: what ``room`` tells may be charged, and a hundred-thousandth of a trillionth more may not."""
    chance = random.Random(seed)
    _, limits = caps(composition, slack)
    spent, delta = zero_cost(composition), "1e-8" if composition == "approximate" else "0"
    for _ in range(chance.randrange(40)):
        after = added(spent, cost_in(composition, Decimal(chance.randrange(1, 2000)).scaleb(-4), delta))
        spent = after if fits(limits, after) else spent
    most = room(limits, spent).epsilon
    assert most == 0 or fits(limits, added(spent, cost_in(composition, most)))
    assert not fits(
        limits, added(spent, cost_in(composition, Decimal(plain(most + Decimal("1e-17"))).quantize(Decimal("1e-18"))))
    )
    if composition == "approximate":
        left = room(limits, spent, "approximate").delta
        assert left == limits.delta - spent.delta


def test_gaussian_charges_are_for_zcdp_accounts() -> None:
    _, limits = caps("zcdp")
    assert room(limits, cost_in("zcdp", None, 0, "0.2"), "gaussian").rho == Decimal("0.3")
    _, limits = caps("approximate")
    assert room(limits, zero_cost("approximate"), "gaussian").rho == 0


def test_squares_let_many_small_charges_in_and_large_ones_no_less() -> None:
    """Beside exact sums, which admit 100 charges of a hundredth, and one of 1."""
    admitted = {}
    for cost in ("0.01", "1"):
        for slack in (None, "0"):
            _, limits = caps("approximate", slack)
            spent, admitted[cost, slack] = zero_cost("approximate"), 0
            while fits(limits, after := added(spent, cost_in("approximate", cost))):
                spent, admitted[cost, slack] = after, admitted[cost, slack] + 1
    assert admitted == {("0.01", None): 393, ("0.01", "0"): 100, ("1", None): 1, ("1", "0"): 1}


def test_slack_is_no_delta_for_charges() -> None:
    cap, slack = cap_of("approximate", "1", "1e-5", None)
    spent = [cost_in("approximate", "0.01", delta) for delta in ("5e-6", "5.000000000000000000000001e-6")]
    assert [fits(limits_of("approximate", cap, slack), each) for each in spent] == [True, False]


def test_filter_for_squares_agrees_with_the_published_formula() -> None:
    cap, _ = caps("approximate")
    chance = log(1 / 5e-6)
    assert float(cap.rho or 0) == pytest.approx((sqrt(chance + 1) - sqrt(chance)) ** 2, rel=1e-12)
    squares = 2 * float(cap.rho or 0)
    assert sqrt(2 * chance * squares) + squares / 2 == pytest.approx(1, rel=1e-12)


@pytest.mark.slow
@pytest.mark.verify
def test_adaptive_adversary_stays_within_the_approximate_cap() -> None:
    """Randomised responses, each as large as the adversary likes after seeing the loss so far.

    The adversary goes all in when ahead and small when behind, which breaks sums that are only right for fixed costs.
    The chance of a loss above epsilon is at most slack: here 0.05, so among 4,000 games fewer than 260 (beyond 5 sigma
    of 200).
    """
    cap, part = cap_of("approximate", "2", "0.1", None, "0.05")
    limits = limits_of("approximate", cap, part)
    chance = random.Random(11)
    above = 0
    for _ in range(4000):
        spent, loss = zero_cost("approximate"), 0.0
        while True:
            cost = cost_in("approximate", "0.3" if loss > 1 else "0.1")
            after = added(spent, cost)
            if not fits(limits, after):
                break
            spent, epsilon = after, float(cost.epsilon)
            loss += epsilon if chance.random() < exp(epsilon) / (1 + exp(epsilon)) else -epsilon
        above += loss > 2
    assert 0 < above < 260


@pytest.mark.parametrize(
    ("composition", "given_", "message"),
    [
        ("pure", (None, 0, None), "epsilon: must be a finite decimal number"),
        ("pure", (1, "1e-6", None), "delta: got '1e-6'; cannot be used in an account whose composition is pure"),
        ("pure", (1, 0, "0.5"), "rho: got '0.5'; cannot be used"),
        ("pure", (1, 0, None, "1e-6"), "slack: got '1e-6'; cannot be used"),
        (
            "zcdp",
            (1, 0, None),
            "delta: got '0'; must be above 0, because the account reports its epsilon at this delta",
        ),
        ("zcdp", (1, "1e-6", 1), "rho: got 1; exactly one of rho and epsilon must be given"),
        ("zcdp", (None, "1e-6", None), "rho: exactly one of rho and epsilon must be given"),
        ("approximate", (1, "1e-6", 1), "rho: got 1; cannot be used"),
        ("approximate", (1, "1e-6", None, "1e-5"), "slack: got '0.00001'; must be at most delta, 0.000001"),
        ("approximate", (1, 1, None), "delta: got '1'; must be at least 0 and below 1"),
    ],
)
def test_cap_out_of_bounds_is_refused(composition: str, given_: tuple, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        cap_of(composition, *given_)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("composition", "given_", "message"),
    [
        ("pure", (1, "1e-6"), "delta: got '1e-6'; cannot be used in an account whose composition is pure"),
        ("zcdp", (1, "1e-6"), "delta: got '1e-6'; cannot be used in an account whose composition is zcdp"),
        ("zcdp", (1, 0, 1), "epsilon: got 1; cannot be used"),
        ("zcdp", (None, 0, None), "epsilon: must be a finite decimal number"),
        ("approximate", (1, 0, 1), "rho: got 1; cannot be used"),
        ("approximate", (0, "1e-6"), "epsilon: got '0'; must be above 0"),
    ],
)
def test_cost_that_an_account_cannot_count_is_refused(composition: str, given_: tuple, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        cost_in(composition, *given_)
    assert message in str(refused.value)
