"""Coarse cells over a fine public grid: fixed cells, and cells of nearly equal depth that earlier releases determine.

A partition of ``grid`` fine cells is an array of cuts ``0 = c_0 < c_1 < ... < c_k = grid``; coarse cell ``i`` holds the
fine cells ``c_i <= j < c_{i+1}``, so that every row is in exactly one. Cuts are public or computed from released counts
only: the only function of this module that reads private rows is ``noisy_cells``, which spends budget.

The scores of models crowd near 0 and 1 on a scale that differs between models by orders of magnitude, so positions
between cuts are measured in log-odds, where a cell [0, 0.001] is as wide as a cell [0.3, 0.97].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.grids import LINEAR_SCORE_CELLS, SCORE_CELLS
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.score_grid import cells_of, edges_of


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCells:
    """Noisy counts of the cells of a partition.

    Attributes:
        cuts: the partition.
        counts: noisy integers, one for each cell along the last axis; the optional first axis is the class of the rows.
        scale: of the two-sided geometric noise in every count.
    """

    cuts: Int64Array
    counts: Int64Array
    scale: float

    @property
    def total(self) -> float:
        """An unbiased noisy number of rows."""
        return float(self.counts.astype(np.float64).sum())

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise in each count."""
        return float(np.sqrt(laplace_variance(self.scale)))

    def weights(self) -> FloatArray:
        """The weights of the cells for ``equal_depth``: the counts in excess of the noise, balanced between classes.

        Each count is reduced by one standard deviation, so that most empty cells have weight 0. The counts of a class
        are divided by the class's size plus the noise that this size may contain, so that a small class weighs as much
        as a large one, but a class that is no larger than the noise weighs little.
        """
        above: FloatArray = np.maximum(self.counts - self.stddev, 0.0)
        if above.ndim == 1:
            return above
        sizes = np.maximum(self.counts.sum(axis=-1, keepdims=True), 1.0)
        balanced: FloatArray = (above / (sizes + 3 * self.stddev * np.sqrt(above.shape[-1]))).sum(axis=0)
        return balanced


