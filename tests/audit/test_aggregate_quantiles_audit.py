"""Quantiles in tables: what the choices, the counts around them and the rows lose together, in exact numbers.

Every cell of the table has its own choice, so that all pairs of choices in two cells are tried. What a choice loses is
computed from its chance with each table; what counts lose, from their noise. A person of several rows may have them in
either cell, so that all choices of all cells may change at once: the claim is for the person.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours, share
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms import cell_quantiles, cell_sums
from spark_jobs.mechanisms import quantiles as of_all
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.quantiles import quantile_scores, quantile_sensitivity, quantile_target
from spark_jobs.statistics import AggregateSums
from tests.suites.audit import ADDED, ExactAudit, Fault
from tests.support.audit import Tampered
from tests.support.noises import worst_loss
from tests.support.selection_loss import flip_probabilities

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = 2
BY = [{"column": "group", "values": ["a", "b"], "other": False}]
SPEND = {"of": "spend", "bounds": [0, 2], "step": 1}
MECHANISMS: dict[str, Any] = {
    "median by cell": [{**SPEND, "figures": ["p50"]}],
    "quantile of 0.9 by cell, with a mean": [{**SPEND, "figures": ["p90", "mean"]}],
}
ROWS = [(group, value) for group in ("a", "b") for value in (None, 0.0, 1.0, 9.0)]
OTHERS = [[], [("a", 0.0), ("a", 1.0), ("b", 2.0)], [("a", 2.0), ("a", 2.0), ("a", None), ("b", 0.0), ("b", 1.0)]]


def table(others: list[Any], row: Any, measures: list[Any]) -> AggregateSums:
    rows = others if row is None else [*others, row]
    parts = {"group": [group for group, _ in rows], "spend": [value for _, value in rows]}
    columns = {name: np.array(values, dtype=object) for name, values in parts.items()}
    return AggregateSums.from_arrays(columns, by=BY, measures=measures)


def not_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a replaced row cost what an added one does."""
    for module in (cell_sums, cell_quantiles):
        monkeypatch.setattr(module, "share", lambda number, parts: number)


def whole_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each part of a table might cost what all of them may."""
    monkeypatch.setattr(BudgetMeter, "spend", lambda self, epsilon, *, label: self.remaining)
    monkeypatch.setattr(BudgetMeter, "spend_rest", lambda self, *, label: self.remaining)
    monkeypatch.setattr("spark_jobs.diagnostics.aggregates.measurement.exact_difference", lambda whole, *_: whole)


def half_the_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a row moved scores by half of what it does."""
    monkeypatch.setattr(
        of_all, "quantile_sensitivity", lambda target, neighbours: quantile_sensitivity(target, neighbours) / 2
    )


def every_row_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a row changed half as much of the counts around a value."""
    inner = cell_quantiles.count_around

    def counted(values: Any, selected: Any, **terms: Any) -> Any:
        twice = cell_quantiles.ValuesByCell(
            cells=values.cells, size=values.size, keys=values.keys, counts=2 * values.counts
        )
        return inner(twice, selected, **terms)

    monkeypatch.setattr("spark_jobs.diagnostics.aggregates.quantiles.count_around", counted)


class TestExactLoss(ExactAudit):
    mechanisms = MECHANISMS
    claimed, at_least = EPSILON, 0.75
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "epsilon not halved": Fault(patch=not_halved, relations=[Neighbours.REPLACE_ONE]),
        "each part at the whole budget": Fault(patch=whole_for_each),
        "half the move of scores": Fault(patch=half_the_move),
        "a row counted twice around a value": Fault(patch=every_row_counts),
        "noise of the choice left out": Fault(planted={"left_out": True}),
    }

    def loss(self, mechanism: str, relation: Any, *, less: int = 1, left_out: bool = False) -> Iterator[float]:
        measures = MECHANISMS[mechanism]
        terms = {"epsilon": EPSILON, "neighbours": relation}
        for others in OTHERS:
            tables = {row: table(others, row, measures) for row in ([None, *ROWS] if relation is ADDED else ROWS)}
            first = [None] if relation is ADDED else ROWS[::3]
            yield from losses(tables, first, terms, less=less, left_out=left_out)


PERSONS = {"of": "person", "figures": ["units"]}
OF_PERSON = [
    rows
    for number in range(3)
    for rows in itertools.combinations_with_replacement([("a", None), ("a", 0.0), ("a", 9.0), ("b", 1.0)], number)
]
"""The rows of one person, of which two are used at most: none, one, or two in one cell or in both."""


def table_of_persons(others: list[Any], rows: Any, measures: list[Any]) -> AggregateSums:
    every = [*((f"o{place}", *row) for place, row in enumerate(others)), *(("p", *row) for row in rows)]
    parts = dict(zip(("person", "group", "spend"), zip(*every, strict=True), strict=True)) if every else {}
    columns = {name: np.array(parts.get(name, ()), dtype=object) for name in ("person", "group", "spend")}
    return AggregateSums.from_arrays(columns, by=BY, measures=measures)


def epsilon_of_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each row of a person might cost what all of them may."""
    monkeypatch.setattr(TestLossOfUnits, "rows_of_unit", 1)


