from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise, laplace_scale, laplace_variance
from spark_jobs.papers.streams.hierarchy import (
    HierarchyNoise,
    HierarchyShape,
    HierarchyState,
    aggregate,
    draw_hierarchy,
    laplace_hierarchy,
    release_hierarchy,
    take_hierarchy,
)
from spark_jobs.papers.streams.open_groups import PegasusNoise, PegasusState
from spark_jobs.papers.streams.pegasus import PegasusShape, take_steps
from spark_jobs.papers.streams.smoothing import Smoother
from tests.support.noises import Recording, worst_loss

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BOTH = pytest.mark.parametrize("neighbours", list(Neighbours), ids=["added", "replaced"])
ROOMS = Hierarchy(order=np.arange(6), children=(np.array([1, 3, 2]), np.array([3])))


def shape(states=8, **changed):
    options = {"hierarchy": Hierarchy.line(states, branching=2), "epsilon": 1, "neighbours": ADDED}
    return HierarchyShape(**{**options, **changed})


def counts_of(steps, states, seed=1, mean=20):
    return np.random.default_rng(seed).poisson(mean, (steps, states))


def test_a_node_holds_the_states_below_it():
    rows = np.array([[1, 2, 3, 4, 5, 6], [0, 0, 9, 0, 0, 1]])
    assert aggregate(rows, ROOMS).tolist() == [[21, 1, 9, 11, 1, 2, 3, 4, 5, 6], [10, 0, 9, 1, 0, 0, 9, 0, 0, 1]]
    # so many rows lie in no step: sums are clipped like the counts of states
    assert aggregate(np.array([[2**40, 3]]), Hierarchy.line(2, branching=2)).tolist() == [[2**40, 2**40, 3]]
    assert aggregate(np.array([[-5, 2**60]]), Hierarchy.line(2, branching=2)).tolist() == [[2**40, 0, 2**40]]


@pytest.mark.parametrize("states", [1, 2, 5, 128])
@pytest.mark.parametrize("max_rows", [1, 3])
@pytest.mark.parametrize("prune_share", [0, "0.3"])
def test_the_budget_of_every_path_is_what_was_granted_and_no_more(states, max_rows, prune_share):
    public = shape(states, epsilon="0.7", max_rows=max_rows, prune_share=prune_share)
    height = len(public.sizes)
    of_all = sum(Fraction(each.epsilon) for each in public.spendings)
    assert of_all == Fraction(7, 10)
    granted = (of_all - Fraction(public.pruning) * max_rows) / max_rows
    for left in range(1, height + 1):
        # the nodes above the last one of a path, and that one with the budget of all levels from it on
        path = (height - left) * [1] + [left]
        spent = sum(Fraction(public.perturbing(levels)) + Fraction(public.grouping) for levels in path)
        assert spent <= granted
        assert spent == pytest.approx(granted, rel=1e-12)
    assert Fraction(public.pruning) <= Fraction(7, 10) * Fraction(str(prune_share)) / max_rows


def paths_of(levels, sizes, children):
    """The levels whose budget each node on the way to each state has, for one step."""
    per_level = np.split(levels, np.cumsum(sizes)[:-1])
    ways = [[each] for each in per_level[0]]
    for depth, below in enumerate(per_level[1:]):
        parents = np.repeat(np.arange(len(ways)), children[len(sizes) - 2 - depth])
        ways = [[*ways[parent], own] for parent, own in zip(parents, below, strict=True)]
    return ways


@pytest.mark.parametrize("hierarchy", [ROOMS, Hierarchy.line(11, branching=3)], ids=["rooms", "line"])
def test_what_is_measured_shares_out_all_levels_on_every_path(hierarchy):
    public = shape(hierarchy=hierarchy, epsilon=20, refine_from=20)
    exact = aggregate(counts_of(300, hierarchy.order.size, mean=1), hierarchy)
    levels = draw_hierarchy(HierarchyState.start(public), exact, shape=public, noise=SeededNoise(2)).levels
    seen = set()
    for step in levels:
        for way in paths_of(step, public.sizes, hierarchy.children):
            assert sum(way) == len(public.sizes)
            ended = next(at for at, own in enumerate(way) if own != 1 or at == len(way) - 1)
            assert not any(way[ended + 1 :])
            seen.add(ended)
    assert seen == set(range(len(public.sizes)))


