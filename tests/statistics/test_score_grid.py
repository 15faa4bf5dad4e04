"""The grids of scores that are finer towards both ends, and thresholds on them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.grids import EARLIEST_ROUNDING, LINEAR_SCORE_CELLS, PAIR_CELLS, SCORE_CELLS
from spark_jobs.score_grid import (
    PAIRED,
    REFINED,
    cells_of,
    edges_of,
    furthest_from,
    linear_cuts,
    middles_of,
    pair_cuts,
    threshold_cells,
)

EVERY_GRID = pytest.mark.parametrize("grid", [SCORE_CELLS, PAIR_CELLS, LINEAR_SCORE_CELLS, 8])
RANDOM = np.random.default_rng(4)


def everywhere(grid):
    edges = edges_of(grid)
    tiny = 10.0 ** RANDOM.uniform(-13, 0, 50_000)
    return np.concatenate(
        [edges, np.nextafter(edges, 2), np.nextafter(edges, -1), RANDOM.random(50_000), tiny, 1 - tiny]
    )


def test_numbers_of_cells_are_those_of_the_contract():
    assert (REFINED.cells, PAIRED.cells) == (SCORE_CELLS, PAIR_CELLS) == (76_290, 3_714)
    assert cells_of(np.array([0.0, 1.0]), SCORE_CELLS).tolist() == [0, 76_289]
    assert cells_of(np.array([0.0, 0.25, 0.5, 1.0]), PAIR_CELLS).tolist() == [0, 1793, 1857, 3713]


@EVERY_GRID
def test_cells_are_those_of_a_search_among_edges(grid):
    scores, edges = everywhere(grid), edges_of(grid)
    assert (np.diff(edges) > 0).all()
    assert edges.size == grid + 1
    expected = np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, grid - 1)
    np.testing.assert_array_equal(cells_of(scores, grid), expected)
    np.testing.assert_array_equal(cells_of(middles_of(grid), grid), np.arange(grid))


def test_no_cell_is_wider_than_an_equal_one_and_tails_have_a_relative_width():
    edges = edges_of(SCORE_CELLS)
    assert np.isin(edges_of(LINEAR_SCORE_CELLS), edges).all()
    np.testing.assert_array_equal(edges[linear_cuts()], edges_of(LINEAR_SCORE_CELLS)[:-1])
    below = (edges[:-1] >= 2.0**-30) & (edges[1:] <= 0.5)
    assert (np.diff(edges)[below] <= edges[:-1][below] / 256 * (1 + 1e-12)).all()
    mirrored = 1 - edges[::-1]
    np.testing.assert_array_equal(mirrored, edges)


@pytest.mark.parametrize("grid", [SCORE_CELLS, LINEAR_SCORE_CELLS, 8])
def test_a_mean_is_no_further_from_that_of_middles_than_stated_and_may_be_as_far(grid):
    middles, edges = middles_of(grid), edges_of(grid)
    shares = []
    for size in 10.0 ** RANDOM.uniform(-9, 0, 300):
        low, high = np.searchsorted(edges, np.sort(RANDOM.uniform(0, size, 2)), side="right") - 1
        cells = RANDOM.integers(low, high + 1, RANDOM.integers(1, 6))
        cells = RANDOM.choice([cells, grid - 1 - cells])
        # the furthest scores of these cells: all at the starts, in which case the mean moves by half of the widths
        moved = middles[cells].mean() - edges[cells].mean()
        shares.append(moved / float(furthest_from(middles[cells].mean(), grid)))
    assert max(shares) <= 1 + 1e-9
    assert max(shares) > 0.95


@pytest.mark.parametrize("grid", [SCORE_CELLS, LINEAR_SCORE_CELLS])
def test_cells_of_pairs_are_made_of_whole_cells(grid):
    cuts = pair_cuts(grid)
    assert (cuts[0], cuts[-1]) == (0, grid)
    assert all(low < high for low, high in pairwise(cuts))
    assert cuts.size == (PAIR_CELLS if grid == SCORE_CELLS else 1408) + 1
    if grid == SCORE_CELLS:
        np.testing.assert_array_equal(edges_of(grid)[cuts], edges_of(PAIR_CELLS))


@EVERY_GRID
@given(threshold=st.floats(0, 1) | st.integers(0, 1000).map(lambda part: part / 1000))
def test_every_row_at_a_threshold_counts(grid, threshold):
    (cell,) = threshold_cells([threshold], grid)
    beside = np.array([threshold, np.nextafter(threshold, 2), np.nextafter(threshold, -1)])
    assert (cells_of(beside[:2], grid) >= cell).all()
    in_force = edges_of(grid)[cell]
    assert in_force <= threshold
    assert (cells_of(beside, grid) >= cell).tolist() == (np.clip(beside, 0, 1) >= in_force).tolist()


@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
@pytest.mark.parametrize("grid", [SCORE_CELLS, LINEAR_SCORE_CELLS])
def test_scores_of_few_decimals_are_told_apart_and_count_at_their_threshold(grid, decimals):
    scores = np.arange(10**decimals + 1) / 10**decimals
    at = np.array(threshold_cells(scores, grid))
    for stored in (scores, scores.astype(np.float32).astype(float)):
        cells = cells_of(stored, grid)
        assert (cells >= at).all()
        assert (cells[:-1] < at[1:]).all()


def test_the_earliest_rounding_moved_thresholds_up():
    assert threshold_cells([0.0, 0.3, 0.5, 1.0], LINEAR_SCORE_CELLS, EARLIEST_ROUNDING) == (0, 19661, 32768, 65535)
    assert threshold_cells([0.0, 0.3, 0.5, 1.0], LINEAR_SCORE_CELLS) == (0, 19660, 32768, 65535)
