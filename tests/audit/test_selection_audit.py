"""Choices: by the index that comes out, which is all that they release; here, whether it is the first."""

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.quantiles import private_quantile
from spark_jobs.mechanisms.selection import (
    exponential_mechanism,
    interval_exponential,
    median_by_exponential,
    permute_and_flip,
    report_noisy_max,
)
from tests.support.audit import Tampered, audit_outputs, convicts, keeps, samples

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = 1.5
# one score rises by 1 and seven fall by 1; or all rise, by 1 or not at all
OPPOSED = np.eye(8, dtype=int)[0], 1 - np.eye(8, dtype=int)[0]
RISING = np.eye(8, dtype=int)[0], np.ones(8, dtype=int)
LENGTHS = [5, 0, 5, 5, 5, 5, 5, 5, 5]


def intervals(scores, *, epsilon, l_inf_sensitivity, noise, monotone=False):
    """Which interval a point of ``interval_exponential`` lies in, the second being of no length."""
    chosen = interval_exponential(
        np.insert(scores, 1, 9), LENGTHS, epsilon=epsilon, l_inf_sensitivity=l_inf_sensitivity, noise=noise
    )
    return int(np.searchsorted(np.cumsum(LENGTHS), chosen, side="right"))


CHOICES = {
    "exponential mechanism": exponential_mechanism,
    "permute and flip": permute_and_flip,
    "report noisy max": report_noisy_max,
    "interval exponential": intervals,
}
MONOTONE = [name for name in CHOICES if name != "interval exponential"]


def first_chosen(name, noise, *, epsilon=EPSILON, moves=1, monotone=False, times=1):
    def mechanism(scores, count):
        options = {"epsilon": epsilon, "l_inf_sensitivity": 1, "noise": noise, "monotone": monotone}
        drawn = [[CHOICES[name](scores * moves, **options) == 0 for _ in range(times)] for _ in range(count)]
        return np.array(drawn).sum(axis=1)

    return mechanism


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_keeps_epsilon(name):
    found = audit_outputs(first_chosen(name, SecureNoise()), *OPPOSED, samples=samples(1200))
    assert keeps(found, name, relation="scores move by 1", claimed=EPSILON)


@pytest.mark.parametrize("name", MONOTONE)
def test_a_monotone_choice_keeps_epsilon(name):
    found = audit_outputs(first_chosen(name, SecureNoise(), monotone=True), *RISING, samples=samples(1200))
    assert keeps(found, name, relation="scores rise by 1", claimed=EPSILON)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize(
    ("fault", "planted"),
    [
        ("half the noise", {"epsilon": 2 * EPSILON}),
        ("sensitivity off by one record", {"moves": 2}),
        ("drawn eight times for one price", {"times": 8}),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_faulty_choice_is_convicted(name, fault, planted):
    found = audit_outputs(first_chosen(name, SeededNoise(41), **planted), *OPPOSED, samples=samples(2000))
    assert convicts(found, name, relation="scores move by 1", claimed=EPSILON, fault=fault)


@pytest.mark.parametrize("name", MONOTONE)
def test_monotone_weights_are_convicted_where_scores_move_both_ways(name):
    found = audit_outputs(first_chosen(name, SeededNoise(42), monotone=True), *OPPOSED, samples=samples(3000))
    assert convicts(found, name, relation="scores move by 1", claimed=EPSILON, fault="monotone claimed wrongly")


def test_noisy_max_with_half_the_noise_drawn_is_convicted():
    noise = Tampered(source=SeededNoise(43), epsilon_factor=2)
    found = audit_outputs(first_chosen("report noisy max", noise), *OPPOSED, samples=samples(3000))
    fault = "half the noise drawn"
    assert convicts(found, "report noisy max", relation="scores move by 1", claimed=EPSILON, fault=fault)


# a row more at the first of three places, or one moved there from the last
MIDDLE = {Neighbours.ADD_REMOVE: ([2, 2, 2], [3, 2, 2]), Neighbours.REPLACE_ONE: ([2, 2, 2], [3, 2, 1])}
GAP = {Neighbours.ADD_REMOVE: ([3, 0, 3], [4, 0, 3]), Neighbours.REPLACE_ONE: ([3, 0, 3], [4, 0, 2])}
PLACES = [0, 50, 100]
BOTH = pytest.mark.parametrize("relation", list(Neighbours))


def quantile(table, relation, epsilon, noise):
    return private_quantile(table, level="0.5", epsilon=epsilon, neighbours=relation, noise=noise)


def median(table, relation, epsilon, noise, widen=0):
    """The place left of the median that was chosen, or what lies about the middle one."""
    options = {"epsilon": epsilon, "neighbours": relation, "noise": noise}
    found = median_by_exponential(np.repeat(PLACES, table), steps=150, widen=widen, **options)
    return int(np.searchsorted([49, 51, 101], found, side="right"))


def widened(table, relation, epsilon, noise):
    return median(table, relation, epsilon, noise, widen=1)


MEDIANS = {
    "private quantile": (quantile, GAP),
    "median on a grid": (median, MIDDLE),
    "widened median": (widened, MIDDLE),
}


def picked(name, relation, noise, *, epsilon=EPSILON, pairs=None):
    pick, own = MEDIANS[name]

    def mechanism(table, count):
        return np.array([pick(table, relation, epsilon, noise) for _ in range(count)])

    return mechanism, *own[pairs or relation]


@pytest.mark.parametrize("name", MEDIANS)
@BOTH
def test_a_median_keeps_epsilon(name, relation):
    found = audit_outputs(*picked(name, relation, SecureNoise()), samples=samples(1200))
    assert keeps(found, name, relation=relation, claimed=EPSILON)


@pytest.mark.parametrize("name", MEDIANS)
@BOTH
def test_a_faulty_median_is_convicted(name, relation):
    found = audit_outputs(*picked(name, relation, SeededNoise(44), epsilon=4 * EPSILON), samples=samples(2000))
    assert convicts(found, name, relation=relation, claimed=EPSILON, fault="a quarter of the noise")


@pytest.mark.parametrize("name", ["median on a grid", "widened median"])
def test_weights_for_added_rows_are_convicted_where_rows_are_replaced(name):
    relation, fault = Neighbours.REPLACE_ONE, "sensitivity off by one record"
    mechanism = picked(name, Neighbours.ADD_REMOVE, SeededNoise(45), pairs=relation)
    found = audit_outputs(*mechanism, samples=samples(4000))
    assert convicts(found, name, relation=relation, claimed=EPSILON, fault=fault)
