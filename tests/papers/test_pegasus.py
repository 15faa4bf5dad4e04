from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise, laplace_scale
from spark_jobs.papers.streams.grouping import PARTS, GroupState, group_steps
from spark_jobs.papers.streams.open_groups import PegasusState
from spark_jobs.papers.streams.pegasus import (
    PegasusShape,
    draw_noise,
    release_steps,
    take_steps,
)
from tests.support.noises import Recording, Still, worst_loss
from tests.support.stream_law import deviation, neighbours_of

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
COUNTS = st.lists(st.one_of(st.integers(0, 4), st.integers(0, 10**6)), min_size=1, max_size=12)


def shape(**changed):
    return PegasusShape(**{"epsilon": 1, "neighbours": ADDED, **changed})


@given(COUNTS)
def test_a_step_joins_while_the_deviation_of_its_group_stays_below_the_level(counts):
    for size in range(2, len(counts) + 1):
        exact = deviation(counts[:size])
        for level in (exact, exact + 1):
            alone = [-(10**18)] * (size - 1)  # all others join, whatever their deviation
            tests, levels = [*alone, 0], [level] * size
            _, starts = group_steps(GroupState(), counts[:size], levels=levels, tests=tests, max_group=99)
            assert starts[-1] == (0 if exact < level else size - 1)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_a_deviation_moves_by_what_the_proof_says(size):
    random = np.random.default_rng(size)
    tables = [[3, *[0] * (size - 1)], [0] * size, *random.integers(0, 5, (200, size)).tolist()]
    moved = []
    for counts in tables:
        for more in neighbours_of(counts, replaced=False):
            exact = [sum(abs(c - Fraction(sum(t), size)) for c in t) for t in (counts, more)]
            moved.append(abs(exact[0] - exact[1]))
            assert abs(deviation(counts) - deviation(more)) <= 2 * PARTS
    assert max(moved) == 2 * (1 - Fraction(1, size))


def test_a_group_that_is_closed_takes_no_step_and_what_closed_it_is_alone():
    levels, tests = [10 * PARTS] * 7, [0] * 7
    _, starts = group_steps(GroupState(), [5, 5, 5, 90, 5, 5, 5], levels=levels, tests=tests, max_group=99)
    assert starts.tolist() == [0, 0, 0, 3, 4, 4, 4]
    _, starts = group_steps(GroupState(), [5] * 7, levels=levels, tests=tests, max_group=3)
    assert starts.tolist() == [0, 0, 0, 3, 3, 3, 6]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.lists(st.integers(1, 7), min_size=1, max_size=40))
def test_steps_are_the_same_in_one_call_or_in_many(counts, pieces):
    public = shape(epsilon=5, max_group=6)
    exact = np.array(counts)
    drawn = draw_noise(PegasusState(), exact, shape=public, noise=SeededNoise(1))
    _, whole = take_steps(PegasusState(), exact, shape=public, drawn=drawn)
    state, at, starts, estimates = PegasusState(), 0, [], []
    while at < exact.size:
        cut = slice(at, at + pieces[at % len(pieces)])
        part = replace(drawn, noisy=drawn.noisy[cut], levels=drawn.levels[cut], tests=drawn.tests[cut])
        state, steps = take_steps(state, exact[cut], shape=public, drawn=part)
        assert steps.first == at
        assert state.noisy.size == state.counts.size == state.sizes.sum() <= 6
        starts, estimates, at = [*starts, *steps.starts], [*estimates, *steps.estimates], cut.stop
    assert starts == whole.starts.tolist()
    assert estimates == whole.estimates.tolist()


def test_what_is_drawn_costs_the_whole_epsilon_under_both_relations():
    for neighbours, rows in ((ADDED, 1), (REPLACED, 2)):
        public, still = shape(neighbours=neighbours), Still()
        draw_noise(PegasusState(), np.zeros(5, dtype=np.int64), shape=public, noise=still)
        (counts, move), (levels, level_move), (tests, test_move) = still.asked
        assert counts + levels + tests == 1
        assert levels + tests == public.grouping == Fraction(1, 5)
        assert (move, level_move, test_move) == (rows, 2 * PARTS * rows, 4 * PARTS * rows)
        assert [spending.epsilon for spending in public.spendings] == [public.grouping, public.perturbing]
        assert public.scale == laplace_scale(public.perturbing, rows)


def test_every_step_that_is_tested_or_begins_a_group_gets_noise_of_its_own():
    def drawn(state, counts):
        noise = Recording()
        after, _ = release_steps(state, counts, shape=shape(), noise=noise)
        return after, [asked.values.size for asked in noise.asked]

    for counts in ([0] * 9, [0, 100] * 4 + [0]):
        # no group is open before the first step
        assert drawn(PegasusState(), counts)[1] == [9, 9, 8]
    after, first = drawn(PegasusState.begin(3), [[0, 0, 0]])
    assert (first, after.open.all()) == ([3, 3, 0], True)
    two_open = replace(after, open=np.array([True, False, True]), counts=after.counts[:2], noisy=after.noisy[:2])
    assert drawn(two_open, [[0, 0, 0]])[1] == [3, 1, 2]
    assert drawn(two_open, [[0, 0, 0]] * 4)[1] == [12, 10, 11]


