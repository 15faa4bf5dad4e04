"""The cell of a score on a grid that is finer towards both ends, in Spark: as ``score_grid.BothEnds``.

Scaling by a power of two and ``1 - score`` are exact here, and no logarithm is computed: Java and numpy agree.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark_jobs.score_grid import BothEnds


def both_ends_cell(score: Column, grid: BothEnds) -> Column:
    """The cell of a score, an int; null if the score is null or NaN.

    Row-wise and total, for a column of doubles, which is used many times. A score outside [0, 1] counts at the nearer
    end.
    """
    reach, scale = 2.0**-grid.tail_bits, 2.0**grid.scale_bits
    last = grid.cells - 1
    from_one = sf.lit(1.0) - score
    low = _side(sf.floor(score * scale), grid, reached=lambda bound: score >= bound)
    high = _side(sf.ceil(from_one * scale) - 1, grid, reached=lambda bound: from_one > bound)
    inner = sf.floor(score * float(grid.middle)).cast("int") + (grid.side - (grid.middle >> grid.tail_bits))
    # in Spark NaN is above all numbers
    return (
        sf.when(score <= 0, 0)
        .when(score < reach, low)
        .when(score < 1.0 - reach, inner)
        .when(score < 1.0, sf.lit(last) - high)
        .when((score >= 1.0) & ~sf.isnan(score), last)
    )


def _side(number: Column, grid: BothEnds, *, reached: Callable[[float], Column]) -> Column:
    """The cell of a distance, counted from its end.

    Args:
        number: the distance times ``2^scale_bits``, rounded towards the inside of its cell.
        grid: the grid.
        reached: whether the number is at least this number over ``2^scale_bits``.
    """
    steps, first = 1 << grid.step_bits, grid.step_bits + 1
    doublings = sf.lit(0)
    for bit in range(first, grid.scale_bits - grid.tail_bits + 1):
        doublings = doublings + reached(2.0 ** (bit - grid.scale_bits)).cast("int")
    cell = doublings * steps + sf.call_function("shiftright", number.cast("bigint"), doublings) + (1 - steps)
    return sf.when(reached(steps * 2.0**-grid.scale_bits), cell).otherwise(0).cast("int")
