"""Public grids, whose cells are fixed independently of the data."""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest

MIN_CELLS = 2
MAX_CELLS = 2**20
"""2^20 cells of two labels take 16 MiB of counts on the driver, and at most two million groups in Spark."""


def require_cells(cells: object) -> int:
    """``cells`` as an int, if it is a power of two from 2 to 2^20.

    Scaling a float by a power of two is exact, so that rounding never moves a value to another cell.

    Raises:
        InvalidRequest: ``cells`` is not a power of two from 2 to 2^20.
    """
    if isinstance(cells, (int, np.integer)) and not isinstance(cells, bool):
        number = int(cells)
        if MIN_CELLS <= number <= MAX_CELLS and number.bit_count() == 1:
            return number
    raise InvalidRequest(
        "cells",
        value=cells,
        requirement=f"must be a power of two from {MIN_CELLS} to {MAX_CELLS}",
        remedy="use the default 65536 unless memory is short",
    )


def unit_cells(values: FloatArray, cells: int) -> Int64Array:
    """The cell of [0, 1] that contains each value: ``[i/cells, (i+1)/cells)``, the last one closed.

    Values outside [0, 1], including infinite ones, count at the nearer end; NaN is not allowed.
    """
    scaled = np.clip(values, 0.0, 1.0) * cells
    return np.minimum(scaled.astype(np.int64), cells - 1)
