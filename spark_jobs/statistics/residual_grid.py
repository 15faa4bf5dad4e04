"""The cells of ``ResidualCounts``: an axis that refines every grid of a residual plot, and its cuts."""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import LARGEST, RESIDUAL_DOUBLINGS, RESIDUAL_KEYS, RESIDUAL_STEPS

DOUBLINGS = RESIDUAL_DOUBLINGS
"""The number of doublings: sizes are distinguished up to ``unit * 2^60``."""
STEPS = RESIDUAL_STEPS
"""The number of cells of one doubling."""
SIDE = STEPS * (DOUBLINGS + 2)
"""The number of cells on either side of 0: those of [0, unit / 2] and of 61 doublings."""
AXIS = 2 * SIDE
"""The number of cells of an axis. Packed keys ``fitted cell * AXIS + residual cell`` fit an int (``RESIDUAL_KEYS``)."""
MAX_BINS = 4 * STEPS
"""The largest number of equal cells of a grid that is a union of cells, for any bounds."""


def axis_cells(values: FloatArray, unit: float) -> Int64Array:
    """The cell of each number, 0 to ``AXIS - 1``; NaN is not allowed.

    All operations but the division by the unit are exact, and IEEE 754 fixes the rounding of the division.
    """
    with np.errstate(over="ignore", under="ignore"):
        size = np.minimum(np.abs(values) / unit, 2.0**DOUBLINGS)
    mantissa, exponent = np.frexp(np.maximum(size, 0.5))
    large = STEPS * (exponent + 1) + np.ceil(mantissa * (2 * STEPS) - STEPS) - 1
    side = np.where(size <= 0.5, np.maximum(np.ceil(size * (2 * STEPS)) - 1, 0), large).astype(np.int64)
    cells: Int64Array = np.where(values < 0, SIDE - 1 - side, SIDE + side)
    return cells


def require_unit(unit: object) -> float:
    """``unit`` as a float; raises InvalidRequest unless it is a number between 2^-1000 and 2^1000."""
    if isinstance(unit, (int, float, np.number)) and not isinstance(unit, bool) and 1 / LARGEST <= unit <= LARGEST:
        return float(unit)
    raise InvalidRequest(
        "unit", unit, "must be a number above 0, between 2^-1000 and 2^1000",
        "give the smallest size that matters, such as 1 for a test score or 1000 for a salary",
    )  # fmt: skip


def require_bins(bins: object) -> int:
    """``bins`` as an int; raises InvalidRequest unless it is a power of two from 1 to 256."""
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool):
        number = int(bins)
        if 1 <= number <= MAX_BINS and number.bit_count() == 1:
            return number
    raise InvalidRequest(
        "bins", bins, f"must be a power of two from 1 to {MAX_BINS}", "leave it out for an automatic choice"
    )


def require_doublings(doublings: object) -> int:
    """``doublings`` as an int; raises InvalidRequest unless it is a whole number from 0 to 60."""
    if isinstance(doublings, (int, np.integer)) and not isinstance(doublings, bool) and 0 <= doublings <= DOUBLINGS:
        return int(doublings)
    raise InvalidRequest("doublings", doublings, f"must be from 0 to {DOUBLINGS}", "choose another unit")


def side_cells(cells: Int64Array) -> Int64Array:
    """The indices of axis cells, counted outwards from 0 on their own side."""
    sides: Int64Array = np.where(cells < SIDE, SIDE - 1 - cells, cells - SIDE)
    return sides


def cut_at(values: FloatArray) -> Int64Array:
    """The cuts of the axis at these numbers, in units: the first axis cell above each of them.

    Exact for edges of cells: whole multiples of ``2^e / 128`` up to ``2^e`` in size, for e = 0, ..., 60.
    """
    cells = axis_cells(values, 1.0)
    cuts: Int64Array = np.where(values > 0, cells + 1, cells)
    return cuts


def size_at(cuts: Int64Array) -> FloatArray:
    """The numbers, in units, at the lower edges of these cells, 0 to ``AXIS``: the inverse of ``cut_at``."""
    side = np.abs(cuts - SIDE)
    large = np.ldexp((STEPS + side % STEPS) / STEPS, side // STEPS - 2)
    sizes: FloatArray = np.where(side < STEPS, side / (2 * STEPS), large) * np.where(cuts < SIDE, -1.0, 1.0)
    return sizes


def grid_cuts(k: int, m: int) -> Int64Array:
    """The cuts of ``m`` equal cells on ``[-2^k, 2^k]``, and the ends of the axis."""
    edges = np.ldexp(2.0 * np.arange(m + 1) / m - 1.0, k)
    return np.concatenate([[0], cut_at(edges), [AXIS]])


__all__ = [
    "AXIS",
    "DOUBLINGS",
    "MAX_BINS",
    "RESIDUAL_KEYS",
    "SIDE",
    "STEPS",
    "axis_cells",
    "cut_at",
    "grid_cuts",
    "require_bins",
    "require_doublings",
    "require_unit",
    "side_cells",
    "size_at",
]
