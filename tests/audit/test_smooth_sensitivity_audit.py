"""Statistics with noise scaled by a smooth bound: by the log ratio of the densities that are claimed."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.continuous_noise import cauchy_noise, laplace_noise, polynomial_noise, student_t_noise
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.quantiles import recursive_medians
from spark_jobs.mechanisms.smooth_sensitivity import (
    auc_bound,
    auc_fraction,
    average_precision,
    average_precision_bound,
    lower_median,
    median_bound,
    release_auc,
    release_average_precision,
    release_median,
)
from tests.support.audit import audit, audit_outputs, convicts, keeps, samples
from tests.support.smooth_loss import log_density

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)
SHAPES = {
    "polynomial": polynomial_noise(EPSILON),
    "cauchy": cauchy_noise(EPSILON),
    "student_t": student_t_noise(EPSILON),
    "laplace": laplace_noise(EPSILON, "1e-6"),
}
ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
# the row that moves a statistic the most, of two hundred in a class, at low, middle and high scores: a positive below
# all negatives, a negative above all positives, a row across a gap at the median
RANKED = ([0, 200, 0], [0, 0, 200])
TABLES = {
    ("AUC", ADDED): (RANKED, ([0, 200, 0], [1, 0, 200])),
    ("AUC", REPLACED): (RANKED, ([0, 200, 0], [1, 0, 199])),
    ("average precision", ADDED): (([5, 0, 0], [0, 200, 0]), ([5, 0, 1], [0, 200, 0])),
    ("average precision", REPLACED): (([5, 0, 0], [0, 199, 1]), ([5, 0, 1], [0, 199, 0])),
    ("median", ADDED): ([30, *[0] * 62, 30], [30, *[0] * 62, 31]),
    ("median", REPLACED): ([30, *[0] * 62, 30], [29, *[0] * 62, 31]),
}
TWO_RECORDS = {
    "AUC": (RANKED, ([0, 200, 0], [2, 0, 198])),
    "average precision": (([5, 0, 0], [0, 198, 2]), ([5, 0, 2], [0, 198, 0])),
}


def auc(table, relation, shape, noise):
    return release_auc(*table, shape=shape, neighbours=relation, noise=noise)


def ap(table, relation, shape, noise):
    return release_average_precision(*table, shape=shape, neighbours=relation, noise=noise)


def median(table, relation, shape, noise):
    return release_median(table, shape=shape, noise=noise)


def place(name, table, relation, smoothness):
    """The statistic's exact value and its bound."""
    if name == "median":
        return lower_median(table), median_bound(table, smoothness=smoothness)
    options = {"neighbours": relation, "smoothness": smoothness}
    if name == "AUC":
        return float(auc_fraction(*table)), auc_bound(*(sum(counts) for counts in table), **options)
    return average_precision(*table), average_precision_bound(sum(table[1]), **options)


RELEASES = {"median": median, "AUC": auc, "average precision": ap}
NAMES = pytest.mark.parametrize("name", RELEASES)
DENSITIES = pytest.mark.parametrize("density", SHAPES)
BOTH = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])


def evidence(name, relation, noise, density, *, fewer=1.0, pair=None, times=1):
    """Log ratios of densities, at the claimed scale; what is drawn may have ``fewer`` times less noise."""
    release, (first, second) = RELEASES[name], pair or TABLES[name, relation]
    shape = SHAPES[density]
    log_h = log_density(shape.density, shape.degrees, float(shape.epsilon) / shape.rate)
    places = [place(name, table, relation, shape.smoothness) for table in (first, second)]
    drawn = replace(shape, scale=shape.scale / fewer)

    def mechanism(table, count):
        released = np.array([[release(table, relation, drawn, noise) for _ in range(times)] for _ in range(count)])
        (one, other) = (log_h((released - at) / (shape.scale * s)) - np.log(s) for at, s in places)
        return (one - other).sum(axis=1)

    return mechanism, first, second


@NAMES
@DENSITIES
@BOTH
def test_a_release_keeps_epsilon(name, density, relation):
    shape = SHAPES[density]
    found = audit(*evidence(name, relation, SecureNoise(), density), samples=samples(400), delta=float(shape.delta))
    assert keeps(found, f"{name}, {density} noise", relation=relation, claimed=EPSILON)


# the constants of Student's t and Laplace noise are loose: their loss is far below the claim
TOO_LITTLE = {"polynomial": 3, "cauchy": 4, "student_t": 6, "laplace": 4}


@NAMES
@DENSITIES
def test_a_release_with_too_little_noise_is_convicted(name, density):
    fewer, delta = TOO_LITTLE[density], float(SHAPES[density].delta)
    found = audit(*evidence(name, REPLACED, SeededNoise(31), density, fewer=fewer), samples=samples(1000), delta=delta)
    fault = f"noise divided by {fewer}"
    assert convicts(found, f"{name}, {density} noise", relation=REPLACED, claimed=EPSILON, fault=fault)


@NAMES
@BOTH
def test_a_release_with_half_the_noise_is_convicted(name, relation):
    found = audit(*evidence(name, relation, SeededNoise(32), "polynomial", fewer=2), samples=samples(2500))
    assert convicts(found, f"{name}, polynomial noise", relation=relation, claimed=EPSILON, fault="half the noise")


@NAMES
@BOTH
def test_a_release_drawn_four_times_is_convicted(name, relation):
    found = audit(*evidence(name, relation, SeededNoise(33), "polynomial", times=4), samples=samples(1500))
    fault = "budget spent four times"
    assert convicts(found, f"{name}, polynomial noise", relation=relation, claimed=EPSILON, fault=fault)


@pytest.mark.parametrize("name", TWO_RECORDS)
def test_a_bound_for_one_record_is_convicted_where_two_are_replaced(name):
    mechanism = evidence(name, REPLACED, SeededNoise(34), "polynomial", pair=TWO_RECORDS[name])
    found = audit(*mechanism, samples=samples(4000))
    fault = "sensitivity off by one record"
    assert convicts(found, f"{name}, polynomial noise", relation=REPLACED, claimed=EPSILON, fault=fault)


# two levels on four cells; a row is added across the gap at the median, or moved there
ROWS = {ADDED: ([9, 0, 0, 9], [9, 0, 0, 10]), REPLACED: ([9, 0, 0, 9], [8, 0, 0, 10])}


def thresholds(relation, noise, epsilon):
    def mechanism(table, count):
        options = {"levels": 2, "epsilon": epsilon, "neighbours": relation, "noise": noise}
        return np.array([recursive_medians(table, **options).thresholds @ [25, 5, 1] for _ in range(count)])

    return mechanism


@BOTH
def test_recursive_medians_keep_epsilon(relation):
    found = audit_outputs(thresholds(relation, SecureNoise(), 2), *ROWS[relation], samples=samples(500))
    assert keeps(found, "recursive medians", relation=relation, claimed=2)


@BOTH
def test_recursive_medians_with_too_little_noise_are_convicted(relation):
    found = audit_outputs(thresholds(relation, SeededNoise(35), 12), *ROWS[relation], samples=samples(2500))
    assert convicts(found, "recursive medians", relation=relation, claimed=2, fault="a sixth of the noise")
