"""Streams of a hierarchy: the exact law of pruning, groups and counts together, and samples of whole releases."""

from decimal import Decimal
from functools import cache

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.streams.hierarchy import (
    HierarchyShape,
    HierarchyState,
    laplace_hierarchy,
    release_hierarchy,
)
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
from tests.support.audit import Tampered, convicts, exactly, keeps
from tests.support.flawed.pruning import fresh_threshold_tests
from tests.support.hierarchy_law import HierarchyLaw
from tests.support.noises import worst_loss
from tests.support.sparse_vector_loss import RecordingNoise, geometric_mass, tail
from tests.support.stream_law import neighbours_of

pytestmark = [pytest.mark.audit, pytest.mark.slow]

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


class TestExactLossOfReleases(ExactAudit):
    mechanisms = (NAME,)
    # groups use a third of their part, pruning not all of its
    claimed, at_least = EPSILON, 0.6
    faults = {
        **ExactAudit.faults,
        "the budget of pruned levels, where they are not pruned": Fault(planted={"generous": True}),
    }

    def loss(self, mechanism, relation, *, times=1, **planted):
        return times * worst(relation, **planted)


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


class TestSampledReleases(SampledAudit):
    mechanisms = (NAME,)
    claimed, at_least, seed, quick = EPSILON, 0.05, 142, 600
    faults = {}

    def mechanism(self, mechanism, relation, noise):
        return sampled(relation, SeededNoise(self.seed), EPSILON)


class TestSampledReleasesWithLittleNoise(SampledAudit):
    """At an epsilon of which samples see an excess."""

    mechanisms = (NAME,)
    relations = (ADDED,)
    claimed, seed, thorough = SMALL, 141, 1200
    test_the_claim_is_kept_and_used = None
    faults = {"a third of the noise": Fault(noise={"epsilon_factor": 3})}

    def mechanism(self, mechanism, relation, noise):
        return sampled(relation, noise, SMALL)


class TestBaseline(ExactAudit):
    mechanisms = ("noisy counts of a hierarchy",)
    claimed, at_least = EPSILON, 1

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        one = np.array([[1, 0, 0, 0], [0, 2, 0, 0]])
        other = one - np.eye(4, dtype=int)[[0, 1]] * [[1], [0]]
        if relation is REPLACED:
            other[1, 3] += 1
        hierarchy = Hierarchy.line(4, branching=2)

        def run(counts, noise):
            source = Tampered(source=noise, epsilon_factor=less)
            for _ in range(times):
                laplace_hierarchy(
                    counts, hierarchy=hierarchy, epsilon=EPSILON, neighbours=told or relation, noise=source
                )

        return worst_loss(run, one, other)
