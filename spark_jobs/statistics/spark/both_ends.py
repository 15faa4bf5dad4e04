"""The cell of a score on a grid that is finer towards both ends, in Spark: as ``score_grid.BothEnds``.

Scaling by a power of two and ``1 - score`` are exact here, and no logarithm is computed: Java and numpy agree.
"""

from __future__ import annotations

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
    low = _side(sf.floor(score * scale), grid)
    high = _side(sf.ceil((sf.lit(1.0) - score) * scale) - 1, grid)
    inner = sf.floor(score * float(grid.middle)).cast("int") + (grid.side - (grid.middle >> grid.tail_bits))
    # in Spark NaN is above all numbers
    return (
        sf.when(score <= 0, 0)
        .when(score < reach, low)
        .when(score < 1.0 - reach, inner)
        .when(score < 1.0, sf.lit(last) - high)
        .when((score >= 1.0) & ~sf.isnan(score), last)
    )


def _side(number: Column, grid: BothEnds) -> Column:
    """The cell of a distance, counted from its end.

    Args:
        number: the distance times ``2^scale_bits``, rounded towards the inside of its cell, a bigint.
        grid: the grid.
    """
    steps = 1 << grid.step_bits
    # the number of bits tells the doubling; comparisons with each power of two would make a loop too long for Java
    doublings = sf.length(sf.bin(number)) - (grid.step_bits + 1)
    cell = doublings * steps + sf.call_function("shiftright", number, doublings) + (1 - steps)
    return sf.when(number >= steps, cell).otherwise(0).cast("int")
