"""Streams of counts: the exact law of groups, and samples of all that a stream releases."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.count_stream import CountStream
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise, laplace_scale
from spark_jobs.mechanisms.sparse_vector import optimal_split
from spark_jobs.mechanisms.streams.grouping import PARTS
from spark_jobs.mechanisms.streams.pegasus import PegasusShape, PegasusState, draw_noise, release_steps
from tests.support.audit import Tampered, audit, convicts, exactly, keeps, samples
from tests.support.noises import Recording, worst_loss
from tests.support.stream_law import GroupScales, group_law, law_loss, neighbours_of

pytestmark = [pytest.mark.audit, pytest.mark.slow]

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BOTH = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])
EPSILON = Decimal(2)
GROUPS = "groups of steps"


def public(relation, **changed):
    """Nearly all of epsilon groups steps, at a threshold that short streams reach and miss."""
    options = {"epsilon": EPSILON, "neighbours": relation, "group_share": "0.999", "threshold": 8.0, **changed}
    return PegasusShape(**options)


def scales_of(relation, *, less=1, **changed):
    """The scales that the code draws with, as it asks for them."""
    asked = Recording()
    draw_noise(np.zeros(1, dtype=np.int64), shape=public(relation, **changed), noise=asked)
    _, levels, tests = asked.asked
    of_levels, of_tests = (each.l1_sensitivity / float(each.epsilon) / less for each in (levels, tests))
    return GroupScales(level=int(levels.values[0]), of_levels=of_levels, of_tests=of_tests)


STREAMS = [[0, 0, 0, 0], [0, 20, 20, 0], [3, 3, 30, 3], [1, 0, 5, 0, 4], [1, 4, 2, 2, 2, 0, 16], [4, 8, 2, 0, 0, 40, 0]]


def worst(relation, scales):
    """The largest loss of groups over neighbours of a few streams."""
    found = 0.0
    for counts in STREAMS:
        law = group_law(counts, scales)
        assert sum(law.values()) == pytest.approx(1, abs=1e-6)
        for other in neighbours_of(counts, relation is REPLACED):
            found = max(found, law_loss(law, group_law(other, scales)))
    return exactly(found)


@BOTH
def test_groups_lose_no_more_than_their_epsilon(relation):
    found = worst(relation, scales_of(relation))
    # a deviation cannot move by two both ways, as the proof allows: groups use about a third of their epsilon
    assert keeps(found, GROUPS, relation=relation, claimed=EPSILON, at_least=0.2)
    sixth = worst(relation, scales_of(relation, less=6))
    assert convicts(sixth, GROUPS, relation=relation, claimed=EPSILON, fault="a sixth of the noise")


def test_splits_are_those_of_the_sparse_vector_technique():
    first, second = optimal_split(public(ADDED).grouping, cutoff=1, monotone=False)
    scales = scales_of(ADDED)
    assert scales.of_levels == pytest.approx(laplace_scale(first, 2 * PARTS))
    assert scales.of_tests == pytest.approx(laplace_scale(second, 4 * PARTS))


def release_loss(relation, *, less=1, times=1, told=None):
    """The largest loss of noisy counts and groups together, at the published split: they are drawn independently."""
    shape = public(told or relation, group_share="0.2")
    scales, found = scales_of(told or relation, less=less, group_share="0.2"), 0.0
    for counts in STREAMS:
        law = group_law(counts, scales)
        for other in neighbours_of(counts, relation is REPLACED):
            of_counts = less * np.abs(np.subtract(counts, other)).sum() / shape.scale
            found = max(found, times * (of_counts + law_loss(law, group_law(other, scales))))
    return exactly(found)


RELEASE = "PeGaSus"


@BOTH
def test_a_release_loses_no_more_than_epsilon_and_uses_it(relation):
    assert keeps(release_loss(relation), RELEASE, relation=relation, claimed=EPSILON, at_least=0.8)


@BOTH
@pytest.mark.parametrize(
    ("fault", "planted"),
    [("half the noise", {"less": 2}), ("budget spent twice", {"times": 2})],
    ids=["halved", "twice"],
)
def test_a_faulty_release_is_convicted(relation, fault, planted):
    found = release_loss(relation, **planted)
    assert convicts(found, RELEASE, relation=relation, claimed=EPSILON, fault=fault)


def test_noise_for_an_added_row_is_convicted_where_rows_are_replaced():
    found = release_loss(REPLACED, told=ADDED)
    assert convicts(found, RELEASE, relation=REPLACED, claimed=EPSILON, fault="noise for an added row")


# one row more at a step whose deviation tells, or moved there
PAIRS = {ADDED: ([0, 20, 20, 0], [0, 20, 20, 1]), REPLACED: ([0, 20, 20, 0], [0, 19, 20, 1])}


def sampled(relation, noise):
    """The log ratio of all that is released of a short stream, at the scales that are claimed."""
    pair, shape = PAIRS[relation], public(relation, group_share="0.2")
    laws = [group_law(counts, scales_of(relation, group_share="0.2")) for counts in pair]
    of_groups = {starts: np.log(laws[0][starts] / laws[1][starts]) for starts in laws[0]}

    def once(counts):
        _, steps = release_steps(PegasusState(), counts, shape=shape, noise=noise)
        near = [np.abs(steps.noisy - exact).sum() for exact in pair]
        return (near[1] - near[0]) / shape.scale + of_groups[tuple(steps.starts.tolist())]

    return (lambda counts, count: np.array([once(counts) for _ in range(count)])), *pair


@pytest.mark.sampled
@BOTH
def test_sampled_streams_keep_epsilon_and_use_it(relation):
    found = audit(*sampled(relation, SecureNoise()), samples=samples(800))
    assert keeps(found, RELEASE, relation=relation, claimed=EPSILON, at_least=0.2)


@pytest.mark.verify
@BOTH
def test_sampled_streams_with_half_the_noise_are_convicted(relation):
    noise = Tampered(source=SeededNoise(121), epsilon_factor=2)
    found = audit(*sampled(relation, noise), samples=samples(3000))
    assert convicts(found, RELEASE, relation=relation, claimed=EPSILON, fault="half the noise")


SAVED = "a stream that is saved"


def saved_loss(relation, *, again=False, told=None):
    """The loss of the counts of a stream whose last steps are taken after it was saved and restored, once or twice."""
    counts, *changed = np.array([4, 0, 2, 9]), (3, 1), (0, -1)
    other = counts.copy()
    for place, by in changed[: 1 if relation is ADDED else 2]:
        other[place] += by

    def mechanism(table, noise):
        stream = CountStream(epsilon=EPSILON, neighbours=told or relation, noise=noise)
        stream.steps(table[:2])
        kept = stream.state()
        for _ in range(2 if again else 1):
            CountStream.restore(kept, noise=noise).steps(table[2:])

    return exactly(worst_loss(mechanism, counts, other))


@BOTH
def test_a_saved_stream_loses_no_more_than_epsilon_and_one_continued_twice_is_convicted(relation):
    said = {"relation": relation, "claimed": EPSILON}
    # four fifths of epsilon are for counts; the groups are audited above
    assert keeps(saved_loss(relation), SAVED, **said, at_least=0.79)
    fault = "steps taken again from an older state"
    assert convicts(saved_loss(relation, again=True), SAVED, **said, fault=fault)
    if relation is REPLACED:
        assert convicts(saved_loss(relation, told=ADDED), SAVED, **said, fault="noise for an added row")