def once_for_all_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a person were in one cell only, so that the choice in each might cost what both rows may."""
    inner = cell_quantiles.choose_quantiles

    def doubled(values: Any, *, epsilon: Any, **terms: Any) -> Any:
        return inner(values, epsilon=2 * epsilon, **terms)

    monkeypatch.setattr("spark_jobs.diagnostics.aggregates.quantiles.choose_quantiles", doubled)


class TestLossOfUnits(ExactAudit):
    """Of a person with two rows at most, in the same cell or in two, among others and alone."""

    mechanisms = {
        "median by cell, of two rows of a person": [{**SPEND, "figures": ["p50"]}],
        "median and a mean by cell, beside distinct units": [PERSONS, {**SPEND, "figures": ["p50", "mean"]}],
    }
    claimed, at_least = EPSILON, 0.75
    rows_of_unit = 2
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "epsilon of a row": Fault(patch=epsilon_of_unit),
        "epsilon not halved": Fault(patch=not_halved, relations=[Neighbours.REPLACE_ONE]),
        "as if in one cell": Fault(patch=once_for_all_cells),
        "half the move of scores": Fault(patch=half_the_move),
        "a row counted twice around a value": Fault(patch=every_row_counts),
        "noise of the choice left out": Fault(planted={"left_out": True}),
    }

    def loss(self, mechanism: str, relation: Any, *, less: int = 1, left_out: bool = False) -> Iterator[float]:
        measures = self.mechanisms[mechanism]
        terms = {"epsilon": share(Decimal(EPSILON), self.rows_of_unit), "neighbours": relation}
        for others in OTHERS[:2]:
            tables = {rows: table_of_persons(others, rows, measures) for rows in OF_PERSON}
            first = [()] if relation is ADDED else OF_PERSON[1:]
            yield from losses(tables, first, terms, less=less, left_out=left_out)


def losses(tables: Mapping[Any, AggregateSums], first: Iterable[Any], terms: Any, **planted: Any) -> Iterator[float]:
    """The loss of each table named in ``first`` beside each other one."""
    for one in first:
        for other in tables:
            if one != other:
                yield largest((tables[one], tables[other]), terms, **planted)


def largest(pair: tuple[AggregateSums, AggregateSums], terms: Any, *, less: int, left_out: bool) -> float:
    """The largest loss between two tables, over the choices in both cells."""
    [line] = pair[0].design.value_lines
    worst = 0.0
    for choice in itertools.product(range(line.cells), repeat=pair[0].design.cells):
        chances: list[float] = []
        counts = float(worst_loss(partial(released, choice, chances, terms, less, left_out), *pair))
        first, second = np.split(np.array(chances), 2)
        worst = max(worst, abs(float((first - second).sum())) + counts)
    return worst


def released(
    choice: tuple[int, ...],
    chances: list[float],
    terms: Any,
    less: int,
    left_out: bool,
    statistic: AggregateSums,
    noise: Any,
) -> None:
    """A release in which these values are chosen, whose logarithms of chances are kept."""
    given = iter(choice)

    def chosen(cells: Any, counts: Any, *, size: int, level: Any, epsilon: Any, neighbours: Any, noise: Any) -> int:
        every, target, at = np.zeros(size, dtype=np.int64), quantile_target(level), next(given)
        every[cells] = counts
        sure = 10**6 if left_out else less  # without noise the best value is chosen
        options = {"epsilon": sure * Decimal(epsilon), "sensitivity": of_all.quantile_sensitivity(target, neighbours)}
        chances.append(
            float(np.log(float(flip_probabilities(quantile_scores(every, target), **options, monotone=False)[at])))
        )
        return at

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_quantiles, "sparse_quantile", chosen)
        source = Tampered(source=noise, epsilon_factor=less)
        aggregates.measure(statistic, noise=source, **terms)
