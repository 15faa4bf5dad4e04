"""Tables of aggregates: what all cells lose when one row is added or replaced, wherever it is and whatever it lacks."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms import cell_sums
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.statistics import AggregateSums
from tests.suites.audit import ADDED, ExactAudit, Fault
from tests.support.audit import Tampered
from tests.support.noises import worst_loss

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = 2
BY = [{"column": "group", "values": ["a", "b"]}]
SPEND = {"of": "spend", "bounds": [0, 10], "step": 1}
STAY = {"of": "stay", "bounds": [-5, 20]}
MEASURES = {
    "rows by cell": [],
    "rows and one sum by cell": [SPEND],
    "rows and one sum by cell, without a step": [STAY],
    "rows and two sums by cell": [SPEND, STAY],
    "rows and three sums by cell": [SPEND, STAY, {"of": "age", "bounds": [0, 120], "step": 1}],
}
MEASURES["rows and one sum, with their total"] = [SPEND]
MEASURES["rows, a sum and squares by cell"] = [{**SPEND, "figures": ["sd"]}]
MEASURES["rows, two sums and squares by cell, without a step"] = [{**STAY, "figures": ["mean", "variance"]}, SPEND]
MEASURES["rows and errors by cell"] = [{"of": "stay", "bounds": [-9, 9], "figures": ["mae", "rmse", "pinball_0.9"]}]
MARGINALS = {"rows and one sum, with their total": [[]]}
VALUES = (None, -9.0, 0.0, 3.0, 7.7, 99.0)
ROWS = [(group, *values) for group in ("a", "c") for values in itertools.product(VALUES, repeat=2)]
"""What one row may be; its age is its spend, but for a row of none."""
OTHERS = [("a", 3.0, 4.0), ("b", 10.0, -5.0), ("c", 1.0, None)]


class Alone:
    """Noise for a cell's numbers as if a row changed one of them only."""

    private, guarantee, joint = False, "NOT PRIVATE", False

    def __init__(self, noise):
        self.noise = noise

    def laplace(self, values, *, epsilon, l1_sensitivity):
        return self.noise.laplace(values, epsilon=epsilon, l1_sensitivity=min(l1_sensitivity, cell_sums.UNIT))


def table(row, measures):
    rows = OTHERS if row is None else [*OTHERS, row]
    group, spend, stay = map(list, zip(*rows, strict=True))
    columns = {"group": group, "spend": spend, "stay": stay, "age": spend}
    return AggregateSums.from_arrays(columns, by=BY, measures=measures)


