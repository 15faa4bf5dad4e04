"""From counts of cells to a curve: rates at the cells' edges, points between them, the area below.

Everything runs from the highest score to the lowest, as in scikit-learn: edge 0 lies above all scores, at (0, 0); the
last edge is threshold 0, at (1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.mechanisms.cells import fraction_inside, inside
from spark_jobs.mechanisms.prefix_sums import monotone

TIED = 5.0
"""A cell this many times as deep as the others is taken for one score that many rows share: straight, not curved."""
INNER = 33
"""Places in a cell at which its course is computed; straight between them."""
NEAREST = 1e-3
"""Rates are not taken to be nearer to 0 and 1 than this, where the course inside a cell is told."""
AT_AN_END = 1e-2
"""An edge where both rates are as near to 0, or to 1, as this counts as the curve's end: outermost cells may be all but
empty, and where a few rows lie says nothing of the direction in which the curve leaves."""
DEVIATES_OUT = 8.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Edges:
    """A curve at the edges of its cells.

    Attributes:
        cuts: the edges, falling from ``grid`` to 0.
        fpr, tpr: rates at each edge; from 0 to 1, never falling.
        tied: whether the scores take few values, so that the curve is a line inside every cell.
    """

    cuts: Int64Array
    fpr: FloatArray
    tpr: FloatArray
    tied: bool

    @property
    def depth(self) -> FloatArray:
        """Mean of both rates at each edge: how much of the data, both classes weighing the same, lies above it."""
        return (self.fpr + self.tpr) / 2

    @property
    def straight(self) -> BoolArray:
        """Cells in which the curve is a line: a single grid cell, or a score that very many rows share."""
        alone: BoolArray = -np.diff(self.cuts) == 1
        return alone | (np.diff(self.depth) > TIED / (self.cuts.size - 1)) | self.tied


@dataclass(frozen=True, kw_only=True, eq=False)
class CurvePoints:
    """Where a curve is read: thresholds of the grid, falling to 0, each in a cell.

    Attributes:
        cuts: thresholds in cells of the grid.
        cell: the cell whose lower part the threshold bounds, counted from the top.
        fraction: how much of that cell's depth lies above the threshold, in (0, 1].
    """

    cuts: Int64Array
    cell: Int64Array
    fraction: FloatArray


def counts_above(counts: FloatArray) -> FloatArray:
    """Rows above each edge, from the top, as estimated; ``counts`` are of cells, along the last axis, lowest first."""
    above = np.cumsum(counts[..., ::-1], axis=-1)
    return np.concatenate([np.zeros_like(above[..., :1]), above], axis=-1)


def edges(cuts: Int64Array, negatives: FloatArray, positives: FloatArray, *, tied: bool) -> Edges:
    """The curve at falling cuts, from estimates of both classes' ``counts_above`` there."""
    rows = monotone(negatives), monotone(positives)
    fpr, tpr = (np.append(counts[:-1] / max(counts[-1], 1.0), 1.0) for counts in rows)
    return Edges(cuts=cuts, fpr=np.minimum(fpr, 1.0), tpr=np.minimum(tpr, 1.0), tied=tied)


def evenly_deep(curve: Edges, cells: int) -> Int64Array:
    """Indices of ``cells + 1`` of the curve's edges, the first and the last among them, at near-even depths."""
    last, order = curve.cuts.size - 1, np.arange(1, cells + 1)
    wanted = np.searchsorted(curve.depth[1:], order / cells - 1e-12) + 1
    index = np.maximum.accumulate(np.minimum(wanted, last) - order) + order
    index = np.minimum(index, last - order[::-1] + 1)
    return np.concatenate([[0], index[:-1], [last]])


def choose_points(curve: Edges, count: int) -> CurvePoints:
    """``count`` distinct thresholds, near-even in depth: every edge if there is room, points inside cells if more."""
    cells = curve.cuts.size - 1
    if count <= cells:
        index = evenly_deep(curve, count)[1:]
        return CurvePoints(cuts=curve.cuts[index], cell=index - 1, fraction=np.ones(count))
    grid = int(curve.cuts[0])
    room = -np.diff(curve.cuts) - 1
    extra = _share_out(count - cells, np.diff(curve.depth), room)
    cuts, cell = [], []
    for i in range(cells):
        high, low = int(curve.cuts[i]), int(curve.cuts[i + 1])
        cuts.append(np.append(inside(low, high, int(extra[i]), grid=grid)[::-1], low))
        cell.append(np.full(extra[i] + 1, i))
    at, where = np.concatenate(cuts), np.concatenate(cell)
    fraction = 1.0 - fraction_inside(at, curve.cuts[where + 1], curve.cuts[where], grid=grid)
    return CurvePoints(cuts=at, cell=where, fraction=np.where(at == curve.cuts[where + 1], 1.0, fraction))


