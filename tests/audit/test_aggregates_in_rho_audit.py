"""A release of a table whose budget is a rho: the Rényi loss of a whole unit, of any order, by all that is drawn."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache

import numpy as np
import pytest

from spark_jobs.application.run import measure
from spark_jobs.contract import budget_split
from spark_jobs.contract.left_out import LEFT_OUT
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.mechanisms import cell_gaussian
from spark_jobs.mechanisms.noise import SeededNoise, gaussian_stddev
from spark_jobs.statistics import AggregateSums
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault

pytestmark = [pytest.mark.audit, pytest.mark.slow]

RHO = Decimal("0.5")
ORDERS = (1.5, 2.0, 7.3, 64.0)
BY = [{"column": "group", "values": ["a", "b"], "other": False}]
SPEND = {"of": "spend", "bounds": [0, 10], "step": 1}
UNIT = {"column": "person", "max_rows": 4}
TABLES = {
    "counts of rows, in rho": {},
    "rows and one sum, in rho": {"measures": [SPEND]},
    "rows and one sum, with their total, in rho": {"measures": [SPEND], "marginals": [[]], "weights": [3, 1]},
    "rows and one sum of three of four rows, in rho": {"measures": [SPEND], "max_rows": 3},
    "rows and one sum of a unit in two groups, in rho": {
        "measures": [SPEND], "max_groups": 2, "max_rows_per_group": 2,
    },
    "rows and one sum of a unit in two groups, with their total, in rho": {
        "measures": [SPEND], "max_groups": 2, "max_rows_per_group": 2, "marginals": [[]],
    },
}  # fmt: skip
FEWER = "rows and one sum of three of four rows, in rho"
*_, GROUPED, GROUPED_WITH_TOTAL = TABLES
OF_GROUPS = (GROUPED, GROUPED_WITH_TOTAL)
ROWS = [("a", None), ("a", 0.0), ("a", 10.0), ("b", 0.0), ("b", 10.0)]
OTHERS = [("a", 3.0), ("b", 10.0), ("b", None)]
UNCOUNTED = "no row of the table"


@dataclass
class Watched:
    """Noise that keeps what is asked of it, by kind, and draws it from a seed.

    Attributes:
        seed: of what is drawn.
        factor: a fault: Gaussian noise for this many times the cost.
    """

    seed: int = 1
    factor: int = 1
    asked: list = field(default_factory=list)
    private = joint = False
    guarantee = "NOT PRIVATE"
    deposit = None

    def gaussian(self, values, *, rho, l2_sensitivity):
        cost = self.factor * float(rho)
        self.asked.append(("gaussian", np.array(values, dtype=np.float64), gaussian_stddev(cost, l2_sensitivity)))
        return SeededNoise(self.seed).gaussian(values, rho=cost, l2_sensitivity=l2_sensitivity)

    def laplace(self, values, *, epsilon, l1_sensitivity):
        self.asked.append(("laplace", np.array(values, dtype=np.float64), l1_sensitivity / float(epsilon)))
        return SeededNoise(self.seed).laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity)


@cache
def order_of_laplace(shift, scale, order):
    """The Rényi divergence of two-sided geometric noise and the same, shifted: summed over all that has weight."""
    if not shift:
        return 0.0
    reach = int(60 * scale * order) + 10
    places = np.arange(-reach, reach + int(shift) + 1, dtype=np.float64)
    one, other = -np.abs(places) / scale, -np.abs(places - shift) / scale
    weight = np.logaddexp.reduce(one)
    return (np.logaddexp.reduce(order * one + (1 - order) * other) - weight) / (order - 1)


def order_of_gaussian(shift, stddev, order):
    """That of discrete Gaussian noise, by its own sum; of many steps, that of the continuous one, which is no less."""
    if stddev > 1000:
        return order * shift**2 / (2 * stddev**2)
    places = np.arange(-int(40 * stddev * order) - 10, int(40 * stddev * order) + 10 + int(shift), dtype=np.float64)
    one, other = -(places**2) / (2 * stddev**2), -((places - shift) ** 2) / (2 * stddev**2)
    return (np.logaddexp.reduce(order * one + (1 - order) * other) - np.logaddexp.reduce(one)) / (order - 1)


@pytest.mark.parametrize("stddev", [0.7, 3.0, 40.0])
@pytest.mark.parametrize("order", ORDERS)
def test_discrete_gaussian_noise_loses_no_more_than_the_continuous_one(stddev, order):
    for shift in (1, 2, 5):
        assert order_of_gaussian(shift, stddev, order) <= order * shift**2 / (2 * stddev**2) * (1 + 1e-9)


def asked(options, relation):
    entry = {"kind": "aggregates", "by": BY, **options}
    return ReleaseRequest.parse(
        {
            "table": {"path": "/lake/rows", "snapshot": {"path_version": "v1"}},
            "neighbours": relation.value, "unit": UNIT, "diagnostics": [entry], "budget": {"rho": str(RHO)},
        }
    )  # fmt: skip


def counts_of(request, rows):
    counted = [*OTHERS, *(row for row in rows if row != UNCOUNTED)]
    (statistic,) = request.statistics
    group, spend = map(list, zip(*counted, strict=True))
    exact = AggregateSums.from_arrays({"group": group, "spend": spend}, by=statistic.by, measures=statistic.measures)
    causes = np.array([0, 2, 1 + sum(row == UNCOUNTED for row in rows), 5])
    return {statistic: exact, LEFT_OUT: causes}


def units(name):
    """The rows of units within the bound: of one row, and as many as there may be, alike or in two cells."""
    most = 3 if name == FEWER else 4
    yield ()
    for row in (*ROWS, UNCOUNTED):
        yield (row,)
    for one, other in itertools.combinations_with_replacement((*ROWS, UNCOUNTED), 2):
        if name in OF_GROUPS and UNCOUNTED not in (one, other) and one[0] == other[0]:
            continue
        for rows in (2,) if name in OF_GROUPS else (most - 1, 1):
            yield (*[one] * rows, *[other] * (most - rows))[:most]


def squares_left_out(monkeypatch):
    """As if a unit of k rows lost k times the rho of one, and not its square."""
    inner = budget_split._part_of_rho

    def part(request, diagnostics, rho):
        made = inner(request, diagnostics, rho)
        return replace(made, rhos_of_row=request.rows_of_unit)

    monkeypatch.setattr(budget_split, "_part_of_rho", part)


def whole_for_each(monkeypatch):
    """As if each of several tables might cost what all of them may."""
    from spark_jobs.diagnostics.aggregates import gaussian

    inner = gaussian.shares_of
    monkeypatch.setattr(gaussian, "shares_of", lambda amount, weights, tables: (*inner(amount, None, 1),) * tables)
    monkeypatch.setattr(
        "spark_jobs.diagnostics.aggregates.measurement.RhoMeter.spend", lambda meter, rho, *, label: rho
    )


def groups_apart(monkeypatch):
    """As if a unit's groups were in several cells of a total too."""
    from spark_jobs.diagnostics.aggregates import gaussian

    monkeypatch.setattr(gaussian, "rhos_of_noise", lambda rhos, groups: rhos)


