"""The share of a cap that is left, day by day, and how long it lasts; and what a cap promises."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from dp_operators.budget.burn_down import RATE_DAYS, BurnDown
from dp_operators.budget.composition import Limits
from dp_operators.budget.plain_words import meaning, surest
from dp_operators.budget.values import Account, exact_budget
from dp_operators.plugins.charts import Chart
from spark_jobs.contract.expressions.blocks import BlockExpression
from spark_jobs.contract.odds import Spent, odds
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit

TODAY = date(2026, 11, 22)
LIMITS = Limits(epsilon=Decimal(10), delta=Decimal(0), rho=None)


def burn_down(costs: dict[int, str], *, since: int = 100, opened: int | None = None, number: int = 3) -> BurnDown:
    """Of charges by the days since they were made, ``number`` of them a day."""
    days = {TODAY - timedelta(days=ago): exact_budget(Decimal(cost)) for ago, cost in costs.items()}
    spent = exact_budget(sum((Decimal(cost) for cost in costs.values()), Decimal(0)))
    return BurnDown.of(
        LIMITS,
        spent,
        dict(sorted(days.items())),
        since=TODAY - timedelta(days=since),
        today=TODAY,
        opened=TODAY - timedelta(days=since if opened is None else opened),
        charges=dict.fromkeys(days, number),
    )


def test_rate_is_of_the_latest_days() -> None:
    result = burn_down({90: "4", 20: "1", 3: "2"})
    assert (result.start, result.left) == pytest.approx((1.0, 0.3))
    assert [left for _, left in result.points] == pytest.approx([0.6, 0.5, 0.3])
    assert result.rate == pytest.approx(0.3 / RATE_DAYS)
    assert result.days_left == 30


def test_young_account_has_the_rate_of_its_life() -> None:
    assert burn_down({5: "1", 0: "1"}, since=10).rate == pytest.approx(0.02)
    assert burn_down({0: "1"}, since=7).days_left == 63


@pytest.mark.parametrize("since", [7, 12, 30, 400])
def test_the_rate_does_not_depend_on_the_days_that_are_shown(since: int) -> None:
    shown, page = burn_down({5: "1", 0: "1"}, since=since, opened=12), burn_down({5: "1", 0: "1"}, since=12)
    assert (shown.rate, shown.days_left, shown.rate_days) == (page.rate, page.days_left, 12)


@pytest.mark.parametrize(("opened", "number", "early"), [(6, 3, True), (7, 3, False), (7, 2, True), (40, 2, True)])
def test_it_is_too_early_below_seven_days_and_three_charges(opened: int, number: int, early: bool) -> None:
    result = burn_down({5: "1"}, opened=opened, number=number)
    assert (result.early, result.days_left is None) == (early, early)
    assert result.rate > 0


@pytest.mark.parametrize("costs", [{}, {60: "5"}])
def test_nothing_ends_without_charges_in_the_latest_days(costs: dict[int, str]) -> None:
    assert burn_down(costs).days_left is None
    assert Chart.of(burn_down(costs)).projection == ""


def test_spent_budget_lasts_no_day() -> None:
    result = burn_down({3: "10"})
    assert (result.left, result.days_left) == (0.0, 0)


def test_chart_of_many_days_stays_small() -> None:
    result = burn_down(dict.fromkeys(range(9000), "0.001"), since=10_000)
    chart = Chart.of(result)
    assert len(chart.line) < 20_000
    assert chart.line.startswith("M0 0.0")
    assert chart.description == "Left of the cap: 100% on 7 Jul 1999, 10% today."


def test_promise_is_the_posterior_of_even_odds() -> None:
    bounds = [odds(Spent(epsilon=Decimal(text))) for text in ("0", "1", "2", "5", "7", "1000")]
    assert [surest(bound) for bound in bounds] == [
        "at most 50%", "at most 73.2%", "at most 88.1%", "at most 99.4%", "more than 99.9%", "more than 99.9%",
    ]  # fmt: skip


def account(cap: Budget, *, composition: str, **terms: Any) -> Account:
    facts = {"unit": PrivacyUnit(column="person", max_rows=3), "neighbours": Neighbours.REPLACE_ONE, **terms}
    return Account(name="a", cap=cap, composition=composition, tables=(), opened_at="", opened_by="", **facts)


def test_promise_of_a_cap_names_the_observer_and_how_often_they_become_surer() -> None:
    general = exact_budget(Decimal(1), Decimal("1e-6"))
    said = meaning(account(general, composition="approximate"))
    assert "one particular person has one value or another, and holds" in said
    assert "at most 84.5% sure" in said, "2 e, as of any mechanism"
    assert said.endswith("except with a probability of at most 0.000003.")
    concentrated = meaning(account(exact_budget(Decimal(1), Decimal("1e-6"), Decimal("0.017")), composition="zcdp"))
    assert "at most 73.1% sure" in concentrated
    assert concentrated.endswith("except with a probability of at most 0.000001.")


def test_promise_where_blocks_pay_one_by_one_is_about_replacements_within_a_block() -> None:
    blocks = BlockExpression.parse("day(at)")
    terms = {"composition": "pure", "blocks": blocks, "unit": PrivacyUnit()}
    said = meaning(account(exact_budget(Decimal(1)), **terms))
    assert "one particular row has one value or another, with the same day(at), which is public, and holds" in said
    added = meaning(account(exact_budget(Decimal(1)), **{**terms, "neighbours": Neighbours.ADD_REMOVE}))
    assert "whether one particular row is in the table, and holds" in added