def read(curve: Edges, points: CurvePoints, straight: BoolArray) -> tuple[FloatArray, FloatArray]:
    """The curve's rates at the points, with the starting point (0, 0) before them.

    Inside a cell the curve is straight in normal deviates, as curves of two normal laws are everywhere: between its
    ends, or from the one end whose rates are not both 0 or both 1 in the direction of equal widths of both classes. The
    mix of the classes changes gradually, where a line would put a kink at each edge.
    """
    if (points.fraction == 1.0).all():
        fpr, tpr = curve.fpr[points.cell + 1], curve.tpr[points.cell + 1]
    elif straight.all():
        return read_straight(curve, points)
    else:
        depth = curve.depth
        at = depth[points.cell] + points.fraction * (depth[points.cell + 1] - depth[points.cell])
        fine_fpr, fine_tpr = _inside_cells(curve, straight)
        fine_depth = (fine_fpr + fine_tpr) / 2
        fpr, tpr = np.interp(at, fine_depth, fine_fpr), np.interp(at, fine_depth, fine_tpr)
        whole = points.fraction == 1.0
        fpr[whole], tpr[whole] = curve.fpr[points.cell[whole] + 1], curve.tpr[points.cell[whole] + 1]
        fpr, tpr = (np.maximum.accumulate(np.clip(rate, 0.0, 1.0)) for rate in (fpr, tpr))
    return np.concatenate([[0.0], fpr]), np.concatenate([[0.0], tpr])


def read_straight(curve: Edges, points: CurvePoints) -> tuple[FloatArray, FloatArray]:
    """The rates at the points if the curve were a line inside every cell, as it is where each holds one tied score."""
    rates = (
        rate[points.cell] + points.fraction * (rate[points.cell + 1] - rate[points.cell])
        for rate in (curve.fpr, curve.tpr)
    )
    fpr, tpr = (np.concatenate([[0.0], rate]) for rate in rates)
    return fpr, tpr


def area(fpr: FloatArray, tpr: FloatArray) -> float:
    """The area under the curve, by trapezoids: ties count one half."""
    return float(np.trapezoid(tpr, fpr))


def areas_of_cells(fpr: FloatArray, tpr: FloatArray, points: CurvePoints) -> FloatArray:
    """The part of ``area`` that lies below each cell, of a curve that is read at ``points``; from the top."""
    steps = np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2
    return np.bincount(points.cell, weights=steps).astype(np.float64)


def _inside_cells(curve: Edges, straight: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Rates at ``INNER`` places and more in each cell, in rising order; those of its ends are the curve's own."""
    part = np.linspace(0.0, 1.0, INNER)
    rates = np.stack([curve.fpr, curve.tpr])
    low, high = rates[:, :-1, None], rates[:, 1:, None]
    deviates = ndtri(np.clip(rates, NEAREST, 1.0 - NEAREST))
    start, end = deviates[:, :-1, None], deviates[:, 1:, None]
    course = start + part * (end - start)
    # the curve leaves and meets its ends along the line through the nearest edge that is not one of them
    leaves: BoolArray = np.maximum(curve.fpr, curve.tpr)[:-1, None] <= AT_AN_END
    meets: BoolArray = np.minimum(curve.fpr, curve.tpr)[1:, None] >= 1.0 - AT_AN_END
    course = np.where(leaves & ~meets, end - DEVIATES_OUT * (1.0 - part), course)
    course = np.where(meets & ~leaves, start + DEVIATES_OUT * part, course)
    inner = ndtr(course)
    run = inner[..., -1:] - inner[..., :1]
    share = np.where(run > 1e-12, (inner - inner[..., :1]) / np.maximum(run, 1e-12), part)
    bent = low + np.where(straight[:, None], part, share) * (high - low)
    return bent[0].ravel(), bent[1].ravel()


def _share_out(count: int, weights: FloatArray, room: Int64Array) -> Int64Array:
    """``count`` whole shares, near-proportional to ``weights`` and within ``room``; a deterministic rule."""
    shares = np.zeros(room.size, dtype=np.int64)
    while (left := count - int(shares.sum())) > 0:
        open_cells = shares < room
        wanted = np.where(open_cells, np.maximum(weights, 1e-9), 0.0)
        ideal = left * wanted / wanted.sum()
        given = np.minimum(np.floor(ideal).astype(np.int64), room - shares)
        if not given.any():
            order = np.argsort(-ideal, kind="stable")[: min(left, int(open_cells.sum()))]
            given[order] = 1
        shares += given
    return shares
