"""Audits of what binned residuals and calibration draw: the groups' numbers, and the whole way to them."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.diagnostics import binned_residuals, calibration
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.group_sums import centred_sums, noisy_groups
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.suites.audit import ADDED, REPLACED, Fault, SampledAudit
from tests.support.audit import audit, convicts, log_ratio, samples
from tests.support.flawed.binned_sums import uncentred_sums

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)
CUTS = np.array([0, 2, 6, 8])
NAME = "group sums"


def table(negatives, positives):
    return ScoreCounts(negatives=np.array(negatives), positives=np.array(positives))


BASE = table([1, 0, 2, 0, 0, 1, 0, 0], [0, 0, 3, 0, 1, 0, 0, 1])
WITH_A_ROW = (table([1, 0, 2, 0, 0, 1, 0, 0], [0, 0, 3, 0, 1, 0, 0, 2]), BASE)
MOVED = (table([1, 0, 2, 0, 0, 1, 0, 1], [0, 0, 3, 0, 1, 0, 0, 1]), table([2, 0, 2, 0, 0, 1, 0, 0], BASE.positives))
FLIPPED = (
    table([1, 0, 2, 0, 0, 2, 0, 0], [0, 0, 3, 0, 1, 0, 0, 1]),
    table([1, 0, 2, 0, 0, 1, 0, 0], [0, 0, 4, 0, 1, 0, 0, 1]),
)


def exact(statistic, cuts):
    counts = np.stack([statistic.negatives, statistic.positives])
    return [totals(counts[1], cuts), totals(counts[0], cuts), centred_sums(counts.sum(axis=0), cuts)]


def evidence(groups, first, second):
    """Log ratio of all numbers of the groups, under the claimed scales."""
    scales = groups.scales()
    value = 0.0
    seen = (groups.positives, groups.negatives, groups.centred)
    for noisy, one, other, scale in zip(
        seen, exact(first, groups.cuts), exact(second, groups.cuts), scales[[0, 0, 1]], strict=True
    ):
        for group in np.flatnonzero(scale):
            value += float(log_ratio(noisy[[group]], one[[group]], other[[group]], float(scale[group])))
    return value


def groups_of(noise, neighbours, pair):
    def mechanism(statistic, count):
        counts = np.stack([statistic.negatives, statistic.positives])
        drawn = (noisy_groups(counts, CUTS, epsilon=EPSILON, neighbours=neighbours, noise=noise) for _ in range(count))
        return np.array([evidence(groups, *pair) for groups in drawn])

    return mechanism, *pair


LARGE = Decimal(4)
"""For whole releases, a part of which goes to the cells: that part is no evidence here."""


def release_of(noise, neighbours, pair, diagnostic=binned_residuals, method="auto"):
    """All of a release on a grid so small that every look is at single cells: the numbers tell the most."""

    def mechanism(statistic, count):
        options = {"epsilon": LARGE, "neighbours": neighbours, "noise": noise, "method": method, "bins": 4}
        drawn = (diagnostic.measure(statistic, **options) for _ in range(count))
        return np.array([evidence(measurement.groups, *pair) for measurement in drawn])

    return mechanism, *pair


class TestGroupSums(SampledAudit):
    mechanisms = (NAME,)
    pairs = {ADDED: WITH_A_ROW, REPLACED: MOVED}
    claimed, at_least, seed, quick, thorough = EPSILON, 0.05, 81, 800, 5000
    faults = {
        "noise halved": Fault(noise={"epsilon_factor": 2}),
        "noise calibrated for an added row": Fault(planted={"told": ADDED}, relations=[REPLACED]),
    }

    def mechanism(self, mechanism, relation, noise, *, told=None):
        return groups_of(noise, told or relation, self.pairs[relation])


@pytest.mark.verify
class TestGroupSumsWhereALabelChanges(TestGroupSums):
    relations = (REPLACED,)
    pairs = {REPLACED: FLIPPED}
    faults = {**TestGroupSums.faults, "sensitivity off by one row": Fault(noise={"missing_rows": 1})}


class TestReleases(SampledAudit):
    mechanisms = {
        f"{diagnostic.__name__.rsplit('.', 1)[1]}, {method}": (diagnostic, method)
        for diagnostic in (binned_residuals, calibration)
        for method in ("auto", "recursive_medians", "fixed_bins")
    }
    claimed, at_least, quick = LARGE, 0.03, 250
    options = {"threshold": 0.0}
    kept = ("binned_residuals, auto", "calibration, auto")
    faults = {}

    def mechanism(self, mechanism, relation, noise):
        pair = {ADDED: WITH_A_ROW, REPLACED: FLIPPED}[relation]
        return release_of(noise, relation, pair, *self.mechanisms[mechanism])


@pytest.mark.verify
def test_published_sums_are_convicted():
    """Chen 2018, section 4.4.2: a record near 1 that joins a narrow bin, by the sum of scores alone."""
    cuts, grid = np.array([0, 32, 63, 64]), 64
    counts = np.zeros((2, grid), dtype=np.int64)
    one = counts.copy()
    one[0, -1] = 1
    noise = SeededNoise(84)

    def mechanism(given, count):
        drawn = (uncentred_sums(given, cuts, epsilon=float(EPSILON), noise=noise)[-1] for _ in range(count))
        return np.array([scores[0] for _, scores, _ in drawn], dtype=float)

    found = audit(mechanism, one, counts, samples=samples(4000))
    assert convicts(found, NAME, relation=ADDED, claimed=EPSILON, fault="sums not centred, as published")


@pytest.mark.verify
def test_a_meter_that_forgets_is_convicted(monkeypatch):
    class Forgetful(BudgetMeter):
        def spend_rest(self, *, label):
            return 2 * self.granted.epsilon

    monkeypatch.setattr("spark_jobs.diagnostics.diagnostic.BudgetMeter", Forgetful)

    def mechanism(statistic, count):
        drawn = (
            binned_residuals.measure(statistic, epsilon=EPSILON, noise=noise, method="fixed_bins", bins=4)
            for _ in range(count)
        )
        return np.array([evidence(measurement.groups, *WITH_A_ROW) for measurement in drawn])

    noise = SeededNoise(85)
    found = audit(mechanism, *WITH_A_ROW, samples=samples(5000))
    assert convicts(found, NAME, relation=ADDED, claimed=EPSILON, fault="budget spent twice")
