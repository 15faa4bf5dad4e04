from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract import Budget, InvalidRequest, PrivacyUnit
from spark_jobs.contract.privacy import exact_decimal, exact_sum, float_below, plain, share

costs = st.decimals(min_value=Decimal("1e-12"), max_value=Decimal("1e9"), places=12, allow_nan=False)


@given(costs)
def test_plain_text_of_a_cost_reads_back_as_the_same_cost(cost: Decimal) -> None:
    assert exact_decimal(plain(cost)) == cost
    assert "E" not in plain(cost)


@given(st.lists(costs, max_size=30))
def test_sums_of_costs_are_exact(numbers: list[Decimal]) -> None:
    from fractions import Fraction

    assert Fraction(exact_sum(*numbers)) == sum((Fraction(number) for number in numbers), Fraction(0))


@given(costs)
def test_a_float_that_may_be_spent_never_exceeds_the_cost(cost: Decimal) -> None:
    below = float_below(cost)
    assert Decimal(below) <= cost
    assert Decimal(below) >= cost * (1 - Decimal("1e-15"))


@given(costs, st.integers(1, 1000))
def test_shares_never_exceed_what_is_shared(cost: Decimal, parts: int) -> None:
    assert exact_sum(*[share(cost, parts)] * parts) <= cost


def test_a_float_is_read_as_python_prints_it() -> None:
    assert Budget(epsilon=0.1).epsilon == Decimal("0.1")
    assert exact_sum(*[Budget(epsilon=0.1).epsilon] * 10) == 1


@pytest.mark.parametrize(
    "epsilon", ["nan", "inf", "-inf", float("nan"), float("inf"), "one", "", None, True, [], "1" * 40, "1e-40"]
)
def test_an_epsilon_that_is_no_exact_number_is_refused_in_one_line(epsilon: object) -> None:
    with pytest.raises(
        InvalidRequest, match=r"^epsilon: .*must (be a finite decimal number|have at most 30 digits); "
    ) as caught:
        Budget(epsilon=epsilon)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"), [("epsilon", -1), ("epsilon", "1e13"), ("delta", 1), ("delta", -1), ("rho", -1)]
)
def test_a_cost_outside_its_bounds_is_refused_with_the_bound(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest, match=rf"^{field}: got .*must be (above|at least) 0"):
        Budget(**{"epsilon": 1, field: value})


def test_a_free_release_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="must be above 0"):
        Budget(epsilon=0).require_positive()


@pytest.mark.parametrize("rows", [0, -1, 1.5, "many", True, 10**7])
def test_max_rows_outside_its_bounds_is_refused(rows: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^max_rows: got .*whole number from 1"):
        PrivacyUnit(column="user", max_rows=rows)


def test_max_rows_may_come_from_a_template_as_text() -> None:
    assert PrivacyUnit(column="user", max_rows="3").max_rows == 3


def test_a_row_unit_owns_one_row() -> None:
    with pytest.raises(InvalidRequest, match="must be 1 when every row is a unit of its own"):
        PrivacyUnit(max_rows=2)
    assert PrivacyUnit(column="").column is None


@pytest.mark.parametrize("text", ["1_0", "１０", "٣", "0x1", "1e", "1,5", "", "--1", "1e999999999999999999999"])
def test_what_nobody_writes_for_a_number_is_none(text: str) -> None:
    with pytest.raises(InvalidRequest, match="must be a finite decimal number"):
        exact_decimal(text)


def test_a_number_beyond_every_cost_is_refused_before_it_is_written_out() -> None:
    with pytest.raises(InvalidRequest, match="at most 30 digits"):
        exact_decimal("1e999999999999")
    assert exact_decimal("0e999999999999") == 0
