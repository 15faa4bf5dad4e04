import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.cells import (
    NoisyCells,
    equal_depth,
    equal_log_odds,
    equal_width,
    fraction_inside,
    inside,
    noisy_cells,
    totals,
)
from spark_jobs.mechanisms.noise import SeededNoise

GRIDS = st.integers(1, 14).map(lambda power: 2**power)


def is_partition(cuts, grid, cells):
    return cuts[0] == 0 and cuts[-1] == grid and cuts.size == cells + 1 and (np.diff(cuts) > 0).all()


@given(grid=GRIDS, data=st.data())
def test_fixed_cells_are_partitions(grid, data):
    cells = data.draw(st.integers(1, min(grid, 300)))
    assert is_partition(equal_width(grid, cells), grid, cells)
    assert is_partition(equal_log_odds(grid, cells), grid, cells)


def test_as_many_cells_as_the_grid_are_the_grid():
    np.testing.assert_array_equal(equal_log_odds(64, 64), np.arange(65))
    np.testing.assert_array_equal(equal_width(64, 64), np.arange(65))


@given(grid=GRIDS, seed=st.integers(0, 2**32 - 1), keep_edges=st.booleans(), data=st.data())
@settings(deadline=None)
def test_placed_cells_are_partitions_whatever_was_released(grid, seed, keep_edges, data):
    old = data.draw(st.integers(1, min(grid, 50)))
    new = data.draw(st.integers(1, min(grid, 50)))
    weights = np.maximum(np.random.default_rng(seed).normal(size=old) * 100, 0) * data.draw(st.integers(0, 1))
    cuts = equal_depth(equal_log_odds(grid, old), weights, grid=grid, cells=new, keep_edges=keep_edges)
    assert is_partition(cuts, grid, new)


@pytest.mark.parametrize("centre", [-9.0, -3.0, 0.0, 6.0])
def test_placed_cells_hold_near_equal_shares_wherever_scores_crowd(centre):
    grid = 65536
    scores = 1 / (1 + np.exp(-np.random.default_rng(3).normal(centre, 0.7, 200_000)))
    counts = np.bincount((scores * grid).astype(np.int64), minlength=grid)
    cuts = equal_log_odds(grid, 24)
    for _ in range(2):
        cuts = equal_depth(cuts, totals(counts, cuts).astype(float), grid=grid, cells=12)
    shares = totals(counts, cuts) / counts.sum()
    widest_single = counts.max() / counts.sum()
    assert shares.max() < 2 / 12 + widest_single
    assert np.median(shares) > 0.5 / 12


def test_kept_edges_keep_apart_what_was_apart():
    weights = np.array([10.0, 0.0, 11.0, 0.0, 9.0, 10.0])
    old = np.array([0, 8, 16, 24, 32, 48, 64])
    new = equal_depth(old, weights, grid=64, cells=4, keep_edges=True)
    assert set(new) <= set(old)


@given(grid=GRIDS, data=st.data())
def test_points_inside_are_distinct_and_strictly_inside(grid, data):
    first = data.draw(st.integers(0, grid - 1))
    last = data.draw(st.integers(first + 1, grid))
    points = data.draw(st.integers(0, min(last - first - 1, 40)))
    found = inside(first, last, points, grid=grid)
    assert found.size == points
    assert (np.diff(np.concatenate([[first], found, [last]])) > 0).all()
    fractions = fraction_inside(found, np.array(first), np.array(last), grid=grid)
    assert ((fractions > 0) & (fractions < 1)).all()
    assert (np.diff(fractions) > 0).all()


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_brute_force_finds_the_sensitivity_of_cells(neighbours):
    grid, cuts = 8, np.array([0, 1, 5, 8])
    base, rows = np.arange(grid) + 3, np.eye(grid, dtype=np.int64)
    pairs = [(base, base + row) for row in rows]
    if neighbours is Neighbours.REPLACE_ONE:
        pairs = [(base - old + old, base - old + new) for old, new in itertools.product(rows, rows)]
    worst = max(np.abs(totals(a, cuts) - totals(b, cuts)).sum() for a, b in pairs)
    noisy = noisy_cells(base, cuts, epsilon="0.25", neighbours=neighbours, noise=SeededNoise(1))
    assert noisy.scale == pytest.approx(worst / 0.25)


def test_totals_and_noise_add_up():
    counts, cuts = np.arange(100), equal_width(100, 7)
    noisy = noisy_cells(counts, cuts, epsilon=1e9, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(1))
    np.testing.assert_array_equal(noisy.counts, totals(counts, cuts))
    assert noisy.total == counts.sum()


def test_json_keeps_cells():
    noisy = noisy_cells(
        np.arange(64), equal_log_odds(64, 9), epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(4)
    )
    again = codec.decode(NoisyCells, json.loads(json.dumps(codec.encode(noisy))))
    np.testing.assert_array_equal(again.cuts, noisy.cuts)
    np.testing.assert_array_equal(again.counts, noisy.counts)
    assert again.scale == noisy.scale


def test_a_small_class_weighs_as_much_as_a_large_one_and_a_drowned_one_little():
    cuts = equal_width(64, 4)
    counts = np.array([[9000, 1000, 0, 0], [0, 0, 50, 450]])
    told = NoisyCells(cuts=cuts, counts=counts, scale=1.0).weights()
    assert told[2:].sum() == pytest.approx(told[:2].sum(), rel=0.05)
    drowned = NoisyCells(cuts=cuts, counts=counts, scale=400.0).weights()
    assert drowned[2:].sum() < 0.1 * drowned[:2].sum()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e19])
def test_cells_without_rows_have_finite_weights(scale):
    weights = NoisyCells(cuts=equal_width(8, 4), counts=np.zeros((2, 4), dtype=np.int64), scale=scale).weights()
    np.testing.assert_array_equal(weights, np.zeros(4))
