"""Sums over units of squared influences. They give the variance of a figure if units, instead of rows, are sampled.

A figure is a smooth function of the counts of cells. The *influence* of a row is the change of the figure by one more
row in its cell, times the number of rows; the influence of a unit is the sum of its rows' influences. Influences are
given as whole numbers of at most ``UNIT_STEPS``, scaled by the largest, so that sums do not depend on the order of
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import UNIT_STEPS


@dataclass(frozen=True, kw_only=True, eq=False)
class OfCells:
    """One number for each cell of a statistic, or for each figure and cell; stored once per run of equal cells.

    Attributes:
        starts: the first cell of each run, ascending from 0; shape (runs,).
        size: the number of cells.
        values: the numbers, with the runs along the last axis.
    """

    starts: Int64Array
    size: int
    values: Any

    @classmethod
    def of_all(cls, values: Any) -> OfCells:
        """The numbers that are given for every cell, with the cells along the last axis."""
        size = np.shape(values)[-1]
        return cls(starts=np.arange(size, dtype=np.int64), size=size, values=values)

    def at(self, cells: ArrayLike) -> Any:
        """The numbers of these cells, whose shape replaces the last axis; 0 for cells below 0."""
        places = np.asarray(cells, dtype=np.int64)
        run = np.searchsorted(self.starts, np.maximum(places, 0), side="right") - 1
        return np.where(places >= 0, self.values[..., run], 0)


def whole_weights(influences: Sequence[OfCells], largest: ArrayLike) -> OfCells:
    """The influences on each figure as whole numbers, rounded to nearest; values of shape (figures, runs).

    Args:
        influences: for each figure, the influence of a row by its cell; if a row has several cells of one statistic,
            the part of each.
        largest: for each figure, the influence that ``UNIT_STEPS`` stands for; 0 for a figure that no row changes.
    """
    starts = np.unique(np.concatenate([one.starts for one in influences]))
    size = np.asarray(largest, dtype=np.float64)
    scaled: FloatArray = np.stack([one.at(starts) for one in influences]) / np.where(size > 0, size, 1.0)[:, np.newaxis]
    return OfCells(starts=starts, size=influences[0].size, values=np.rint(scaled * UNIT_STEPS).astype(np.int64))


def unit_squares(units: ArrayLike, cells: ArrayLike, weights: OfCells, *, max_rows: int) -> Int64Array:
    """For each figure, the sum over units of ``(influence / (max_rows UNIT_STEPS))^2``; private.

    Sums are whole numbers, in units of ``1 / UNIT_STEPS``. A unit's square is rounded up and is at most ``UNIT_STEPS``,
    so that a unit that is added, removed or replaced changes each sum by at most ``UNIT_STEPS``: the vector of sums
    changes by a vector in ``[0, UNIT_STEPS]^figures`` or its negative, or by the difference of two such vectors.

    Args:
        units: the unit of each row; a unit has at most ``max_rows`` rows.
        cells: the cell of each row, or several cells along the last axis, whose weights add up; below 0 for none.
        weights: the result of ``whole_weights``.
        max_rows: the largest number of rows of a unit.
    """
    _, unit = np.unique(np.asarray(units), return_inverse=True)
    moved = weights.at(np.asarray(cells, dtype=np.int64).reshape(unit.size, -1)).sum(axis=-1)
    sums = np.stack([np.bincount(unit, weights=row, minlength=1) for row in moved])
    total: Int64Array = squared(sums, max_rows).sum(axis=1)
    return total


def squared(sums: Any, max_rows: int) -> Int64Array:
    """The squares of units' summed weights, as shares of the largest, in units of ``1 / UNIT_STEPS``, rounded up."""
    shares = np.asarray(sums, dtype=np.float64) / (max_rows * UNIT_STEPS)
    return np.minimum(np.ceil(shares * shares * UNIT_STEPS), UNIT_STEPS).astype(np.int64)