def as_added(monkeypatch):
    """As if a replaced row changed no more than an added one."""
    monkeypatch.setattr(cell_gaussian, "cost_of_added", lambda rho, numbers, neighbours: rho)


class TestRhoOfARelease(ExactAudit):
    mechanisms = TABLES
    measure, claimed, at_least = "ρ", float(RHO) * (1 + 1e-9), 0.94
    faults = {
        "half the noise": Fault(planted={"factor": 4}),
        "rows of a unit as if apart": Fault(patch=squares_left_out, mechanisms=[*TABLES][1:2]),
        "as if it were added": Fault(patch=as_added, relations=[REPLACED], mechanisms=[*TABLES][1:]),
        "each table at the whole budget": Fault(patch=whole_for_each, mechanisms=[*TABLES][2:3]),
        "groups of a total as if apart": Fault(patch=groups_apart, mechanisms=[GROUPED_WITH_TOTAL]),
        "noise left out": Fault(planted={"left_out": True}),
    }

    def floor(self, mechanism, relation):
        # two units in two groups each, none of them of both, would need four groups
        return 0.7 if mechanism in OF_GROUPS and relation is REPLACED else self.at_least

    def loss(self, mechanism, relation, *, factor=1, left_out=False):
        request = asked(TABLES[mechanism], relation)
        every = {rows: asks(request, counts_of(request, rows), factor, leaking=left_out) for rows in units(mechanism)}
        first = [()] if relation is ADDED else [rows for rows in every if rows]
        return max(
            divergence(every[one], every[other])
            for one in first
            for other in every
            if one != other and (relation is ADDED or other)
        )


def asks(request, counts, factor, *, leaking):
    """What a release asks of its noise; the same, whatever was answered."""
    paths = []
    for seed in (1, 2):
        noise = Watched(seed=seed, factor=factor)
        if leaking:
            (statistic,) = request.statistics
            noise.gaussian(counts[statistic].rows, rho=10**4, l2_sensitivity=1.0)
        measure(request, counts, charge_id=None, noise=noise)
        paths.append(noise.asked)
    for (kind, values, scale), (again, others, same) in zip(*paths, strict=True):
        assert (kind, scale) == (again, same)
        np.testing.assert_array_equal(values, others)
    return paths[0]


def divergence(one, other):
    """The largest of ``D_order / order`` over orders, for one table's output against its neighbour's."""
    kinds = {"gaussian": order_of_gaussian, "laplace": order_of_laplace}
    totals = dict.fromkeys(ORDERS, 0.0)
    for (kind, values, scale), (again, others, same) in zip(one, other, strict=True):
        assert (kind, scale) == (again, same), "the noise depends on the table"
        for shift in np.abs(values - others).ravel():
            totals = {at: total + kinds[kind](float(shift), scale, at) for at, total in totals.items()}
    return max(total / order for order, total in totals.items())