@BOTH
def test_what_is_drawn_is_what_was_paid_for(neighbours):
    public = shape(neighbours=neighbours, epsilon=20, refine_from=10)
    exact = aggregate(counts_of(40, 8, mean=1), public.hierarchy)
    noise = Recording()
    drawn = draw_hierarchy(HierarchyState.start(public), exact, shape=public, noise=noise)
    rows = 1 if neighbours is ADDED else 2
    pruned, rest = noise.asked[:3], noise.asked[3:]
    assert [asked.values.shape for asked in pruned] == [(40, 1), (40, 2), (40, 4)]  # whatever the answers are
    of_counts, of_groups = rest[:-2], rest[-2:]
    used = [levels for levels in range(1, 5) if (drawn.levels == levels).any()]
    assert len(used) == 4
    for asked, levels in zip(of_counts, used, strict=True):
        assert asked.values.tolist() == exact[drawn.levels == levels].tolist()
        assert (asked.epsilon, asked.l1_sensitivity) == (Fraction(public.perturbing(levels)), rows)
    assert sum(asked.epsilon for asked in of_groups) == Fraction(public.grouping)
    kept = drawn.levels > 0
    # no group is open before the first step, so that none of its nodes is tested
    assert [asked.values.size for asked in of_groups] == [kept.sum(), kept[1:].sum()]


def moved(neighbours, rows):
    """Where a person's events are and where they are not, or are instead: in the same step or in another."""
    steps, states = 3, 4
    for places in itertools.combinations(range(steps * states), rows):
        one = np.zeros(steps * states, dtype=int)
        one[list(places)] = 1
        others = [np.zeros_like(one)] if neighbours is ADDED else [np.roll(one, shift) for shift in range(1, 12)]
        for other in others:
            yield one.reshape(steps, states), other.reshape(steps, states)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("rows", [1, 2])
def test_counts_of_all_aggregates_cost_their_part_and_no_more(neighbours, rows):
    public = shape(4, neighbours=neighbours, prune_share=0, max_rows=rows, epsilon=3)
    background = counts_of(3, 4)

    def mechanism(counts, noise):
        draw_hierarchy(HierarchyState.start(public), aggregate(counts, public.hierarchy), shape=public, noise=noise)

    losses = [worst_loss(mechanism, background + one, background + other) for one, other in moved(neighbours, rows)]
    part = Fraction(public.spendings[-1].epsilon)
    assert max(losses) <= part
    assert max(losses) == pytest.approx(part, rel=1e-12)
    if rows == 2:  # a budget for one event is not one for two
        single = replace(public, max_rows=1)

        def unbounded(counts, noise):
            draw_hierarchy(HierarchyState.start(single), aggregate(counts, single.hierarchy), shape=single, noise=noise)

        pairs = moved(neighbours, rows)
        assert max(worst_loss(unbounded, background + one, background + other) for one, other in pairs) > part


@BOTH
@pytest.mark.parametrize("rows", [1, 2])
def test_the_baseline_costs_epsilon_and_no_more(neighbours, rows):
    hierarchy = Hierarchy.line(4, branching=2)

    def mechanism(counts, noise):
        laplace_hierarchy(counts, hierarchy=hierarchy, epsilon=2, neighbours=neighbours, noise=noise, max_rows=rows)

    background = counts_of(3, 4)
    pairs = moved(neighbours, rows)
    assert max(worst_loss(mechanism, background + one, background + other) for one, other in pairs) == 2


def test_without_pruning_every_node_is_a_stream_of_its_own():
    public = shape(prune_share=0, group_share="0.25", epsilon=8, consistent=False)
    exact = aggregate(counts_of(60, 8, mean=4), public.hierarchy)
    drawn = draw_hierarchy(HierarchyState.start(public), exact, shape=public, noise=SeededNoise(4))
    _, steps = take_hierarchy(HierarchyState.start(public), exact, shape=public, drawn=drawn)
    alone = PegasusShape(epsilon=2, neighbours=ADDED, group_share="0.25")  # four levels
    assert (alone.grouping, alone.perturbing) == (public.grouping, public.perturbing(1))
    for node in range(exact.shape[1]):
        of_all = drawn.counts
        own = PegasusNoise(noisy=of_all.noisy[:, node], levels=of_all.levels[:, node], tests=of_all.tests[:, node])
        _, expected = take_steps(PegasusState(), exact[:, node], shape=alone, drawn=own)
        assert steps.estimates[:, node].tolist() == expected.estimates.tolist()
        assert steps.starts[:, node].tolist() == expected.starts.tolist()


