"""Points of a distribution function: the exact loss of all evaluations together, wherever a search asks for them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from spark_jobs.diagnostics import cdf_points
from spark_jobs.statistics import ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid
from tests.suites.audit import ExactAudit, Fault
from tests.support.audit import Tampered
from tests.support.neighbouring import neighbouring
from tests.support.noises import worst_loss

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = 2
GRID = ValueGrid(lower=0, upper=1, cells=8)
POINTS = {
    "shares at thresholds": {"thresholds": (0.25, 0.5, 0.75), "quantiles": ()},
    "a quantile by search": {"quantiles": (0.5,)},
}


class Alone:
    """Noise for one evaluation, where there are several."""

    private, guarantee = False, "NOT PRIVATE"

    def __init__(self, noise):
        self.noise = noise

    def laplace(self, values, *, epsilon, l1_sensitivity):
        return self.noise.laplace(values, epsilon=epsilon, l1_sensitivity=1)


class TestExactLoss(ExactAudit):
    mechanisms = POINTS
    claimed, at_least = EPSILON, 0.7
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "budget spent twice": Fault(planted={"times": 2}),
        "each evaluation at the whole budget": Fault(planted={"alone": True}),
    }

    def loss(self, mechanism, relation, *, less=1, times=1, alone=False):
        def run(counts, noise):
            source = Tampered(source=noise, epsilon_factor=less)
            terms = {"epsilon": EPSILON, "neighbours": relation, "noise": Alone(source) if alone else source}
            cdf_points.measure(ValueCounts(counts=counts, grid=GRID), **terms, **POINTS[mechanism])

        tables = [np.array([*held, 0, 2, 0, 1]) for held in itertools.product(range(3), repeat=4)]
        pairs = [(table, other) for table in tables[::8] for other in neighbouring(table, relation)]
        return max(times * float(worst_loss(run, *pair)) for pair in pairs)
