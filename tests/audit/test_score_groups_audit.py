"""Audits of what binned residuals and calibration draw: the groups' numbers, and the whole way to them."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import binned_residuals, calibration
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.group_sums import centred_sums, noisy_groups
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.audit import Tampered, audit, convicts, keeps, log_ratio, samples
from tests.support.flawed.binned_sums import uncentred_sums

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)
CUTS = np.array([0, 2, 6, 8])
NAME = "group sums"


def table(negatives, positives):
    return ScoreCounts(negatives=np.array(negatives), positives=np.array(positives))


BASE = table([1, 0, 2, 0, 0, 1, 0, 0], [0, 0, 3, 0, 1, 0, 0, 1])
ADDED = (table([1, 0, 2, 0, 0, 1, 0, 0], [0, 0, 3, 0, 1, 0, 0, 2]), BASE)
MOVED = (table([1, 0, 2, 0, 0, 1, 0, 1], [0, 0, 3, 0, 1, 0, 0, 1]), table([2, 0, 2, 0, 0, 1, 0, 0], BASE.positives))
FLIPPED = (
    table([1, 0, 2, 0, 0, 2, 0, 0], [0, 0, 3, 0, 1, 0, 0, 1]),
    table([1, 0, 2, 0, 0, 1, 0, 0], [0, 0, 4, 0, 1, 0, 0, 1]),
)
PAIRS = [(Neighbours.ADD_REMOVE, ADDED), (Neighbours.REPLACE_ONE, MOVED), (Neighbours.REPLACE_ONE, FLIPPED)]
EVERY_PAIR = pytest.mark.parametrize(("neighbours", "pair"), PAIRS, ids=["added", "moved", "flipped"])


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


@pytest.mark.sampled
@EVERY_PAIR
def test_group_sums_keep_epsilon_and_use_it(neighbours, pair):
    found = audit(*groups_of(SecureNoise(), neighbours, pair), samples=samples(3000))
    assert keeps(found, NAME, relation=neighbours, claimed=EPSILON, at_least=0.05)


@pytest.mark.verify
@EVERY_PAIR
def test_half_the_noise_is_convicted(neighbours, pair):
    found = audit(
        *groups_of(Tampered(source=SeededNoise(81), epsilon_factor=2), neighbours, pair), samples=samples(5000)
    )
    assert convicts(found, NAME, relation=neighbours, claimed=EPSILON, fault="noise halved")


@pytest.mark.verify
def test_a_sensitivity_short_of_one_row_is_convicted():
    noise = Tampered(source=SeededNoise(82), missing_rows=1)
    found = audit(*groups_of(noise, Neighbours.REPLACE_ONE, FLIPPED), samples=samples(5000))
    assert convicts(found, NAME, relation=Neighbours.REPLACE_ONE, claimed=EPSILON, fault="sensitivity off by one row")


@pytest.mark.verify
@pytest.mark.parametrize("pair", [MOVED, FLIPPED], ids=["moved", "flipped"])
def test_noise_for_an_added_row_is_convicted_where_rows_are_replaced(pair):
    found = audit(*groups_of(SeededNoise(83), Neighbours.ADD_REMOVE, pair), samples=samples(5000))
    assert convicts(
        found, NAME, relation=Neighbours.REPLACE_ONE, claimed=EPSILON, fault="noise calibrated for an added row"
    )


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
    assert convicts(
        found, NAME, relation=Neighbours.ADD_REMOVE, claimed=EPSILON, fault="sums not centred, as published"
    )


@pytest.mark.sampled("diagnostic")
@pytest.mark.parametrize("diagnostic", [binned_residuals, calibration], ids=["binned residuals", "calibration"])
@pytest.mark.parametrize("method", ["auto", "recursive_medians", "fixed_bins"])
@pytest.mark.parametrize(("neighbours", "pair"), [PAIRS[0], PAIRS[2]], ids=["added", "flipped"])
def test_releases_keep_epsilon_and_use_it(diagnostic, method, neighbours, pair):
    mechanism = release_of(SecureNoise(), neighbours, pair, diagnostic, method)
    found = audit(*mechanism, samples=samples(250), threshold=0.0)
    name = f"{diagnostic.__name__.rsplit('.', 1)[1]}, {method}"
    assert keeps(found, name, relation=neighbours, claimed=LARGE, at_least=0.03)


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
        return np.array([evidence(measurement.groups, *ADDED) for measurement in drawn])

    noise = SeededNoise(85)
    found = audit(mechanism, *ADDED, samples=samples(5000))
    assert convicts(found, NAME, relation=Neighbours.ADD_REMOVE, claimed=EPSILON, fault="budget spent twice")
