"""Figures released without a delta: by the log ratio of the densities that are claimed, on the grid that comes out."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.diagnostics import auc, average_precision
from spark_jobs.mechanisms.continuous_noise import Density
from spark_jobs.mechanisms.pure_release import pure_noise, release_pure
from spark_jobs.statistics import ScoreCounts
from tests.audit.test_smooth_sensitivity_audit import FEW, TABLES, TWO_RECORDS, place
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
from tests.support.audit import Tampered
from tests.support.noises import worst_loss
from tests.support.smooth_loss import log_density, loss_between

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = 2
SHAPES = {density: pure_noise(EPSILON, Density(density)) for density in ("polynomial", "cauchy")}
FIGURES = {"AUC": auc, "average precision": average_precision}


def log_of(shape):
    return log_density(shape.density, shape.degrees, float(shape.epsilon) / shape.rate)


def evidence(release, name, relation, shape, pair, *, times=1):
    """Log ratios of the claimed densities, at what ``release(table)`` gives."""
    log_h = log_of(shape)
    places = [place(name, each, relation, shape.smoothness) for each in pair]

    def mechanism(table, count):
        released = np.array([[release(table) for _ in range(times)] for _ in range(count)])
        one, other = (log_h((released - value) / (shape.scale * bound)) - np.log(bound) for value, bound in places)
        return (one - other).sum(axis=1)

    return mechanism, *pair


def by_mechanism(name, relation, density, noise, *, fewer=1, pair=None, times=1):
    shape = SHAPES[density]
    drawn = replace(shape, scale=shape.scale / fewer)

    def release(table):
        value, bound = place(name, table, relation, shape.smoothness)
        return release_pure(Decimal(value), bound, shape=drawn, noise=noise)

    return evidence(release, name, relation, shape, pair or TABLES[name, relation], times=times)


def what(name, density):
    return f"{name} without a delta, {density} noise"


class TestPureReleases(SampledAudit):
    mechanisms = {what(name, density): (name, density) for name in FIGURES for density in SHAPES}
    claimed, at_least, seed, quick, thorough = EPSILON, 0.15, 111, 600, 3000
    shipped_options = {"threshold": 0.0}
    kept = [what(name, "polynomial") for name in FIGURES]
    faults = {
        "half the noise": Fault(planted={"fewer": 2}, mechanisms=kept),
        "budget spent twice": Fault(planted={"times": 2}, mechanisms=kept),
        "sensitivity off by one record": Fault(
            planted={"records": 2}, mechanisms=kept, relations=[REPLACED], samples=3500
        ),
    }

    def mechanism(self, mechanism, relation, noise, *, records=1, **planted):
        name, density = self.mechanisms[mechanism]
        pair = TWO_RECORDS[name] if records == 2 else None
        return by_mechanism(name, relation, density, noise, pair=pair, **planted)


class TestDiagnostics(SampledAudit):
    mechanisms = {f"{name}, the diagnostic": name for name in FIGURES}
    claimed, at_least, quick = EPSILON, 0.1, 400
    options = {"threshold": 0.0}
    faults = {}

    def mechanism(self, mechanism, relation, noise):
        name = self.mechanisms[mechanism]

        def release(table):
            # an empty cell more makes a grid of it
            negatives, positives = (np.array([*counts, 0]) for counts in table)
            counts = ScoreCounts(negatives=negatives, positives=positives)
            options = {"epsilon": EPSILON, "neighbours": relation, "noise": noise, "method": "polynomial"}
            return FIGURES[name].measure(counts, **options, interval=False).value

        return evidence(release, name, relation, SHAPES["polynomial"], TABLES[name, relation])


class TestExactLossOfPureReleases(ExactAudit):
    mechanisms = TestPureReleases.mechanisms
    claimed, at_least = EPSILON, 0.9
    faults = {"half the noise": Fault(planted={"less": 2})}

    def loss(self, mechanism, relation, *, less=1):
        name, density = self.mechanisms[mechanism]
        shape = SHAPES[density]
        pairs = [TABLES[name, relation], *FEW[name][relation]]
        places = ([place(name, table, relation, shape.smoothness) for table in pair] for pair in pairs)
        return max(loss_between(log_of(shape), shape.scale / less, pair) for pair in places)


class TestExactLossOfAutomaticAreas(ExactAudit):
    """Sizes and counts of an AUC whose noisy sizes choose ``counts``: each is a vector of counts with Laplace noise."""

    mechanisms = ("AUC, auto by counts",)
    claimed, at_least = EPSILON, 0.99

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        def run(counts, noise):
            source = Tampered(source=noise, epsilon_factor=less)
            for _ in range(times):
                drawn = auc.measure(counts, epsilon=EPSILON, neighbours=told or relation, noise=source)
                assert drawn.method == "counts"

        def table(label, cell):
            """A few rows, and one more."""
            rows = np.array([[2, 1, 0, 3], [0, 1, 2, 2]])
            rows[label, cell] += 1
            return ScoreCounts(negatives=rows[0], positives=rows[1])

        fewer = ScoreCounts(negatives=np.array([2, 1, 0, 3]), positives=np.array([0, 1, 2, 2]))
        others = [fewer] if relation is ADDED else [table(*place) for place in np.ndindex(2, 4)]
        return max(worst_loss(run, table(*place), other) for place in np.ndindex(2, 4) for other in others)
