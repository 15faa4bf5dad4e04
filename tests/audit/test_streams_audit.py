"""Streams of counts: the exact law of groups, and samples of all that a stream releases."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.application.streams.advance import advance, hierarchy_of, start_state
from spark_jobs.application.streams.advance import mechanism as mechanism_of
from spark_jobs.diagnostics.count_stream import CountStream
from spark_jobs.mechanisms.noise import SeededNoise, laplace_scale
from spark_jobs.mechanisms.sparse_vector import optimal_split
from spark_jobs.mechanisms.streams.level_filter import LocalLevelState
from spark_jobs.mechanisms.streams.local_level import (
    LocalLevelShape,
    filter_hierarchy,
    filter_steps,
    release_filtered_steps,
)
from spark_jobs.papers.streams.grouping import PARTS
from spark_jobs.papers.streams.open_groups import PegasusState
from spark_jobs.papers.streams.pegasus import PegasusShape, draw_noise, release_steps
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, SampledAudit
from tests.support.noises import Recording, worst_loss
from tests.support.replay import replayed_loss
from tests.support.stream_law import GroupScales, group_law, law_loss, neighbours_of
from tests.support.streams import of_hierarchy

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(2)


def public(relation, **changed):
    """Nearly all of epsilon groups steps, at a threshold that short streams reach and miss."""
    options = {"epsilon": EPSILON, "neighbours": relation, "group_share": "0.999", "threshold": 8.0, **changed}
    return PegasusShape(**options)


def scales_of(relation, *, less=1, **changed):
    """The scales that the code draws with, as it asks for them."""
    asked = Recording()
    draw_noise(PegasusState(), np.zeros(2, dtype=np.int64), shape=public(relation, **changed), noise=asked)
    _, levels, tests = asked.asked
    of_levels, of_tests = (each.l1_sensitivity / float(each.epsilon) / less for each in (levels, tests))
    return GroupScales(level=int(levels.values[0]), of_levels=of_levels, of_tests=of_tests)


STREAMS = [[0, 0, 0, 0], [0, 20, 20, 0], [3, 3, 30, 3], [1, 0, 5, 0, 4], [1, 4, 2, 2, 2, 0, 16], [4, 8, 2, 0, 0, 40, 0]]


class TestGroups(ExactAudit):
    """The largest loss of groups over neighbours of a few streams."""

    mechanisms = ("groups of steps",)
    # a deviation cannot move by two both ways, as the proof allows: groups use about a third of their epsilon
    claimed, at_least = EPSILON, 0.2
    faults = {"a sixth of the noise": Fault(planted={"less": 6})}

    def loss(self, mechanism, relation, *, less=1):
        found, scales = 0.0, scales_of(relation, less=less)
        for counts in STREAMS:
            law = group_law(counts, scales)
            assert sum(law.values()) == pytest.approx(1, abs=1e-6)
            for other in neighbours_of(counts, relation is REPLACED):
                found = max(found, law_loss(law, group_law(other, scales)))
        return found


def test_splits_are_those_of_the_sparse_vector_technique():
    first, second = optimal_split(public(ADDED).grouping, cutoff=1, monotone=False)
    scales = scales_of(ADDED)
    assert scales.of_levels == pytest.approx(laplace_scale(first, 2 * PARTS))
    assert scales.of_tests == pytest.approx(laplace_scale(second, 4 * PARTS))


RELEASE = "PeGaSus"


class TestExactLossOfStreams(ExactAudit):
    """The largest loss of noisy counts and groups together, at the published split: they are drawn independently."""

    mechanisms = (RELEASE,)
    claimed, at_least = EPSILON, 0.8

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        shape = public(told or relation, group_share="0.2")
        scales, found = scales_of(told or relation, less=less, group_share="0.2"), 0.0
        for counts in STREAMS:
            law = group_law(counts, scales)
            for other in neighbours_of(counts, relation is REPLACED):
                of_counts = less * np.abs(np.subtract(counts, other)).sum() / shape.scale
                found = max(found, times * (of_counts + law_loss(law, group_law(other, scales))))
        return found


# one row more at a step whose deviation tells, or moved there
PAIRS = {ADDED: ([0, 20, 20, 0], [0, 20, 20, 1]), REPLACED: ([0, 20, 20, 0], [0, 19, 20, 1])}


def sampled(relation, noise):
    """The log ratio of all that is released of a short stream, at the scales that are claimed."""
    pair, shape = PAIRS[relation], public(relation, group_share="0.2")
    laws = [group_law(counts, scales_of(relation, group_share="0.2")) for counts in pair]
    of_groups = {starts: np.log(laws[0][starts] / laws[1][starts]) for starts in laws[0]}

    def many(counts, count):
        # as many streams of one release, which is how a request with many states is released
        exact = np.repeat(np.array(counts)[:, None], count, axis=1)
        _, steps = release_steps(PegasusState.begin(count), exact, shape=shape, noise=noise)
        near = [np.abs(steps.noisy - np.array(one)[:, None]).sum(axis=0) for one in pair]
        return (near[1] - near[0]) / shape.scale + [of_groups[tuple(starts)] for starts in steps.starts.T.tolist()]

    return many, *pair


class TestSampledStreams(SampledAudit):
    mechanisms = (RELEASE,)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.2, 121, 800, 3000
    faults = {"half the noise": Fault(noise={"epsilon_factor": 2})}

    def mechanism(self, mechanism, relation, noise):
        return sampled(relation, noise)


class TestSavedStream(ExactAudit):
    """The loss of the counts of a stream whose last steps are taken after it was saved and restored, once or twice."""

    mechanisms = ("a stream that is saved",)
    method = "pegasus"
    # four fifths of epsilon are for counts; the groups are audited above
    claimed, at_least = EPSILON, 0.79
    faults = {
        "steps taken again from an older state": Fault(planted={"times": 2}),
        "noise for an added row": ExactAudit.faults["noise for an added row"],
    }

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        counts, *changed = np.array([4, 0, 2, 9]), (3, 1), (0, -1)
        other = counts.copy()
        for place, by in changed[: 1 if relation is ADDED else 2]:
            other[place] += by

        def run(table, noise):
            stream = CountStream(epsilon=less * EPSILON, method=self.method, neighbours=told or relation, noise=noise)
            stream.steps(table[:2])
            kept = stream.state()
            for _ in range(times):
                CountStream.restore(kept, noise=noise).steps(table[2:])

        return worst_loss(run, counts, other)


class TestSavedFilteredStream(TestSavedStream):
    """The same of the default method, which spends all of epsilon on counts; half of the noise is detected too."""

    mechanisms = ("a filtered stream that is saved",)
    method = "local_level"
    at_least = 0.99
    faults = TestSavedStream.faults | {"half the noise": ExactAudit.faults["half the noise"]}


def exact_steps(state, counts, *, shape, noise):
    """A fault: the filter is given the exact counts, after noise for them was drawn."""
    release_filtered_steps(state, counts, shape=shape, noise=noise)
    return filter_steps(state, counts, shape=shape)


def exact_state(state, counts, *, shape, noise):
    """A fault: the steps are released with noise, and the filter remembers the exact counts."""
    _, steps = release_filtered_steps(state, counts, shape=shape, noise=noise)
    return filter_steps(state, counts, shape=shape)[0], steps


class TestFilterOfReplayedNoise(ExactAudit):
    """The noisy counts of one stream, played back to its neighbour, make the same steps and the same state of it."""

    mechanisms = ("the filter of a stream",)
    claimed = EPSILON
    faults = {
        "noise left out of the filter": Fault(planted={"release": exact_steps}),
        "noise left out of the state": Fault(planted={"release": exact_state}),
    }

    def loss(self, mechanism, relation, *, release=release_filtered_steps):
        shape = LocalLevelShape(epsilon=EPSILON, neighbours=relation, season=2)

        def run(counts, noise):
            state, released = LocalLevelState(), []
            for part in np.split(counts, [3]):
                state, steps = release(state, part, shape=shape, noise=noise)
                released.append((steps, state))
            return released

        counts = np.array([4, 0, 2, 9, 1])
        others = neighbours_of(counts.tolist(), relation is REPLACED)
        return max(replayed_loss(run, counts, np.array(one), source=SeededNoise(5)).epsilon for one in others)


def hierarchy_request(relation, epsilon=EPSILON):
    """Four states in two groups of one site, by the default method."""
    method = {"kind": "local_level", "season": 2}
    return of_hierarchy(method=method, neighbours=relation.value, budget={"epsilon": str(epsilon)})


OF_STATES = np.array([[4, 0, 2, 9], [1, 3, 0, 0], [0, 7, 5, 2]])


def other_tables(relation):
    """Counts of the states with one event more, or with one event at another step or in another state."""
    return (np.reshape(one, OF_STATES.shape) for one in neighbours_of(OF_STATES.ravel().tolist(), relation is REPLACED))


class TestFilteredHierarchy(ExactAudit):
    """The loss of all that is drawn for a hierarchy by the default method: the noisy counts of its states."""

    mechanisms = ("a filtered hierarchy",)
    claimed, at_least = EPSILON, 0.99

    def loss(self, mechanism, relation, *, less=1, times=1, told=None):
        request = hierarchy_request(told or relation, less * EPSILON)

        def run(table, noise):
            for _ in range(times):
                advance(request, start_state(request), table, noise=noise)

        return max(worst_loss(run, OF_STATES, other) for other in other_tables(relation))


def exact_groups(request, state, counts, *, noise):
    """A fault: the counts of groups are sums of exact counts, after noise for the states was drawn."""
    after, released = advance(request, state, counts, noise=noise)
    sums = hierarchy_of(request).all_sums(counts)
    return after, replace(released, noisy=np.concatenate([sums[:, :3], released.noisy[:, 3:]], axis=1))


def exact_filter(request, state, counts, *, noise):
    """A fault: the noisy counts are released, and the filter is given the exact ones."""
    after, released = advance(request, state, counts, noise=noise)
    shape, hierarchy = mechanism_of(request), hierarchy_of(request)
    return after, replace(
        released, estimates=filter_hierarchy(state.counts, counts, shape=shape, hierarchy=hierarchy)[1].estimates
    )


class TestHierarchyOfReplayedNoise(ExactAudit):
    """The noisy counts of states, played back to a neighbour, make the same release and state of all groups."""

    mechanisms = ("the groups of a filtered hierarchy",)
    claimed = EPSILON
    faults = {
        "noise left out of groups": Fault(planted={"release": exact_groups}),
        "noise left out of the filter": Fault(planted={"release": exact_filter}),
    }

    def loss(self, mechanism, relation, *, release=advance):
        request = hierarchy_request(relation)

        def run(counts, noise):
            state, released = start_state(request), []
            for part in np.split(counts, [2]):
                state, steps = release(request, state, part, noise=noise)
                released.append((steps, state))
            return released

        others = other_tables(relation)
        return max(replayed_loss(run, OF_STATES, one, source=SeededNoise(5)).epsilon for one in others)