def noisy_cells(
    counts: Int64Array, cuts: Int64Array, *, epsilon: Cost, neighbours: Neighbours, noise: Noise
) -> NoisyCells:
    """One noisy measurement of the counts of a partition's cells; ``epsilon``-DP.

    The cells of all classes are disjoint, so that a row that is added or removed changes one count by 1 and a row that
    is replaced changes two: the 1-norm sensitivity is 1 under ``ADD_REMOVE`` and 2 under ``REPLACE_ONE``.

    Args:
        counts: exact counts of the fine cells along the last axis; the optional first axis is the class of the rows.
        cuts: the partition; public, or computed from released values only.
        epsilon: the cost of the release.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    sensitivity = rows_changed(neighbours)
    return NoisyCells(
        cuts=cuts,
        counts=noise.laplace(totals(counts, cuts), epsilon=epsilon, l1_sensitivity=sensitivity),
        scale=laplace_scale(epsilon, sensitivity),
    )


def totals(counts: Int64Array, cuts: Int64Array) -> Int64Array:
    """The sums of ``counts`` over the cells of a partition, along the last axis."""
    return np.add.reduceat(counts, cuts[:-1], axis=-1).astype(np.int64)


def equal_width(grid: int, cells: int) -> Int64Array:
    """Cuts of ``cells`` cells of (almost) equal width; with ``cells`` equal to ``grid``, every fine cell."""
    if cells == grid or grid != SCORE_CELLS:
        return np.arange(cells + 1, dtype=np.int64) * grid // cells
    return _distinct(np.append(cells_of(np.arange(cells) / cells, grid), grid), grid)


def equal_log_odds(grid: int, cells: int) -> Int64Array:
    """Cuts of ``cells`` cells of (almost) equal width in log-odds, at least one fine cell wide.

    The refined grid is much finer towards 0 and 1, but its cuts are those of the linear grid: the first and the last
    cell hold all scores within 2^-17 of 0 or 1, and some more. This leaves enough cells for the scores of most models,
    which lie elsewhere. ``even_log_odds`` cuts the refined grid up to its ends.
    """
    if grid != SCORE_CELLS:
        return even_log_odds(grid, cells)
    linear = even_log_odds(LINEAR_SCORE_CELLS, min(cells, LINEAR_SCORE_CELLS))
    return np.append(cells_of(linear[:-1] / LINEAR_SCORE_CELLS, grid), grid)


def even_log_odds(grid: int, cells: int) -> Int64Array:
    """Cuts of ``cells`` cells of (almost) equal width in log-odds, up to the ends of any grid."""
    return _even(0, grid, cells, grid=grid)


def equal_depth(
    cuts: Int64Array, weights: FloatArray, *, grid: int, cells: int, keep_edges: bool = False
) -> Int64Array:
    """Cuts of ``cells`` cells with (almost) equal shares of ``weights``, which are spread evenly inside each old cell.

    Args:
        cuts: the old partition.
        weights: non-negative, one for each cell of the old partition; all zero if nothing is known.
        grid: the number of fine cells.
        cells: the number of new cells, at most ``grid``.
        keep_edges: whether to move a cut to an old edge if less than half the depth of a new cell lies between them, so
            that scores in different old cells stay in different new ones.
    """
    floor = 1e-3 * weights.sum() / weights.size or 1.0
    depth = np.concatenate([[0.0], np.cumsum(weights + floor)])
    wanted = np.linspace(0.0, depth[-1], cells + 1)
    if keep_edges:
        after = np.clip(np.searchsorted(depth, wanted), 1, depth.size - 1)
        nearest = np.where(wanted - depth[after - 1] < depth[after] - wanted, depth[after - 1], depth[after])
        wanted = np.where(np.abs(nearest - wanted) < depth[-1] / cells / 2, nearest, wanted)
    places = np.interp(wanted, depth, log_odds(cuts, grid))
    return _distinct(_position(places, grid), grid)


def inside(first: int, last: int, points: int, *, grid: int) -> Int64Array:
    """``points`` distinct cuts between two cuts, evenly spaced in log-odds; at most ``last - first - 1`` of them."""
    return _even(first, last, points + 1, grid=grid)[1:-1]


def fraction_inside(cut: Int64Array, first: Int64Array, last: Int64Array, *, grid: int) -> FloatArray:
    """The position of ``cut`` between ``first`` and ``last`` as a fraction in [0, 1], measured in log-odds."""
    start, place, end = (log_odds(np.asarray(x), grid) for x in (first, cut, last))
    return np.clip((place - start) / (end - start), 0.0, 1.0)


def cuts_at(places: FloatArray, grid: int) -> Int64Array:
    """The distinct cuts nearest to ascending positions in log-odds; the first is 0, the last is ``grid``."""
    return _distinct(_position(places, grid), grid)


def _even(first: int, last: int, cells: int, *, grid: int) -> Int64Array:
    start, end = log_odds(np.array([first, last]), grid)
    return _distinct(_position(np.linspace(start, end, cells + 1), grid) - first, last - first) + first


def log_odds(cut: Int64Array, grid: int) -> FloatArray:
    """The positions of cuts in log-odds; finite at both ends of the grid."""
    # both ends are extended by half a fine cell, as their own log-odds are infinite
    if grid != SCORE_CELLS:
        return np.log((cut + 0.5) / (grid + 0.5 - cut))
    edges = edges_of(grid)
    half, place = edges[1] / 2, edges[cut]
    odds: FloatArray = np.log((place + half) / ((1.0 - place) + half))
    return odds


def _position(log_odds: FloatArray, grid: int) -> FloatArray:
    if grid != SCORE_CELLS:
        return (grid + 1) / (1.0 + np.exp(-log_odds)) - 0.5
    edges = edges_of(grid)
    # the distance to the nearer end keeps its digits
    distance = (1.0 + edges[1]) / (1.0 + np.exp(np.abs(log_odds))) - edges[1] / 2
    place = np.interp(distance, edges, np.arange(grid + 1))
    positions: FloatArray = np.where(log_odds > 0, grid - place, place)
    return positions


def _distinct(places: FloatArray | Int64Array, grid: int) -> Int64Array:
    """The distinct cuts nearest to sorted positions; the first is 0, the last is ``grid``."""
    order = np.arange(places.size)
    cuts = np.maximum.accumulate(np.round(places).astype(np.int64) - order) + order
    cuts = np.clip(cuts, order, grid - order[::-1])
    cuts[0], cuts[-1] = 0, grid
    return cuts
