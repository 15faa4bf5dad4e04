"""What each kind that spends a delta states about its loss: the law of its mechanism, and the rho that it drew with."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, get_args

import pytest

from spark_jobs.contract.budget_split import BudgetPart
from spark_jobs.contract.odds import LossLaw, odds
from spark_jobs.contract.options import DIAGNOSTICS, Options
from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.contract.release import PartSpending
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.mechanisms.meter import Spending
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.zcdp import rho_within
from tests.support.kinds import EXAMPLES, tables

PRECISION = Decimal("1e-20")
"""A delta below this covers finite precision alone."""


def spending_delta() -> list[Any]:
    """Options of every kind and method that can spend a delta."""
    found = []
    for kind, type_of in DIAGNOSTICS.items():
        field = type_of.model_fields.get("method")
        methods = [{"method": method} for method in get_args(field.annotation)] if field else [{}]
        for base in EXAMPLES[kind][:1]:
            options = [type_of(kind=kind, **{**base, **method}) for method in methods]
            found += [
                pytest.param(one, id=f"{kind}-{getattr(one, 'method', '')}") for one in options if one.accepts_delta
            ]
    return found


def drawn(options: Options, relation: Neighbours, epsilon: str = "2") -> list[Spending]:
    terms = Terms(epsilon=Decimal(epsilon), delta=Decimal("1e-6"), neighbours=relation, noise=SeededNoise(3))
    statistic = tables(options, relation)[0]
    return list(diagnostic(options.kind).measurement.measure(statistic, options, terms).spendings)


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("options", spending_delta())
def test_each_mechanism_that_spends_a_delta_says_how_its_loss_is_distributed(
    options: Options, relation: Neighbours
) -> None:
    for spent in drawn(options, relation):
        assert (spent.law is LossLaw.ANY) == (spent.delta < PRECISION), f"{spent.label}: what may be said of it?"
        if spent.rho is not None:
            assert spent.rho == rho_within(spent.epsilon, spent.delta)


def test_every_law_is_that_of_some_kind() -> None:
    options = [one.values[0] for one in spending_delta()]
    assert {spent.law for one in options for spent in drawn(one, Neighbours.ADD_REMOVE)} == set(LossLaw)


@pytest.mark.parametrize("law", list(LossLaw))
def test_a_unit_of_several_rows_is_quoted_by_what_it_loses(law: LossLaw) -> None:
    rho = None if law in (LossLaw.ANY, LossLaw.SMOOTH_LAPLACE) else Decimal("0.01")
    spent = Spending(label="a", epsilon=Decimal("0.3"), delta=Decimal("1e-8"), law=law, rho=rho)
    granted = Budget(epsilon="0.9", delta="1e-6")
    for rows in (1, 3):
        part = BudgetPart(diagnostics=(), granted=granted, max_rows=rows)
        of_unit = part.spending("a", spent)
        assert of_unit.rho == (None if rho is None else rho * rows**2)
        assert of_unit.law is (law if rho is not None or rows == 1 else LossLaw.ANY)
        assert PartSpending.parse(of_unit.model_dump(mode="json")) == of_unit
        assert ("law" in of_unit.model_dump()) == (of_unit.law is not LossLaw.ANY)
    assert odds(of_unit).exponent > odds(spent).exponent
