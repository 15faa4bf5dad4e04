"""The pass that sums, over units, squared influences on figures, once the influence of each cell is released."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spark_jobs.application.rows import key_names
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.grids import PAIR_CELLS
from spark_jobs.contract.options import PairedScoreCells, Statistic
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.statistics.unit_squares import OfCells

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UnitSquares = Callable[[Statistic, OfCells], Int64Array]
"""A statistic and whole weights of its cells -> ``statistics.unit_squares``; private."""


def squares_of_units(rows: DataFrame, request: ReleaseRequest) -> UnitSquares:
    """A function that sums the squares of units over the counted rows, in a pass of its own, from weights of cells."""
    from pyspark.sql import functions as sf

    from spark_jobs.statistics.spark.unit_squares import sum_of_squares
    from spark_jobs.tables.contribution import UNIT

    named = dict(zip(request.statistics, key_names(request), strict=True))

    def squares(statistic: Statistic, weights: OfCells) -> Int64Array:
        failpoint("before_pass")
        cells = cells_of_rows(statistic, sf.col(named[statistic]))
        sums = sum_of_squares(rows, UNIT, cells, weights, max_rows=request.unit.max_rows)
        failpoint("after_pass")
        return sums

    return squares


def cells_of_rows(statistic: Statistic, key: Any) -> tuple[Any, ...]:
    """The cells that determine a row's influence, from its key: a column or an array of whole numbers.

    A row with two scores has one cell for each: label and first score, and then label and second score.
    """
    if not isinstance(statistic, PairedScoreCells):
        return (key,)
    second = key - key % (PAIR_CELLS * PAIR_CELLS)
    first = (key - key % PAIR_CELLS) / PAIR_CELLS
    return first, 2 * PAIR_CELLS + second / PAIR_CELLS + key % PAIR_CELLS
