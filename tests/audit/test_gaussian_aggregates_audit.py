"""Tables of aggregates with Gaussian noise: the rho of all cells, of any row and of a unit in few groups."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import aggregates
from spark_jobs.diagnostics.aggregates import gaussian
from spark_jobs.diagnostics.aggregates.measurement import measure_cells
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.mechanisms import cell_gaussian, cell_sums
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.zcdp import rho_within
from spark_jobs.statistics import AggregateSums
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault
from tests.support.zcdp_loss import zcdp_losses

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON, DELTA = Decimal(2), "1e-6"
RHO = float(rho_within(EPSILON, DELTA))
BY = [{"column": "group", "values": ["a", "b"]}]
SPEND = {"of": "spend", "bounds": [0, 10], "step": 1}
STAY = {"of": "stay", "bounds": [-5, 20]}
MEASURES = {
    "rows by cell, Gaussian": [],
    "rows and one sum by cell, Gaussian": [SPEND],
    "rows and two sums by cell, Gaussian": [SPEND, STAY],
    "rows, a sum and squares by cell, Gaussian": [{**SPEND, "figures": ["sd"]}],
    "rows and errors by cell, Gaussian": [{"of": "stay", "bounds": [-9, 9], "figures": ["mae", "rmse"]}],
    "rows and one sum, with their total, Gaussian": [SPEND],
}
TOTAL = "rows and one sum, with their total, Gaussian"
VALUES = (None, -9.0, 3.0, 99.0)
ROWS = [(group, *values) for group in ("a", "c") for values in itertools.product(VALUES, repeat=2)]
OTHERS = [("a", 3.0, 4.0), ("b", 10.0, -5.0), ("c", 1.0, None)]


def table(rows, measures):
    group, spend, stay = map(list, zip(*OTHERS, *rows, strict=True))
    return AggregateSums.from_arrays({"group": group, "spend": spend, "stay": stay}, by=BY, measures=measures)


def one_number(monkeypatch):
    """As if a row changed one of its cell's numbers only."""
    monkeypatch.setattr(cell_gaussian, "l2_of_row", lambda terms: float(cell_sums.UNIT))


def as_added(monkeypatch):
    """As if a replaced row changed no more than an added one."""
    monkeypatch.setattr(cell_gaussian, "cost_of_added", lambda rho, numbers, neighbours: rho)
    monkeypatch.setattr(cell_gaussian, "share", lambda number, parts: number)


def in_two_cells(monkeypatch):
    """As if a replaced row changed its cell no more than two rows in two cells."""

    def halved(rho, numbers, neighbours):
        return rho if neighbours is Neighbours.ADD_REMOVE else rho / 2

    monkeypatch.setattr(cell_gaussian, "cost_of_added", halved)


def whole_for_each(monkeypatch):
    """As if each of several tables might cost what all of them may."""
    inner = gaussian.shares_of
    monkeypatch.setattr(gaussian, "shares_of", lambda amount, weights, tables: (*inner(amount, weights, 1),) * tables)


def rows_apart(monkeypatch):
    """As if the rows of a unit in one group were in several."""

    def apart(epsilon, delta, bound=None):
        return rho_within(epsilon * bound.rows_of_unit, delta) / bound.rows_of_unit

    monkeypatch.setattr(gaussian, "rho_of_row", apart)


def groups_apart(monkeypatch):
    """As if a unit's groups were in several cells of a total too."""
    monkeypatch.setattr(gaussian, "rhos_of_noise", lambda rhos, groups: rhos)


def leaking(run, exact):
    """The mechanism with exact numbers beside its noisy ones."""

    def leaks(statistic, noise):
        noise.gaussian(exact(statistic), rho=10**6, l2_sensitivity=1.0)
        return run(statistic, noise)

    return leaks


class TestRhoOfARow(ExactAudit):
    mechanisms = MEASURES
    measure, claimed = "ρ", RHO * (1 + 1e-12)
    faults = {
        "half the noise": Fault(planted={"factor": 4}),
        "each number at the whole budget": Fault(
            patch=one_number, mechanisms=[name for name in MEASURES if name != "rows by cell, Gaussian"]
        ),
        "as if it were added": Fault(patch=as_added, relations=[REPLACED]),
        "as if in two cells": Fault(
            patch=in_two_cells, relations=[REPLACED], mechanisms=["rows and two sums by cell, Gaussian"]
        ),
        "each table at the whole budget": Fault(patch=whole_for_each, mechanisms=[TOTAL]),
        "noise left out": Fault(planted={"left_out": True}),
    }

    def floor(self, mechanism, relation):
        # values and their squares are not at both ends at once; noise for the 1-norm would reach at most 0.5
        several = mechanism in [*MEASURES][3:5]
        return 0.999 if not several or relation is ADDED else 0.74

    def loss(self, mechanism, relation, *, factor=1, left_out=False):
        measures = MEASURES[mechanism]
        terms = {"epsilon": EPSILON, "delta": DELTA, "neighbours": relation, "method": "gaussian"}
        terms["marginals"] = [[]] if mechanism == TOTAL else []

        def run(statistic, noise):
            return aggregates.measure(statistic, noise=noise, **terms)

        mechanism_run = leaking(run, lambda statistic: statistic.rows + statistic.incomplete) if left_out else run
        tables = {row: table([row], measures) for row in ROWS} | {None: table([], measures)}
        first = [None] if relation is ADDED else ROWS
        if relation is not ADDED:
            del tables[None]
        return max(zcdp_losses(mechanism_run, tables, first, rho_factor=factor))