def by_hand(levels, noisy):
    """Noise for one root and two states, by which every step joins the group of its node."""
    levels, noisy = np.array(levels), np.array(noisy)
    far = np.full(noisy.shape, 10**9)
    return HierarchyNoise(levels=levels, counts=PegasusNoise(noisy=noisy, levels=far, tests=np.zeros_like(noisy)))


def test_pruned_steps_are_0_and_take_no_part_in_groups():
    public = shape(2, consistent=False, smoother=Smoother.MEAN)
    exact = aggregate(np.array([[5, 5]] * 4), public.hierarchy)
    drawn = by_hand([[1, 1, 1], [2, 0, 0], [2, 0, 0], [1, 1, 1]], [[10, 4, 6], [13, 0, 0], [9, 0, 0], [10, 8, 6]])
    after, steps = take_hierarchy(HierarchyState.start(public), exact, shape=public, drawn=drawn)
    assert steps.estimates[:, 1].tolist() == [4, 0, 0, 6]
    assert steps.starts[:, 1].tolist() == [0, -1, -1, 0]
    assert after.nodes.sizes.tolist() == [4, 2, 2]
    assert after.nodes.noisy[4:6].tolist() == [4, 8]
    # with the budget of two levels a count weighs as its variance says
    light, heavy = public.weights[[1, 2]]
    assert heavy / light == pytest.approx(public.variances[1] / public.variances[2], rel=1e-3)
    assert heavy > 4 * light
    assert steps.estimates[1, 0] == pytest.approx((10 * light + 13 * heavy) / (light + heavy))
    assert steps.estimates[3, 0] == pytest.approx((20 * light + 22 * heavy) / (2 * light + 2 * heavy))


@pytest.mark.parametrize("prune_share", [0, "0.2"])
@pytest.mark.parametrize("smoother", list(Smoother))
def test_steps_are_the_same_in_one_call_or_in_many(prune_share, smoother):
    public = shape(prune_share=prune_share, epsilon=20, smoother=smoother, max_group=5)
    exact = aggregate(counts_of(31, 8, mean=2), public.hierarchy)
    drawn = draw_hierarchy(HierarchyState.start(public), exact, shape=public, noise=SeededNoise(5))
    _, whole = take_hierarchy(HierarchyState.start(public), exact, shape=public, drawn=drawn)
    state, at, starts, estimates = HierarchyState.start(public), 0, [], []
    for size in (1, 0, 7, 1, 12, 10):
        cut = slice(at, at + size)
        own = drawn.counts
        part = HierarchyNoise(
            levels=drawn.levels[cut],
            counts=PegasusNoise(noisy=own.noisy[cut], levels=own.levels[cut], tests=own.tests[cut]),
        )
        state, steps = take_hierarchy(state, exact[cut], shape=public, drawn=part)
        assert steps.first == at
        assert state.nodes.sizes.max() <= 5
        assert state.nodes.noisy.size == state.nodes.weights.size == state.nodes.sizes.sum()
        starts, estimates, at = [*starts, *steps.starts.tolist()], [*estimates, *steps.estimates], cut.stop
    assert state.step == 31
    assert starts == whole.starts.tolist()
    assert np.array_equal(estimates, whole.estimates)


def test_estimates_add_up_wherever_the_parts_are_measured():
    public = shape(epsilon=20, refine_from=3)
    rows = counts_of(20_000, 8, mean=1)  # more than are made to add up at once
    _, steps = release_hierarchy(HierarchyState.start(public), rows, shape=public, noise=SeededNoise(6))
    assert (steps.estimates >= 0).all()
    assert not steps.estimates[steps.levels == 0].any()
    estimates, levels = (np.split(each, public.cuts, axis=1) for each in (steps.estimates, steps.levels))
    for depth in range(3):
        sums = public.hierarchy.sums(2 - depth, estimates[depth + 1])
        parted = levels[depth] == 1
        assert parted.any()
        assert np.array_equal(sums[parted], estimates[depth][parted])