@given(st.integers(1, 5), st.integers(0, 2**30))
def test_what_is_not_drawn_is_not_used(streams, seed):
    # any other number in place of what is not drawn gives the same steps
    generator = np.random.default_rng(seed)
    state = PegasusState.begin(streams)
    for _ in range(12):
        exact = generator.poisson(3, (int(generator.integers(1, 3)), streams))
        drawn = draw_noise(state, exact, shape=shape(epsilon=5, max_group=4), noise=SeededNoise(seed))
        junk = replace(drawn, levels=drawn.levels.copy(), tests=drawn.tests.copy())
        for values, unused in ((junk.levels, state.open), (junk.tests, ~state.open)):
            assert not values[0, unused].any()
            values[0, unused] = generator.integers(-(2**40), 2**40, unused.sum())
        after, steps = take_steps(state, exact, shape=shape(epsilon=5, max_group=4), drawn=drawn)
        same, again = take_steps(state, exact, shape=shape(epsilon=5, max_group=4), drawn=junk)
        for one, other in ((after, same), (steps, again)):
            for name, values in vars(one).items():
                assert np.array_equal(values, vars(other)[name]), name
        state = after


def test_being_in_one_state_or_another_is_two_steps_of_an_added_row_and_one_of_a_replaced_one():
    # one person, in state 1 or in state 2 at a time: the noisy counts of both states' streams
    def streams(neighbours):
        def mechanism(states, noise):
            for counts in states:
                draw_noise(PegasusState(), np.asarray(counts), shape=shape(neighbours=neighbours), noise=noise)

        return mechanism

    here, there = np.array([[1], [0]]), np.array([[0], [1]])
    perturbing = shape().perturbing
    assert worst_loss(streams(ADDED), here, there) == 2 * perturbing
    assert worst_loss(streams(REPLACED), here, there) == perturbing


def test_groups_of_a_steady_stream_lower_its_error():
    counts = np.repeat([40, 3, 90], 2000)
    _, steps = release_steps(PegasusState(), counts, shape=shape(epsilon="0.2", threshold=60), noise=SeededNoise(3))
    raw, smooth = (np.abs(values - counts).mean() for values in (steps.noisy, steps.estimates))
    assert smooth < raw / 2
    assert np.diff(np.flatnonzero(np.diff(steps.starts))).max() > 20


def test_secure_noise_and_bad_counts_do_not_raise():
    public = shape()
    state, steps = release_steps(PegasusState(), np.array([-5, 2**60, 0]), shape=public, noise=SecureNoise())
    assert np.isfinite(steps.estimates).all()
    assert (steps.estimates >= 0).all()
    _, nothing = release_steps(state, np.zeros(0, dtype=int), shape=public, noise=SecureNoise())
    assert (nothing.first, nothing.estimates.size) == (3, 0)
    for bad in ([0.5], [[1, 2]], 3, np.zeros((1, 1, 1), dtype=int)):
        with pytest.raises(ValueError, match="counts"):
            release_steps(state, bad, shape=public, noise=SecureNoise())


@pytest.mark.parametrize(
    "changed",
    [{"epsilon": 0}, {"epsilon": "1e-7"}, {"group_share": 0}, {"group_share": 1}, {"max_group": 0},
     {"max_group": 10**6}, {"threshold": -1}, {"threshold": math.inf}],
    ids=str,
)  # fmt: skip
def test_bad_shapes_are_refused(changed):
    with pytest.raises(InvalidRequest, match=next(iter(changed))):
        shape(**changed)


@pytest.mark.parametrize("part", ["0.0000009", "0.9999991"])
def test_shares_that_leave_a_part_next_to_nothing_are_refused(part):
    with pytest.raises(InvalidRequest, match="epsilon: .* large enough that groups and counts get 0.000001 of it"):
        shape(epsilon=1, group_share=part)


def test_what_is_kept_between_steps_shows_no_count():
    exact = np.array([4711, 4711], dtype=np.int64)
    # all join: what is kept is an open group
    drawn = replace(draw_noise(PegasusState(), exact, shape=shape(), noise=SeededNoise(1)), levels=np.full(2, 10**9))
    after, _ = take_steps(PegasusState(), exact, shape=shape(), drawn=drawn)
    assert after.counts.tolist() == [4711, 4711]
    assert "4711" not in repr(after)
    assert "array" not in repr(drawn)
