"""Streams of a hierarchy: the exact law of pruning, groups and counts together, and samples of whole releases."""

from decimal import Decimal
from functools import cache

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.streams.hierarchy import (
    HierarchyShape,
    HierarchyState,
    laplace_hierarchy,
    release_hierarchy,
)
from tests.support.audit import Tampered, audit, convicts, exactly, keeps, samples
from tests.support.flawed.pruning import fresh_threshold_tests
from tests.support.hierarchy_law import HierarchyLaw
from tests.support.noises import worst_loss
from tests.support.sparse_vector_loss import RecordingNoise, geometric_mass, tail
from tests.support.stream_law import neighbours_of

pytestmark = [pytest.mark.audit, pytest.mark.slow]

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BOTH = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])
EPSILON = Decimal(6)
NAME = "streams of a hierarchy"


def public(relation, **changed):
    """Shares and thresholds at which two or three steps of four states are pruned, and not, and grouped, and not."""
    options = {
        "hierarchy": Hierarchy.line(4, branching=2),
        "epsilon": EPSILON,
        "neighbours": relation,
        "prune_share": "0.3",
        "group_share": "0.3",
        "refine_from": 4 if relation is ADDED else 2,
        "threshold": 3.0,
    }
    return HierarchyShape(**{**options, **changed})


STREAMS = [[[3, 2, 1, 0], [9, 0, 0, 1]], [[2, 2, 2, 2], [0, 0, 0, 12]], [[4, 0, 0, 0], [0, 9, 0, 0], [5, 8, 0, 0]]]


def pairs(relation):
    """Streams with one event more, at any step and in any state, or with one elsewhere."""
    # where an event is replaced there are many more neighbours, and streams of three steps take long
    for stream in STREAMS if relation is ADDED else STREAMS[:2]:
        shape = np.array(stream).shape
        for other in neighbours_of(np.ravel(stream).tolist(), relation is REPLACED):
            yield stream, np.reshape(other, shape).tolist()


@cache
def worst(relation, told=None, less=1, generous=False):
    """The largest loss, over neighbours of a few streams and all that may be released of them."""
    law = HierarchyLaw(public(told or relation), less=less, generous=generous)
    return max(law.loss(one, other) for one, other in pairs(relation))


@BOTH
def test_all_that_is_released_loses_no_more_than_epsilon(relation):
    # groups use a third of their part, pruning not all of its
    assert keeps(exactly(worst(relation)), NAME, relation=relation, claimed=EPSILON, at_least=0.6)


@BOTH
def test_a_faulty_release_is_convicted(relation):
    said = {"relation": relation, "claimed": EPSILON}
    assert convicts(exactly(worst(relation, less=2)), NAME, **said, fault="half the noise")
    assert convicts(exactly(2 * worst(relation)), NAME, **said, fault="budget spent twice")
    fault = "the budget of pruned levels, where they are not pruned"
    assert convicts(exactly(worst(relation, generous=True)), NAME, **said, fault=fault)
    if relation is REPLACED:
        assert convicts(exactly(worst(relation, told=ADDED)), NAME, **said, fault="noise for an added row")


@BOTH
def test_two_events_of_a_person_keep_epsilon_where_they_are_said_and_not_where_they_are_not(relation):
    one = np.array([[3, 2, 1, 0], [9, 0, 0, 1]])
    # two more at one step, in states that share the root alone; or both elsewhere
    two = np.array([[1, 0, 0, 1], [0, 0, 0, 0]])
    other = np.zeros_like(two) if relation is ADDED else two[::-1]
    said = {"relation": relation, "claimed": EPSILON}
    losses = [
        HierarchyLaw(public(relation, max_rows=rows)).loss((one + two).tolist(), (one + other).tolist())
        for rows in (2, 1)
    ]
    assert keeps(exactly(losses[0]), f"{NAME}, two events", **said, at_least=0.4)
    assert convicts(exactly(losses[1]), f"{NAME}, two events", **said, fault="noise for one event")


def test_published_pruning_is_convicted_at_its_claimed_cost():
    # the tests of one path down to the states of a tree of eight levels, 80 below the threshold; one event more
    noise = RecordingNoise()
    fresh_threshold_tests([0], threshold=80, epsilon=1, noise=noise)
    support, mass = geometric_mass(noise.scales[0], 400)
    passes = [float((mass * tail(noise.scales[0], support + gap)).sum()) for gap in (80, 79)]
    found = exactly(7 * np.log(passes[1] / passes[0]))
    fault = "as published: each node has a noisy threshold of its own"
    assert convicts(found, "pruning of a hierarchy", relation=ADDED, claimed=1, fault=fault)


PAIRS = {
    ADDED: ([[3, 2, 1, 0], [9, 1, 0, 1]], [[3, 2, 1, 0], [9, 0, 0, 1]]),
    REPLACED: ([[3, 2, 1, 0], [9, 1, 0, 1]], [[3, 3, 1, 0], [9, 0, 0, 1]]),
}


SMALL = Decimal("1.5")
"""A large epsilon takes too many samples to exceed."""


def sampled(relation, noise, epsilon):
    """The log ratio of all that is released of two steps, at the scales that are claimed."""
    shape, pair = public(relation, epsilon=epsilon), PAIRS[relation]
    law, start = HierarchyLaw(shape), HierarchyState.start(shape)

    def once(counts):
        _, steps = release_hierarchy(start, counts, shape=shape, noise=noise)
        return law.evidence(steps, *pair)

    return (lambda counts, count: np.array([once(np.array(counts)) for _ in range(count)])), *pair


@pytest.mark.sampled
@BOTH
def test_sampled_releases_keep_epsilon_and_use_it(relation):
    found = audit(*sampled(relation, SeededNoise(142), EPSILON), samples=samples(600))
    assert keeps(found, NAME, relation=relation, claimed=EPSILON, at_least=0.05)


@pytest.mark.verify
def test_sampled_releases_with_a_third_of_the_noise_are_convicted():
    noise = Tampered(source=SeededNoise(141), epsilon_factor=3)
    found = audit(*sampled(ADDED, noise, SMALL), samples=samples(1200))
    assert convicts(found, NAME, relation=ADDED, claimed=SMALL, fault="a third of the noise")


BASELINE = "noisy counts of a hierarchy"


@BOTH
def test_the_baseline_loses_epsilon_and_every_fault_is_convicted(relation):
    one = np.array([[1, 0, 0, 0], [0, 2, 0, 0]])
    other = one - np.eye(4, dtype=int)[[0, 1]] * [[1], [0]]
    if relation is REPLACED:
        other[1, 3] += 1

    def loss(*, told=relation, less=1, times=1, levels=2):
        def mechanism(counts, noise):
            source = Tampered(source=noise, epsilon_factor=less)
            for _ in range(times):
                hierarchy = Hierarchy.line(4, branching=levels)
                laplace_hierarchy(counts, hierarchy=hierarchy, epsilon=EPSILON, neighbours=told, noise=source)

        return exactly(worst_loss(mechanism, one, other))

    said = {"relation": relation, "claimed": EPSILON}
    assert keeps(loss(), BASELINE, **said, at_least=1)
    assert convicts(loss(less=2), BASELINE, **said, fault="half the noise")
    assert convicts(loss(times=2), BASELINE, **said, fault="budget spent twice")
    if relation is REPLACED:
        assert convicts(loss(told=ADDED), BASELINE, **said, fault="noise for an added row")
