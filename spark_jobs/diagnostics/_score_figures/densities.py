"""Expected rows of both classes in fine cells, estimated from released counts; post-processing.

A counted cell does not show where in the cell its rows are. The places are estimated from the score distributions of
``_score_figures.smoothing_prior`` and from other histograms: the estimate starts from the distributions; then each
histogram in turn scales the rows in each of its cells towards its count. The scaling is weaker where the noise of the
histogram may explain the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.diagnostics._score_figures.smoothing_prior import Observation
from spark_jobs.mechanisms.cells import cuts_at, equal_log_odds, even_log_odds, log_odds

FINE = 1_024
DISCOUNTED_SIGMAS = 2.0
"""Standard deviations of noise by which the deviation of a count from the expected rows is discounted."""
MIN_KEPT = 0.25
"""Share of the expected rows that a histogram leaves at least."""
_TINY = 1e-9


def fine_cuts(grid: int, *cuts: Int64Array) -> Int64Array:
    """A fine partition of the whole grid that contains these cuts and is nearly even in log-odds."""
    even = [equal_log_odds(grid, min(FINE, grid))]
    if grid == SCORE_CELLS:
        ends = even_log_odds(grid, FINE)
        even.append(ends[(ends < even[0][1]) | (ends > even[0][-2])])
    return np.unique(np.concatenate([*even, *cuts]))


def cell_of(cuts: Int64Array, coarse: Int64Array) -> Int64Array:
    """For each cell of a partition, the cell of a coarser partition that contains it."""
    return np.asarray(np.searchsorted(coarse, cuts[:-1], side="right") - 1, dtype=np.int64)


def sums(rows: FloatArray, cell: Int64Array) -> FloatArray:
    """Sums along the last axis over runs of equal ``cell``."""
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    total: FloatArray = np.add.reduceat(rows, starts, axis=-1)
    return total


def expected_rows(start: FloatArray, cuts: Int64Array, observations: Sequence[Observation]) -> FloatArray:
    """Expected rows of both classes in the cells of a fine partition, given noisy counts; shape (2, k).

    Args:
        start: expected rows before the counts, not negative; shape (2, k).
        cuts: the fine partition; it contains the cuts of all observations.
        observations: the noisy counts, coarsest cells first.
    """
    rows = start + _TINY
    for observation in observations:
        cell, joint = cell_of(cuts, observation.cuts), observation.counts.ndim == 1
        before = sums(rows, cell)
        before = before.sum(axis=0) if joint else before
        off, noise = observation.counts - before, DISCOUNTED_SIGMAS * np.sqrt(observation.variance)
        after = before + np.sign(off) * np.maximum(np.abs(off) - noise, 0.0)
        after = np.maximum(after, MIN_KEPT * before)
        rows = rows * (after / before)[..., cell]
    return rows


def narrow_at_top(
    rows: FloatArray, cuts: Int64Array, *, grid: int, cells: int, nearest: float, part: float
) -> Int64Array:
    """Cuts of cells with equal parts of the rows, weighted so that cells become narrower towards the highest scores.

    Args:
        rows: expected rows in a fine partition; shape (2, k).
        cuts: the fine partition.
        grid: number of fine cells of the score grid.
        cells: number of cells to place, at most ``grid``.
        nearest: number of rows from the top within which cells do not become narrower.
        part: the weight, from 0 to 1, of the logarithm of the number of rows above a place; the rest is the weight of
            the shares of both classes above it.
    """
    falling = np.maximum(rows[:, ::-1], _TINY)
    depth = np.cumsum((falling / np.maximum(falling.sum(axis=-1, keepdims=True), 1.0)).sum(axis=0))
    above = np.log1p(np.cumsum(falling.sum(axis=0)) / nearest)
    mixed = (1 - part) * depth / depth[-1] + part * above / above[-1]
    wanted = np.linspace(0.0, 1.0, cells + 1)[::-1]
    places = np.interp(wanted, np.concatenate([[0.0], mixed]), log_odds(cuts, grid)[::-1])
    return cuts_at(places, grid)
