from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dp_operators.budget.composition import added, fits, pure_budget, taken_off
from spark_jobs.contract.privacy import exact_decimal, plain

costs = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(1, 10**12 - 1), st.integers(-18, 0)
)


@given(costs, costs)
def test_sums_are_exact(left: Decimal, right: Decimal) -> None:
    total = added(pure_budget(left), pure_budget(right))
    assert Fraction(total.epsilon) == Fraction(left) + Fraction(right)
    assert taken_off(total, pure_budget(right)).epsilon == left


@given(costs, st.integers(2, 40))
def test_budget_fits_up_to_the_last_digit(cost: Decimal, times: int) -> None:
    """So many equal charges fill a cap of exactly their sum, and nothing more goes in."""
    spent = pure_budget(cost)
    for _ in range(times - 1):
        spent = added(spent, pure_budget(cost))
    exact = spent.model_copy(update={"epsilon": Decimal(plain(spent.epsilon))})
    assert Fraction(spent.epsilon) == times * Fraction(cost)
    assert fits(exact, spent)
    assert not fits(exact, added(spent, pure_budget("0.000000000000000000000000000001")))


@given(costs)
def test_amount_is_the_same_after_a_round_trip_through_the_rows(cost: Decimal) -> None:
    assert exact_decimal(plain(cost)) == cost
    assert "E" not in plain(cost)
