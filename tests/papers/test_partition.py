import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.histograms.partition import (
    STEPS,
    candidates,
    change_in_steps,
    cheapest,
    private_partition,
)

LINES = st.lists(st.integers(-3, 50), min_size=1, max_size=13).map(np.array)


def exact_deviation(bucket):
    mean = Fraction(int(bucket.sum()), bucket.size)
    return sum(abs(int(value) - mean) for value in bucket)


@given(LINES, st.sampled_from([1, 4, STEPS]))
def test_costs_are_deviations_in_whole_steps(counts, steps):
    for level in candidates(counts, steps=steps):
        buckets = [counts[start : start + level.length] for start in range(0, counts.size, level.length)]
        assert level.costs.tolist() == [math.floor(steps * exact_deviation(bucket)) for bucket in buckets]
        assert level.last == buckets[-1].size


@pytest.mark.parametrize("length", [64, 128, 70_000])
def test_costs_of_long_buckets_are_exact(length):
    counts = np.random.default_rng(length).integers(0, 2**24, 70_000)
    level = next(level for level in candidates(counts) if level.length >= length)
    bucket = counts[: level.length]
    assert level.costs[0] == math.floor(STEPS * exact_deviation(bucket))


@given(LINES.filter(lambda line: line.size > 1), st.data())
def test_one_row_moves_no_cost_further_than_is_paid_for(counts, data):
    cell = data.draw(st.integers(0, counts.size - 1))
    more = counts.copy()
    more[cell] += 1
    for one, other in zip(candidates(counts), candidates(more), strict=True):
        moved = np.abs(one.costs - other.costs)
        assert np.count_nonzero(moved) <= 1
        sizes = np.full(moved.size, one.length)
        sizes[-1] = one.last
        assert (moved <= [change_in_steps(int(size), STEPS) for size in sizes]).all()


@pytest.mark.parametrize("length", [2, 3, 8])
def test_a_row_can_move_a_cost_by_all_of_its_sensitivity(length):
    counts = np.zeros(length, dtype=int)
    more = counts.copy()
    more[0] = 1
    moved = exact_deviation(more) - exact_deviation(counts)
    assert moved == 2 * (1 - Fraction(1, length))
    assert change_in_steps(length, STEPS) == math.ceil(moved * STEPS)


def test_counts_beyond_all_bounds_do_not_wrap():
    counts = np.array([2**62, 0, 0, -(2**62), 2**62, 1])
    assert all((level.costs >= 0).all() for level in candidates(counts))


def all_partitions(levels, level, place, cells):
    """Every partition into aligned dyadic buckets: its first cells, and its cost."""
    yield ((place << level),), int(levels[level][place])
    if level:
        left = list(all_partitions(levels, level - 1, 2 * place, cells))
        if 2 * place + 1 == len(levels[level - 1]):
            yield from left
            return
        for one, two in itertools.product(left, list(all_partitions(levels, level - 1, 2 * place + 1, cells))):
            yield one[0] + two[0], one[1] + two[1]


@given(st.integers(1, 9), st.integers(0, 5), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_no_partition_is_cheaper(cells, penalty, seed):
    random = np.random.default_rng(seed)
    sizes = [cells]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    levels = [random.integers(-20, 20, size) for size in sizes]
    found = tuple(cheapest(levels, penalty=penalty, cells=cells).tolist())
    # a bucket that the end of the line leaves with one half is that half again: only its halves count
    for level in range(1, len(levels)):
        if len(levels[level - 1]) % 2:
            levels[level] = levels[level].copy()
            levels[level][-1] = 10**6
    costs = {}
    for starts, cost in all_partitions([level + penalty for level in levels], len(levels) - 1, 0, cells):
        costs[starts] = min(cost, costs.get(starts, cost))
    assert costs[found] == min(costs.values())


class Silent(SeededNoise):
    """No noise at all."""

    def __init__(self):
        super().__init__(0)

    def laplace(self, values, *, epsilon, l1_sensitivity):
        return np.asarray(values)


def starts_of(counts, **options):
    fixed = {"epsilon": 1, "penalty": 0.5, "neighbours": Neighbours.ADD_REMOVE, "noise": Silent()}
    return private_partition(np.asarray(counts), **{**fixed, **options}).tolist()


def test_without_noise_equal_counts_share_a_bucket():
    assert starts_of([5] * 8 + [9] * 4 + [1, 2, 3, 4, 0]) == [0, 8, 12, 13, 14, 15, 16]


def test_a_dear_bucket_is_one_bucket():
    assert starts_of([1, 9, 4, 7, 7], penalty=100.0) == [0]


@pytest.mark.parametrize("cells", [1, 2, 3, 5, 8, 1000])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_buckets_cover_the_line(cells, neighbours):
    starts = starts_of(np.arange(cells), neighbours=neighbours, noise=SeededNoise(3))
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    assert starts[-1] < cells


def test_a_uniform_line_is_hardly_cut():
    starts = starts_of(np.full(4096, 7), penalty=5.0, noise=SeededNoise(4))
    assert len(starts) < 4096 / 8


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_costs_whose_sums_might_leave_int64_are_refused_before_noise(neighbours):
    asked = {"penalty": 1.0, "neighbours": neighbours, "noise": SeededNoise(1)}
    with pytest.raises(InvalidRequest, match="epsilon"):
        private_partition(np.zeros(1024, dtype=np.int64), epsilon="1e-12", **asked)
    starts = private_partition(np.zeros(1024, dtype=np.int64), epsilon="1e-6", **asked)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
