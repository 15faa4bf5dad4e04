"""The ROC curve of counts of cells: rates at the edges of the cells, points between them, and the area.

Edges and points run from the highest score to the lowest, as in scikit-learn: edge 0 lies above all scores, at (0, 0),
and the last edge is threshold 0, at (1, 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.mechanisms.cells import fraction_inside, inside
from spark_jobs.mechanisms.prefix_sums import monotone
from spark_jobs.score_grid import values_inside

TIED = 5.0
"""A cell this many times as deep as the average counts as one score that many rows share: a straight segment."""
CROWDED = 50.0
"""Where scores seem to take few values, a cell this many times as deep as its share of the grid's cells counts as one
of them; a wider cell does not."""
IN_FEW = 0.5
"""The part of the cells that rows outside crowded cells fill, over their share of the rows, below which all scores take
few values. Of scores of one decimal it was from 0.2 to 0.42, of smooth ones around an atom from 0.57 to 0.8."""
INNER = 33
"""Number of places in a cell at which a curved segment is computed; it is straight between them."""
NEAREST = 1e-3
"""Smallest distance of rates from 0 and 1 in the computation of curved segments."""
AT_AN_END = 1e-2
"""Distance of both rates from 0, or from 1, within which an edge counts as an end of the curve. The outermost cells may
be almost empty, and a few rows do not determine the direction of the curve."""
DEVIATES_OUT = 8.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Edges:
    """A curve at the edges of its cells.

    Attributes:
        cuts: the edges, falling from ``grid`` to 0.
        fpr, tpr: rates at each edge; from 0 to 1, never falling.
        tied: whether most rows are in few cells, as if the scores take few values.
        steps: number of steps of the scale of the scores, if the scale has a step.
    """

    cuts: Int64Array
    fpr: FloatArray
    tpr: FloatArray
    tied: bool
    steps: int | None = None

    @property
    def alone(self) -> BoolArray:
        """Whether each cell is known to hold one score: a single grid cell, or at most one value of the scale."""
        width: BoolArray = np.diff(self.cuts) == -1
        if self.steps is None:
            return width
        inside_cells = values_inside(self.cuts[::-1], self.steps, int(self.cuts[0]))
        return width | (inside_cells[::-1] <= 1)

    @property
    def depth(self) -> FloatArray:
        """Mean of both rates at each edge: the share of the data above it, with equal weight of both classes."""
        return (self.fpr + self.tpr) / 2

    @property
    def single(self) -> BoolArray:
        """Whether each cell is taken to hold one score: it is ``alone``, or the scores seem to take few values.

        If a single value has most rows, scores seem to take few values even if the other rows lie anywhere in wide
        cells, in which the curve is bent. The number of cells that the other rows fill shows which is the case. Cells
        are about equally deep. So rows at arbitrary scores fill about the same share of the cells as of the rows.
        Scores that take few values fill far fewer cells, as most cells between two values are empty; in a small table
        none of their cells may be crowded.
        """
        width, depth = -np.diff(self.cuts), np.diff(self.depth)
        crowded: BoolArray = depth > CROWDED * width / self.cuts[0]
        others = depth[~crowded]
        in_few = bool(others.sum() < IN_FEW * others.size * (others**2).sum())
        return self.alone | ((crowded | (in_few or not crowded.any())) & self.tied)

    @property
    def straight(self) -> BoolArray:
        """Whether the curve is straight in each cell: it holds one score, or so many rows that most must share one."""
        deep: BoolArray = np.diff(self.depth) > TIED / (self.cuts.size - 1)
        return self.single | deep


@dataclass(frozen=True, kw_only=True, eq=False)
class CurvePoints:
    """Thresholds, falling to 0, at which a curve is evaluated.

    Attributes:
        cuts: thresholds, in cells of the grid.
        cell: cell of the curve that contains each threshold, counted from the top.
        fraction: share of that cell's depth above the threshold, in (0, 1].
    """

    cuts: Int64Array
    cell: Int64Array
    fraction: FloatArray


def counts_above(counts: FloatArray) -> FloatArray:
    """Estimated rows above each edge, from the top; ``counts`` are of cells, lowest first, along the last axis."""
    above = np.cumsum(counts[..., ::-1], axis=-1)
    return np.concatenate([np.zeros_like(above[..., :1]), above], axis=-1)


def edges(
    cuts: Int64Array, negatives: FloatArray, positives: FloatArray, *, tied: bool, steps: int | None = None
) -> Edges:
    """The curve at falling cuts, from the ``counts_above`` of both classes."""
    rows = monotone(negatives), monotone(positives)
    fpr, tpr = (np.append(counts[:-1] / max(counts[-1], 1.0), 1.0) for counts in rows)
    return Edges(cuts=cuts, fpr=np.minimum(fpr, 1.0), tpr=np.minimum(tpr, 1.0), tied=tied, steps=steps)


def evenly_deep(curve: Edges, cells: int) -> Int64Array:
    """Indices of ``cells + 1`` edges of the curve at nearly equal distances in depth, the first and last included."""
    last, order = curve.cuts.size - 1, np.arange(1, cells + 1)
    wanted = np.searchsorted(curve.depth[1:], order / cells - 1e-12) + 1
    index = np.maximum.accumulate(np.minimum(wanted, last) - order) + order
    index = np.minimum(index, last - order[::-1] + 1)
    return np.concatenate([[0], index[:-1], [last]])


def choose_points(curve: Edges, count: int) -> CurvePoints:
    """``count`` distinct thresholds at nearly equal depths: some edges, or all edges and points inside cells."""
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
    """The rates of the curve at the points, after the starting point (0, 0).

    Inside a cell the curve is straight in normal deviates, like the whole curve of two normal distributions, and joins
    both ends of the cell. In the first and the last cell, where rates reach 0 or 1, it continues from the inner end as
    for classes of equal width. The ratio of the classes then changes gradually, without a kink at each edge.
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
    """The rates at the points for a curve that is straight inside every cell."""
    rates = (
        rate[points.cell] + points.fraction * (rate[points.cell + 1] - rate[points.cell])
        for rate in (curve.fpr, curve.tpr)
    )
    fpr, tpr = (np.concatenate([[0.0], rate]) for rate in rates)
    return fpr, tpr


def area(fpr: FloatArray, tpr: FloatArray) -> float:
    """The area under the curve, by trapezoids, so that ties count half."""
    return float(np.trapezoid(tpr, fpr))


def areas_of_cells(fpr: FloatArray, tpr: FloatArray, points: CurvePoints) -> FloatArray:
    """The part of ``area`` below each cell, from the top, for rates at ``points``."""
    steps = np.diff(fpr) * (tpr[1:] + tpr[:-1]) / 2
    return np.bincount(points.cell, weights=steps).astype(np.float64)


def _inside_cells(curve: Edges, straight: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Rates at ``INNER`` places of each cell, with its ends, in rising order."""
    part = np.linspace(0.0, 1.0, INNER)
    rates = np.stack([curve.fpr, curve.tpr])
    low, high = rates[:, :-1, None], rates[:, 1:, None]
    deviates = ndtri(np.clip(rates, NEAREST, 1.0 - NEAREST))
    start, end = deviates[:, :-1, None], deviates[:, 1:, None]
    course = start + part * (end - start)
    # at an end of the curve, a cell continues from its other edge as for classes of equal width
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
    """``count`` items distributed in near-proportion to ``weights``, within ``room``; deterministic."""
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
