"""Offsets of residuals from the middles of their cells: one noisy sum for each column of the box.

The counts of a box place a residual at the middle of its cell; where cells have many rows, this causes most of the
error of a mean. The statistic counts in finer cells. They give, for each column, the sum of residual less middle of its
cell, up to half a finer cell for each row. This sum is released with noise of its own.

Sensitivity: a finer cell is part of one cell of the box, so the middles of the two are at most half a cell of the box
apart, which is ``HALF_CELL`` steps. A row counts in one column at most, and rows beyond the box have offset 0. So if a
row is added or removed, the sums of all columns change by at most ``HALF_CELL`` in 1-norm; if a row is replaced, they
change by at most twice as much.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.diagnostics.residual_plot.box import Box
from spark_jobs.statistics import ResidualCounts
from spark_jobs.statistics.residual_grid import AXIS, cut_at, size_at

HALF_CELL = 4096
"""Half a cell of the box in steps of the sums."""
SHARE_TIMES_BINS, MAX_SHARE = Decimal("1.2"), Decimal("0.15")
"""The sums get ``SHARE_TIMES_BINS / bins`` of epsilon, at most ``MAX_SHARE``. With m bins, their noise at the share s
moves a mean as 1 / (m s), and that of the counts moves it as sqrt(m / 3) / (1 - s): means are best at about 1.44 / m. A
little less leaves more to all other figures."""


def share_of_offsets(bins: int) -> Decimal:
    """The share of epsilon for the sums of offsets; ``bins`` is public."""
    return min(MAX_SHARE, SHARE_TIMES_BINS / bins)


def sums_of_offsets(statistic: ResidualCounts, box: Box) -> Int64Array:
    """The exact sum of offsets of each column of the box, in steps, left to right; private; shape (bins,)."""
    cells, place = _finer_cells(box)
    lower, upper = box.residual[place], box.residual[place + 1]
    steps = np.zeros(AXIS, dtype=np.int64)
    steps[cells] = np.rint((size_at(cells) + size_at(cells + 1) - lower - upper) / (upper - lower) * HALF_CELL)
    rows = statistic.table(np.concatenate([[0], cut_at(box.fitted), [AXIS]]), np.arange(AXIS + 1))
    sums: Int64Array = rows[1:-1] @ steps
    return sums


def in_units(sums: FloatArray | Int64Array, box: Box) -> FloatArray:
    """Sums of offsets, given in steps, in units of the statistic."""
    return sums * _half_cell(box) / HALF_CELL


def hidden_in_cells(box: Box) -> FloatArray:
    """The largest error of a residual's offset in each cell, in units; shape (bins + 2,).

    It is half of the widest finer cell, and half a step. Rows beyond the box count at its edge, where the error is 0.
    """
    cells, place = _finer_cells(box)
    widest = np.zeros(box.bins)
    np.maximum.at(widest, place, (size_at(cells + 1) - size_at(cells)) / 2)
    return np.pad(widest + _half_cell(box) / (2 * HALF_CELL), 1)


def _finer_cells(box: Box) -> tuple[Int64Array, Int64Array]:
    """The statistic's cells of residuals within the box, and the cell of the box that each is part of."""
    cuts = cut_at(box.residual)
    cells = np.arange(cuts[0], cuts[-1])
    return cells, np.searchsorted(cuts, cells, side="right") - 1


def _half_cell(box: Box) -> float:
    return float(box.residual[1] - box.residual[0]) / 2
