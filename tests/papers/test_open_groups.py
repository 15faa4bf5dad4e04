from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.papers.streams.grouping import PARTS
from spark_jobs.papers.streams.open_groups import (
    WIDE,
    NextSteps,
    PegasusNoise,
    PegasusState,
    across_streams,
    along_steps,
    take_next,
)
from spark_jobs.papers.streams.smoothing import Smoother
from tests.support.group_steps import grouped_by_definition


def drawn_steps(seed, shape, *, largest, weighted=False, **options):
    """Steps of streams that are alike and not, with noise by which some groups stay open and some do not."""
    random = np.random.default_rng(seed)
    exact = np.where(random.random(shape) < 0.7, random.integers(0, 4, shape), random.integers(0, largest + 1, shape))
    noisy = exact + random.integers(-9, 10, shape)
    levels, tests = random.integers(0, 60 * PARTS, shape), random.integers(-5 * PARTS, 5 * PARTS, shape)
    return NextSteps(
        exact=exact,
        drawn=PegasusNoise(noisy=noisy, levels=levels, tests=tests),
        taken=random.random(shape) < 0.7 if weighted else np.ones(shape, dtype=bool),
        weights=random.integers(1, 10, shape) if weighted else None,
        **options,
    )


def part_of(steps, cut):
    """Some of the steps."""
    drawn = PegasusNoise(**{name: values[cut] for name, values in vars(steps.drawn).items()})
    weights = None if steps.weights is None else steps.weights[cut]
    return replace(steps, exact=steps.exact[cut], drawn=drawn, taken=steps.taken[cut], weights=weights)


def taken_in_pieces(take, steps, pieces):
    """The state after all steps, and what was written down of them, in calls of so many steps."""
    state, at, parts = PegasusState.begin(steps.exact.shape[1]), 0, []
    while at < len(steps.exact) or not parts:
        size = pieces[len(parts) % len(pieces)]
        state, grouped = take(state, part_of(steps, slice(at, at + size)))
        assert state.noisy.size == state.counts.size == state.sizes.sum()
        assert state.sizes.max() < steps.max_group
        parts, at = [*parts, grouped], at + size
    return state, [np.concatenate([getattr(one, name) for one in parts]) for name in ("starts", "estimates", "weights")]


@given(
    seed=st.integers(0, 10**6),
    shape=st.tuples(st.integers(0, 25), st.integers(1, 7)),
    pieces=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    largest=st.sampled_from([3, 40, 2**40]),
    smoother=st.sampled_from(list(Smoother)),
    max_group=st.sampled_from([1, 2, 3, 5, 50]),
    weighted=st.booleans(),
)
def test_both_ways_take_steps_as_the_definition_does_in_one_call_or_in_many(
    seed, shape, pieces, largest, smoother, max_group, weighted
):
    options = {"smoother": smoother, "max_group": max_group, "variance": 30.0}
    steps = drawn_steps(seed, shape, largest=largest, weighted=weighted, **options)
    expected = grouped_by_definition(steps)
    states = []
    for take in (across_streams, along_steps):
        for sizes in (pieces, [max(len(steps.exact), 1)], [1]):
            state, released = taken_in_pieces(take, steps, sizes)
            for wanted, given_ in zip(expected, released, strict=True):
                np.testing.assert_array_equal(given_, wanted)
            states.append(state)
    for state in states[1:]:
        for column in fields(state):
            np.testing.assert_array_equal(getattr(state, column.name), getattr(states[0], column.name))


@pytest.mark.parametrize("smoother", list(Smoother))
def test_many_streams_and_few_are_the_same_streams(smoother):
    steps = drawn_steps(5, (12, WIDE + 30), largest=10**6, weighted=True, smoother=smoother, max_group=4, variance=9.0)
    begin = PegasusState.begin(WIDE + 30)
    states, released = zip(take_next(begin, steps), along_steps(begin, steps), strict=True)
    assert states[0].noisy.tolist() == states[1].noisy.tolist()
    assert released[0].estimates.tolist() == released[1].estimates.tolist()


def test_the_largest_counts_in_the_largest_groups_are_exact():
    # half of a group at 0 and half at the largest count: no whole number on the way is too large
    size, largest = 1 << 16, 1 << 40
    deviation = size * largest // 2
    for level, joins in ((PARTS * deviation, False), (PARTS * deviation + 1, True)):
        state = PegasusState(
            step=np.array([size - 1]),
            start=np.array([0]),
            open=np.array([True]),
            level=np.array([level]),
            counts=np.repeat([0, largest], [size // 2, size // 2 - 1]),
            noisy=np.zeros(size - 1, dtype=np.int64),
        )
        steps = NextSteps(
            exact=np.array([[largest]]),
            drawn=PegasusNoise(noisy=np.array([[7]]), levels=np.array([[1]]), tests=np.array([[0]])),
            taken=np.array([[True]]),
            max_group=size,
            smoother=Smoother.MEDIAN,
            variance=1.0,
        )
        for take in (across_streams, along_steps):
            assert (take(state, steps)[1].starts == 0).all() == joins