GROUPS, PER_GROUP = 2, 2
ROWS_OF_PERSON = [(group, spend, 0.0) for group in ("a", "b", "c") for spend in (None, 0.0, 10.0)]


def persons():
    """The rows of every person within the bound, of full groups or of one row."""
    of_group = {
        group: [
            rows
            for number in (1, PER_GROUP)
            for rows in itertools.combinations_with_replacement(
                [one for one in ROWS_OF_PERSON if one[0] == group], number
            )
        ]
        for group in ("a", "b", "c")
    }
    yield ()
    for group in of_group:
        yield from of_group[group]
    for one, other in itertools.combinations(of_group, 2):
        yield from (rows + more for rows in of_group[one][3:] for more in of_group[other][3:])


class TestRhoOfAUnit(ExactAudit):
    """A person in at most two groups with at most two rows in each: the claim is for all of them together."""

    mechanisms = {
        "rows and one sum of a unit in two groups, Gaussian": [SPEND],
        "rows of a unit, Gaussian": [],
        "rows and one sum of a unit in two groups, with their total, Gaussian": [SPEND],
    }
    measure, claimed = "ρ", RHO * (1 + 1e-12)
    faults = {
        "half the noise": Fault(planted={"factor": 4}),
        "rows of a group as if apart": Fault(patch=rows_apart),
        "groups of a total as if apart": Fault(patch=groups_apart, mechanisms=[*mechanisms][2:]),
        "noise left out": Fault(planted={"left_out": True}),
    }

    def floor(self, mechanism, relation):
        # two persons in two groups each, none of them of both, would need four groups
        return 0.74 if relation is REPLACED and not self.mechanisms[mechanism] else 0.999

    def loss(self, mechanism, relation, *, factor=1, left_out=False):
        measures = self.mechanisms[mechanism]
        options = AggregatesOptions.parse(
            {
                "kind": "aggregates", "by": BY, "measures": measures, "method": "gaussian",
                "max_groups": GROUPS, "max_rows_per_group": PER_GROUP,
                "marginals": [[]] if mechanism.endswith("with their total, Gaussian") else [],
            }
        )  # fmt: skip

        def run(statistic, noise):
            share = EPSILON / (GROUPS * PER_GROUP)
            terms = Terms(epsilon=share, delta=DELTA, neighbours=relation, noise=noise)
            return measure_cells(statistic, options, terms)

        mechanism_run = leaking(run, lambda statistic: statistic.rows + statistic.incomplete) if left_out else run
        tables = {rows: table(rows, measures) for rows in persons()}
        first = [()] if relation is ADDED else [*tables][::9]
        return max(zcdp_losses(mechanism_run, tables, first, rho_factor=factor))


ROWS_USED = 3


class TestRhoOfAUnitOfFewerRows(ExactAudit):
    """A person with at most three rows, wherever they are: the claim is for all of them together."""

    mechanisms = {"rows and one sum of three rows, Gaussian": [SPEND], "rows of three rows, Gaussian": []}
    measure, claimed, at_least = "ρ", RHO * (1 + 1e-12), 0.999
    faults = {
        "half the noise": Fault(planted={"factor": 4}),
        "rows as if apart": Fault(patch=rows_apart),
        "noise left out": Fault(planted={"left_out": True}),
    }

    def loss(self, mechanism, relation, *, factor=1, left_out=False):
        measures = self.mechanisms[mechanism]
        options = AggregatesOptions.parse(
            {"kind": "aggregates", "by": BY, "measures": measures, "method": "gaussian", "max_rows": ROWS_USED}
        )

        def run(statistic, noise):
            terms = Terms(epsilon=EPSILON / ROWS_USED, delta=DELTA, neighbours=relation, noise=noise)
            return measure_cells(statistic, options, terms)

        mechanism_run = leaking(run, lambda statistic: statistic.rows + statistic.incomplete) if left_out else run
        rows = [
            several
            for number in (1, ROWS_USED)
            for several in itertools.combinations_with_replacement(ROWS_OF_PERSON, number)
        ]
        tables = {several: table(several, measures) for several in ((), *rows)}
        first = [()] if relation is ADDED else rows[::11]
        return max(zcdp_losses(mechanism_run, tables, first, rho_factor=factor))


def test_noise_is_as_large_as_is_said():
    none = np.zeros(20_000, dtype=np.int64)
    for terms in (0, 1, 3):
        drawn = cell_gaussian.gaussian_cell_sums(
            none, none, np.zeros((terms, none.size), dtype=np.int64), [4] * terms,
            rho=Decimal("0.02"), epsilon=Decimal(1), neighbours=ADDED, noise=SeededNoise(1),
        )  # fmt: skip
        wanted = np.sqrt((1 + terms) / 0.04)
        assert drawn.law.stddev(1.0, 0.0) == pytest.approx(wanted, rel=1e-6)
        assert drawn.rows.std() == pytest.approx(wanted, rel=0.03)
        assert terms == 0 or drawn.centred.std() == pytest.approx(wanted, rel=0.03)
