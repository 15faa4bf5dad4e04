"""Sums over units of squared influences: how much a figure varies when units, not rows, are sampled.

A figure is a smooth function of the counts of cells. The *influence* of a row is how far the figure moves, times the
number of rows, when one row more is in its cell; the influence of a unit is the sum of its rows'. Influences are given
as whole numbers of at most ``UNIT_STEPS``, scaled by the largest, so that sums do not depend on the order of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import UNIT_STEPS


def whole_weights(influences: FloatArray, largest: ArrayLike) -> Int64Array:
    """Influences as whole numbers, rounded to nearest.

    Args:
        influences: of a row in each cell on each figure, or the parts of several cells; shape (figures, cells).
        largest: what ``UNIT_STEPS`` stands for, of each figure; 0 for a figure that no row moves.
    """
    size = np.asarray(largest, dtype=np.float64)
    scaled = influences / np.where(size > 0, size, 1.0)[:, np.newaxis]
    return np.rint(scaled * UNIT_STEPS).astype(np.int64)


def unit_squares(units: ArrayLike, cells: ArrayLike, weights: Int64Array, *, max_rows: int) -> Int64Array:
    """The sums over units of squared shares of the largest influence ``max_rows UNIT_STEPS``; private.

    They are whole numbers of 1 / ``UNIT_STEPS``. A unit's square is rounded up and is at most ``UNIT_STEPS``, so that a
    unit that is added, removed or replaced changes each sum by at most ``UNIT_STEPS``: all of them by a vector of
    ``[0, UNIT_STEPS]^figures``, or by the difference of two.

    Args:
        units: the unit of each row; a unit has at most ``max_rows`` rows.
        cells: the cell of each row, or several of each along the last axis, whose weights add up; below 0 for none.
        weights: of each cell, ``whole_weights``; shape (figures, cells).
        max_rows: the most rows of a unit.
    """
    _, unit = np.unique(np.asarray(units), return_inverse=True)
    places = np.asarray(cells, dtype=np.int64).reshape(unit.size, -1)
    moved = np.where(places >= 0, weights[:, places], 0).sum(axis=-1)
    sums = np.stack([np.bincount(unit, weights=row, minlength=1) for row in moved])
    total: Int64Array = squared(sums, max_rows).sum(axis=1)
    return total


def squared(sums: Any, max_rows: int) -> Int64Array:
    """The squares of units' whole sums of weights."""
    shares = np.asarray(sums, dtype=np.float64) / (max_rows * UNIT_STEPS)
    return np.minimum(np.ceil(shares * shares * UNIT_STEPS), UNIT_STEPS).astype(np.int64)
