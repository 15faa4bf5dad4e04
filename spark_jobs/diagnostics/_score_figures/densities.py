"""Where the rows of both classes may be expected to lie, finely, by what was released; free post-processing.

Inside counted cells nothing is known but what the laws of ``roc_curve.expectation`` expect and what coarser or finer
looks have said. The laws make the start; each look in turn scales what lies in its cells to what it counted, as far as
its noise lets it speak.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.diagnostics.roc_curve.smoothing_prior import Observation
from spark_jobs.mechanisms.cells import cuts_at, equal_log_odds, log_odds

FINE = 1_024
DISCOUNTED_SIGMAS = 2.0
"""A look is believed as far as it is further from what was expected than this many standard deviations of its noise."""
MIN_KEPT = 0.25
"""Of what was expected; a look does not take all of it away."""
_TINY = 1e-9


def fine_cuts(grid: int, *cuts: Int64Array) -> Int64Array:
    """A fine partition, even in log-odds, that has these cuts among its own."""
    return np.unique(np.concatenate([equal_log_odds(grid, min(FINE, grid)), *cuts]))


def cell_of(cuts: Int64Array, coarse: Int64Array) -> Int64Array:
    """The cell of a coarser partition that each cell of a finer one lies in."""
    return np.asarray(np.searchsorted(coarse, cuts[:-1], side="right") - 1, dtype=np.int64)


def sums(rows: FloatArray, cell: Int64Array) -> FloatArray:
    """Sums along the last axis over runs of equal ``cell``, of which there is at least one fine cell in each."""
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    total: FloatArray = np.add.reduceat(rows, starts, axis=-1)
    return total


def expected_rows(start: FloatArray, cuts: Int64Array, observations: Sequence[Observation]) -> FloatArray:
    """Rows of both classes in the cells of a fine partition, by looks; shape (2, k).

    Args:
        start: what is expected before them, not negative; shape (2, k).
        cuts: the fine partition, which has the looks' cuts among its own.
        observations: what was counted, the coarsest first.
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
    """Cuts of cells of which some hold equal shares of the rows, and some are the narrower the nearer the top they lie.

    Args:
        rows: what is expected in a fine partition; shape (2, k).
        cuts: that partition.
        grid: fine cells.
        cells: how many; at most ``grid``.
        nearest: rows from the top below which cells do not become narrower.
        part: how much of the cells follows the logarithm of the rows above, the rest both classes' shares.
    """
    falling = rows[:, ::-1]
    depth = np.cumsum((falling / np.maximum(falling.sum(axis=-1, keepdims=True), 1.0)).sum(axis=0))
    above = np.log1p(np.cumsum(falling.sum(axis=0)) / nearest)
    mixed = (1 - part) * depth / depth[-1] + part * above / above[-1]
    wanted = np.linspace(0.0, 1.0, cells + 1)[::-1]
    places = np.interp(wanted, np.concatenate([[0.0], mixed]), log_odds(cuts, grid)[::-1])
    return cuts_at(places, grid)
