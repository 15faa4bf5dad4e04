"""Public orders of a grid's cells on a line, in which neighbours on the line are neighbours on the grid."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Order = NDArray[np.intp]


@lru_cache(maxsize=16)
def line_order(shape: tuple[int, ...]) -> Order:
    """Flat indices of a grid's cells in the order of a public curve through all of them.

    The curve is the Hilbert curve of the smallest square of side 2^k that contains the grid, without the cells outside
    the grid. If that square has more than eight times as many cells as the grid, the curve is a serpentine instead: row
    by row, every other row reversed. A line keeps its order. The curve depends only on the shape.

    Args:
        shape: (cells,) or (rows, columns).
    """
    if len(shape) == 1:
        order = np.arange(shape[0], dtype=np.intp)
    else:
        rows, columns = shape
        side = 1 << (max(rows, columns) - 1).bit_length()
        order = _serpentine(rows, columns) if side * side > 8 * rows * columns else _hilbert(rows, columns, side)
    order.flags.writeable = False
    return order


def _serpentine(rows: int, columns: int) -> Order:
    cells = np.arange(rows * columns, dtype=np.intp).reshape(rows, columns)
    cells[1::2] = cells[1::2, ::-1]
    return cells.reshape(-1)


def _hilbert(rows: int, columns: int, side: int) -> Order:
    y, x = (axis.reshape(-1) for axis in np.indices((rows, columns)))
    place = np.zeros(rows * columns, dtype=np.int64)
    half = side // 2
    while half:
        right, lower = (x & half) > 0, (y & half) > 0
        place += half * half * ((3 * right) ^ lower)
        # turn the quadrant so that its curve starts where the previous one ended
        flip = right & ~lower
        x, y = np.where(flip, half - 1 - (x & (half - 1)), x), np.where(flip, half - 1 - (y & (half - 1)), y)
        x, y = np.where(lower, x, y) & (half - 1), np.where(lower, y, x) & (half - 1)
        half //= 2
    return np.argsort(place, kind="stable").astype(np.intp)