def test_pruning_and_adding_up_lower_the_error_of_a_sparse_hierarchy():
    rows = np.zeros((400, 32), dtype=int)
    rows[:, 5] = counts_of(400, 1, mean=400)[:, 0]
    public = shape(32, epsilon="0.5")
    exact = aggregate(rows, public.hierarchy)

    def error(**changed):
        made = replace(public, **changed)
        _, steps = release_hierarchy(HierarchyState.start(made), rows, shape=made, noise=SeededNoise(7))
        return np.abs(steps.estimates - exact).mean()

    plain = laplace_hierarchy(rows, hierarchy=public.hierarchy, epsilon="0.5", neighbours=ADDED, noise=SeededNoise(7))
    every = error(prune_share=0, consistent=False)
    assert error(prune_share=0) < every / 1.5
    assert error() < every / 1.5
    assert every < np.abs(plain - exact).mean()


@BOTH
def test_secure_noise_and_bad_counts_do_not_raise(neighbours):
    public = shape(4, neighbours=neighbours, max_rows=2)
    start = HierarchyState.start(public)
    rows = np.array([[0, 0, 0, 0], [-5, 2**62, 0, 1], [1, 1, 1, 1]])
    after, steps = release_hierarchy(start, rows, shape=public, noise=SecureNoise())
    assert np.isfinite(steps.estimates).all()
    assert (steps.estimates >= 0).all()
    _, nothing = release_hierarchy(after, np.zeros((0, 4), dtype=int), shape=public, noise=SecureNoise())
    assert (nothing.first, nothing.estimates.shape) == (3, (0, 7))
    for bad in ([1, 2, 3, 4], [[1, 2, 3]], [[0.5, 0, 0, 0]]):
        with pytest.raises(ValueError, match="counts"):
            release_hierarchy(start, bad, shape=public, noise=SecureNoise())


def test_so_large_an_epsilon_has_no_noise_left():
    public = shape(4, epsilon=10**6, refine_from=0)
    rows = counts_of(50, 4)
    _, steps = release_hierarchy(HierarchyState.start(public), rows, shape=public, noise=SecureNoise())
    assert steps.estimates == pytest.approx(aggregate(rows, public.hierarchy))


@pytest.mark.parametrize(
    "changed",
    [{"epsilon": 0}, {"epsilon": "1e-5"}, {"prune_share": 1}, {"prune_share": -1}, {"group_share": "0.8"},
     {"group_share": 0}, {"max_rows": 0}, {"max_rows": 1.5}, {"max_rows": True}, {"refine_from": -1},
     {"refine_from": math.nan}, {"threshold": "5"}, {"max_group": 0},
     {"hierarchy": Hierarchy(order=np.arange(3), children=(np.array([2]),))},
     {"hierarchy": Hierarchy(order=np.arange(3), children=(np.array([2, 1]),))},
     {"hierarchy": Hierarchy(order=np.array([1, 0]), children=(np.array([2]),))}],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_bad_shapes_are_refused(changed):
    with pytest.raises(InvalidRequest, match=next(iter(changed))):
        shape(**changed)


@pytest.mark.parametrize("changed", [{"prune_share": "1e-9"}, {"group_share": "0.799999999"}], ids=str)
def test_no_part_is_so_small_that_its_thresholds_are_beyond_any_count(changed):
    with pytest.raises(InvalidRequest, match="epsilon"):
        shape(**changed)


def test_what_is_kept_between_steps_shows_no_count():
    public = shape(2)
    drawn = by_hand([[1, 1, 1]], [[1, 2, 3]])
    exact = aggregate(np.array([[4711, 4711]]), public.hierarchy)
    after, _ = take_hierarchy(HierarchyState.start(public), exact, shape=public, drawn=drawn)
    assert after.nodes.counts.tolist() == [9422, 4711, 4711]
    assert not any("4711" in repr(kept) for kept in (after, after.nodes))
    assert "array" not in repr(drawn)


@BOTH
def test_a_level_of_the_budget_is_noise_of_its_scale(neighbours):
    public = shape(neighbours=neighbours, epsilon=4, prune_share=0)
    rows = np.zeros((4000, 8), dtype=int)
    drawn = draw_hierarchy(
        HierarchyState.start(public), aggregate(rows, public.hierarchy), shape=public, noise=SeededNoise(9)
    )
    scale = laplace_scale(public.perturbing(1), 1 if neighbours is ADDED else 2)
    assert public.variances[1] == laplace_variance(scale)
    # within five standard errors: a square of this noise has a relative standard deviation below 2.5
    assert np.square(drawn.counts.noisy).mean() == pytest.approx(public.variances[1], rel=5 * 2.5 / math.sqrt(60_000))
