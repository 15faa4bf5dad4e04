"""The public grids of scores in [0, 1], each named by its number of cells alone: cells, edges, thresholds.

The grid of ``SCORE_CELLS`` cells is *refined* towards both ends. In the middle its cells are ``2^-16`` wide. Within
1/256 of 0 or 1, each halving of the distance to that end has 256 cells, down to a distance of ``2^-30``: scores of rare
events, and of almost certain ones, stay apart. Each of its cells lies in one cell of the grid of
``LINEAR_SCORE_CELLS`` cells. Two scores that are counted together have ``PAIR_CELLS`` cells each: 64 for each halving
of the distance, from the middle on. With any other number of cells, all have equal width.

A cell is ``[from, to)``, and the last one is closed. Distances to an end are exact in double precision, and a cell is
found from the mantissa and exponent of the distance, without logarithms: so numpy and Spark agree on every cell.

A threshold is rounded as scores are (``threshold_cells``), so that every row at a threshold counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.grids import (
    EARLIEST_ROUNDING,
    LINEAR_SCORE_CELLS,
    PAIR_CELLS,
    ROUNDING,
    SCORE_CELLS,
    TAIL_DOUBLINGS,
)
from spark_jobs.contract.score_scale import ScoreScale


@dataclass(frozen=True, kw_only=True)
class BothEnds:
    """A grid of [0, 1] that is finer towards both ends.

    Attributes:
        tail_bits: within ``2^-tail_bits`` of an end, cells double in width as the distance to that end doubles.
        step_bits: each doubling of the distance has ``2^step_bits`` cells.
        middle: [0, 1] is divided into this many cells of equal width, of which those outside the tails are used.
    """

    tail_bits: int
    step_bits: int
    middle: int

    @property
    def scale_bits(self) -> int:
        """The exponent of the scale: a distance times ``2^scale_bits``, as a whole number, determines its cell."""
        return TAIL_DOUBLINGS + self.step_bits

    @property
    def side(self) -> int:
        """The number of cells of either tail."""
        return 1 + ((TAIL_DOUBLINGS - self.tail_bits) << self.step_bits)

    @property
    def cells(self) -> int:
        """The number of all cells."""
        return 2 * self.side + self.middle - 2 * (self.middle >> self.tail_bits)

    def cells_of(self, scores: FloatArray) -> Int64Array:
        """The cell of each score; scores beyond [0, 1] count at the nearer end, and NaN is not allowed."""
        place = np.clip(scores, 0.0, 1.0)
        reach = 2.0**-self.tail_bits
        low, high = place < reach, place >= 1.0 - reach
        distance = np.where(high, 1.0 - place, place) * 2.0**self.scale_bits
        whole = np.maximum(np.where(high, np.ceil(distance) - 1.0, np.floor(distance)), 0.0)
        bits = np.maximum(np.frexp(whole)[1] - self.step_bits - 1, 0).astype(np.int64)
        steps = 1 << self.step_bits
        number = whole.astype(np.int64)
        side = np.where(number < steps, 0, 1 + (bits << self.step_bits) + (number >> bits) - steps)
        inner = self.side + np.floor(place * self.middle).astype(np.int64) - (self.middle >> self.tail_bits)
        cells: Int64Array = np.where(low, side, np.where(high, self.cells - 1 - side, inner))
        return cells

    def edges(self) -> FloatArray:
        """The lower ends of the cells, then 1; shape (cells + 1,)."""
        number = np.arange(self.side - 1)
        within = 1.0 + (number & ((1 << self.step_bits) - 1)) / (1 << self.step_bits)
        tail = np.concatenate([[0.0], np.ldexp(within, (number >> self.step_bits) - TAIL_DOUBLINGS)])
        inner = np.arange(self.middle >> self.tail_bits, self.middle - (self.middle >> self.tail_bits) + 1)
        return np.concatenate([tail, inner / self.middle, 1.0 - tail[::-1]])


REFINED = BothEnds(tail_bits=8, step_bits=8, middle=LINEAR_SCORE_CELLS)
PAIRED = BothEnds(tail_bits=1, step_bits=6, middle=2)
_FINER = {SCORE_CELLS: REFINED, PAIR_CELLS: PAIRED}


def cells_of(scores: FloatArray, grid: int) -> Int64Array:
    """The cell of each score; scores beyond [0, 1] count at the nearer end, and NaN is not allowed."""
    if grid in _FINER:
        return _FINER[grid].cells_of(scores)
    return np.minimum((np.clip(scores, 0.0, 1.0) * grid).astype(np.int64), grid - 1)


def places_on(scale: ScoreScale, scores: FloatArray) -> FloatArray:
    """Scores mapped from their scale to [0, 1]; those beyond the ends of the scale lie outside [0, 1]."""
    with np.errstate(all="ignore"):  # beyond the ends, where the logarithm may have no value, and of infinite scores
        if scale.kind == "logit":
            return np.asarray(1.0 / (1.0 + np.exp(-scores)), dtype=np.float64)
        lower, upper = scale.ends
        if scale.step is not None:
            return np.asarray(np.floor((scores - lower) / scale.step + 0.5) / scale.steps, dtype=np.float64)
        if scale.kind == "linear":
            return np.asarray((scores - lower) / (upper - lower), dtype=np.float64)
        place = np.log1p((scores - lower) / scale.unit) / np.log1p((upper - lower) / scale.unit)
        return np.where(scores < lower, -1.0, place)


def cuts_of_values(steps: int, grid: int) -> Int64Array:
    """Cuts of the grid with one cell for each of the scores ``0, 1 / steps, ..., 1``; fewer if the grid is coarser."""
    return np.union1d([0, grid], cells_of(np.arange(1, steps + 1) / steps, grid)).astype(np.int64)


def values_inside(cuts: Int64Array, steps: int, grid: int) -> Int64Array:
    """How many of the scores ``0, 1 / steps, ..., 1`` each cell of a partition holds.

    Args:
        cuts: ascending cuts of the grid; shape (k + 1,).
        steps: the number of steps.
        grid: the number of cells of the grid.

    Returns:
        Shape (k,).
    """
    return np.diff(np.searchsorted(cells_of(np.arange(steps + 1) / steps, grid), cuts))


@cache
def edges_of(grid: int) -> FloatArray:
    """The lower ends of the grid's cells, then 1; shape (grid + 1,), read-only."""
    edges: FloatArray = _FINER[grid].edges() if grid in _FINER else np.arange(grid + 1) / grid
    edges.flags.writeable = False
    return edges


