"""Public grids, whose cells are fixed independently of the data."""

from __future__ import annotations

import numpy as np

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import SCORE_CELLS

MIN_CELLS = 2
MAX_CELLS = 2**20
"""2^20 cells of two labels take 16 MiB of counts on the driver, and at most two million groups in Spark."""
MAX_VALUE_CELLS = 2**21
"""2^21 cells of values, which have no labels, take 16 MiB and at most two million groups, too."""


def require_cells(cells: object, upto: int = MAX_CELLS) -> int:
    """``cells`` as an int, if it is a power of two from 2 to ``upto``, by default 2^20.

    Scaling a float by a power of two is exact, so that rounding never moves a value to another cell.

    Raises:
        InvalidRequest: ``cells`` is not such a power of two.
    """
    if isinstance(cells, (int, np.integer)) and not isinstance(cells, bool):
        number = int(cells)
        if MIN_CELLS <= number <= upto and number.bit_count() == 1:
            return number
    raise InvalidRequest(
        "cells", cells, f"must be a power of two from {MIN_CELLS} to {upto}",
        "use the default unless memory is short",
    )  # fmt: skip


def require_score_cells(cells: object) -> int:
    """``cells`` as an int, if it is the number of cells of the refined grid of scores, or a power of two.

    Raises:
        InvalidRequest: it is neither.
    """
    return SCORE_CELLS if cells == SCORE_CELLS else require_cells(cells)