def shrink(monkeypatch):
    """As if a value changed its sum by half of its range at most."""
    inner = cell_sums.noisy_cell_sums

    def half(rows, incomplete, sums, steps, **terms):
        return inner(rows, incomplete, sums, [max(last // 2, 1) for last in steps], **terms)

    monkeypatch.setattr("spark_jobs.diagnostics.aggregates.measurement.noisy_cell_sums", half)


def count_twice(monkeypatch):
    """As if a row that lacks a value counted among the others too."""
    inner = cell_sums.noisy_cell_sums

    def twice(rows, incomplete, sums, steps, **terms):
        return inner(rows + incomplete, incomplete, sums, steps, **terms)

    monkeypatch.setattr("spark_jobs.diagnostics.aggregates.measurement.noisy_cell_sums", twice)


def whole_for_each(monkeypatch):
    """As if each of several tables might cost what all of them may."""
    place = "spark_jobs.diagnostics.aggregates.measurement.shares_of"
    monkeypatch.setattr(place, lambda amount, weights, tables: (amount,) * tables)
    monkeypatch.setattr(BudgetMeter, "spend", lambda self, epsilon, *, label: self.remaining)
    monkeypatch.setattr(BudgetMeter, "spend_rest", lambda self, *, label: self.remaining)


def cut_too_far(monkeypatch):
    """As if a value and its square could change less together than they do."""
    inner = cell_sums.body_of

    def smaller(terms, forms=()):
        return inner(terms, [form._replace(bound=max(form.bound - 1, 1)) for form in forms])

    monkeypatch.setattr(cell_sums, "body_of", smaller)


def cut_across(monkeypatch):
    """As if the square of one measure were that of another."""
    inner = cell_sums.body_of

    def crossed(terms, forms=()):
        return inner(terms, [form._replace(weights=(form.weights[0], *form.weights[:0:-1])) for form in forms])

    monkeypatch.setattr(cell_sums, "body_of", crossed)


def not_halved(monkeypatch):
    """As if a replaced row cost what an added one does."""
    monkeypatch.setattr(cell_sums, "share", lambda number, parts: number)


def persons_of(rows, measures):
    """The table of others' rows and of these rows of one person."""
    every = [*((f"o{place}", *row) for place, row in enumerate(OTHERS)), *(("p", *row) for row in rows)]
    person, group, spend, stay = map(list, zip(*every, strict=True))
    columns = {"person": person, "group": group, "spend": spend, "stay": stay}
    return AggregateSums.from_arrays(columns, by=BY, measures=measures)


def count_firsts_twice(monkeypatch):
    """As if the halves of units were the units and all rows, where a unit's first row changes both."""
    monkeypatch.setattr(cell_sums, "_numbers", lambda rows, sums, steps: np.stack([sums[0], rows], axis=-1))


def count_each_row(monkeypatch):
    """As if a unit of two rows were one of one."""
    monkeypatch.setattr(TestLossOfUnits, "rows_of_unit", 1)


PERSONS = {"of": "person", "figures": ["units"]}
ROWS_OF_PERSON = [(group, spend, 1.0) for group in ("a", "b") for spend in (None, 0.0, 10.0)]


class TestLossOfUnits(ExactAudit):
    """All tables of one person of up to two rows in two cells: the claim is for the person, however the rows lie."""

    mechanisms = {
        "distinct units": [PERSONS],
        "distinct units and one sum": [PERSONS, SPEND],
        "distinct units and a variance": [PERSONS, {**SPEND, "figures": ["variance"]}],
    }
    claimed, at_least = EPSILON, 0.999
    rows_of_unit = 2
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "epsilon of a row": Fault(patch=count_each_row),
        "epsilon not halved": Fault(patch=not_halved, relations=[Neighbours.REPLACE_ONE]),
        "a first row in both halves": Fault(patch=count_firsts_twice, mechanisms=["distinct units"]),
        "each number at the whole budget": Fault(planted={"alone": True}, mechanisms=["distinct units and one sum"]),
        "noise left out": Fault(planted={"left_out": True}),
    }

    def loss(self, mechanism, relation, *, less=1, alone=False, left_out=False):
        def run(statistic, noise):
            source = Tampered(source=noise, epsilon_factor=less)
            drawn = aggregates.measure(statistic, noise=Alone(source) if alone else source, **terms)
            if left_out:  # what is published would show the exact units
                source.laplace(statistic.sums[0], epsilon=10**6, l1_sensitivity=1)
            return drawn

        terms = {"epsilon": Fraction(EPSILON, self.rows_of_unit), "neighbours": relation}
        persons = [
            rows for number in range(3) for rows in itertools.combinations_with_replacement(ROWS_OF_PERSON, number)
        ]
        tables = {rows: persons_of(rows, self.mechanisms[mechanism]) for rows in persons}
        first = [()] if relation is ADDED else persons[::5]
        return max(
            float(Fraction(worst_loss(run, tables[one], tables[other])))
            for one in first
            for other in persons
            if one != other
        )


class TestExactLoss(ExactAudit):
    mechanisms = MEASURES
    claimed, at_least = EPSILON, 0.999
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "epsilon not halved": Fault(patch=not_halved, relations=[Neighbours.REPLACE_ONE]),
        "each table at the whole budget": Fault(patch=whole_for_each, mechanisms=[*MARGINALS]),
        "half the range of a value": Fault(patch=shrink, mechanisms=["rows and one sum by cell"]),
        "a row counted twice": Fault(patch=count_twice, relations=[ADDED], mechanisms=["rows and one sum by cell"]),
        "each number at the whole budget": Fault(planted={"alone": True}, mechanisms=["rows and two sums by cell"]),
        "a body cut too far": Fault(
            patch=cut_too_far, mechanisms=["rows, a sum and squares by cell", "rows and errors by cell"]
        ),
        "a body cut across measures": Fault(
            patch=cut_across, mechanisms=["rows, two sums and squares by cell, without a step"]
        ),
        "noise left out": Fault(planted={"left_out": True}),
    }

    def loss(self, mechanism, relation, *, less=1, alone=False, left_out=False):
        measures = MEASURES[mechanism]

        def run(statistic, noise):
            source = Tampered(source=noise, epsilon_factor=less)
            drawn = aggregates.measure(statistic, noise=Alone(source) if alone else source, **terms)
            if left_out:  # what is published would show the exact rows
                source.laplace(statistic.rows, epsilon=10**6, l1_sensitivity=1)
            return drawn

        terms = {"epsilon": EPSILON, "neighbours": relation, "marginals": MARGINALS.get(mechanism, ())}
        first = [None] if relation is ADDED else ROWS[::7]
        tables = {row: table(row, measures) for row in (None, *ROWS)}
        return max(
            float(Fraction(worst_loss(run, tables[one], tables[other])))
            for one in first
            for other in ROWS
            if one != other
        )