@cache
def middles_of(grid: int) -> FloatArray:
    """The middles of the cells; shape (grid,), read-only."""
    edges = edges_of(grid)
    middles: FloatArray = (edges[:-1] + edges[1:]) / 2
    middles.flags.writeable = False
    return middles


def furthest_from(middles: FloatArray, grid: int) -> FloatArray:
    """The largest distance between a mean of scores and the mean of the middles of their cells, given the latter.

    It is half a cell on a grid of equal cells. On the refined grid a score is within
    ``min(2^-17, m / 512, (1 - m) / 512) + 2^-31`` of the middle m of its cell. This bound is concave in m, so its value
    at the mean of the middles bounds the distance of the means.

    Args:
        middles: means of the middles of cells, in [0, 1].
        grid: the number of cells of the grid.
    """
    if grid != SCORE_CELLS:
        widest: FloatArray = np.diff(edges_of(grid)).max() / 2
        return np.full(np.shape(middles), widest)
    tail = np.minimum(middles, 1.0 - middles) * 2.0 ** -(REFINED.step_bits + 1)
    return np.asarray(np.minimum(0.5 / REFINED.middle, tail) + 2.0 ** -(TAIL_DOUBLINGS + 1), dtype=np.float64)


def threshold_cells(thresholds: Sequence[float], grid: int, rounding: str = ROUNDING) -> tuple[int, ...]:
    """For each threshold t of ``score >= t``, the first cell whose rows count; its start is the threshold in force.

    Args:
        thresholds: the thresholds, from 0 to 1.
        grid: the number of cells of the grid.
        rounding: the draw's rule; by the earliest rule, a threshold was moved up to the next edge.
    """
    if rounding == EARLIEST_ROUNDING:
        return tuple(np.minimum(np.searchsorted(edges_of(grid), thresholds), grid - 1).tolist())
    return tuple(cells_of(np.asarray(thresholds, dtype=np.float64), grid).tolist())


@cache
def pair_cuts(grid: int) -> Int64Array:
    """The edges of the cells of two scores that are counted together, as cuts of the grid of each; read-only."""
    if grid == LINEAR_SCORE_CELLS:
        cuts = _earlier_pair_cuts()
    else:
        cuts = np.append(cells_of(edges_of(PAIR_CELLS)[:-1], grid), grid)
    cuts.flags.writeable = False
    return cuts


@cache
def linear_cuts() -> Int64Array:
    """The starts of the ``LINEAR_SCORE_CELLS`` equal cells, as numbers of cells of the refined grid; read-only."""
    cuts = cells_of(edges_of(LINEAR_SCORE_CELLS)[:-1], SCORE_CELLS)
    cuts.flags.writeable = False
    return cuts


def _earlier_pair_cuts() -> Int64Array:
    """Cuts of the grid of equal cells: 64 cells at either end, then six doublings of their width with 32 cells each."""
    widths = np.concatenate([np.ones(64), *(np.full(32, 2.0**doubling) for doubling in range(1, 6))])
    half = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    inner = np.arange(half[-1], LINEAR_SCORE_CELLS - half[-1] + 1, 64)
    return np.unique(np.concatenate([half, inner, LINEAR_SCORE_CELLS - half]))
