"""``ValueCounts`` in Spark: the cell of a row's value, and the pass that counts cells."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.score_grid import REFINED
from spark_jobs.statistics.spark.both_ends import both_ends_cell
from spark_jobs.statistics.spark.cells import KeyCounts, count_keys
from spark_jobs.statistics.spark.columns import numeric_column
from spark_jobs.statistics.value_grid import LINEAR, SCORE, ValueGrid

_VALUE, _KEY = "value", "key"


def value_key(value: Column, grid: ValueGrid) -> Column:
    """The cell of a row's value, an int from 0 to ``grid.size - 1``; null for a row that is dropped.

    Row-wise and total: no value of any numeric or boolean type makes it raise, whether the session is in ANSI mode or
    not. The argument is used several times, so pass a column of a ``select`` rather than a long expression.
    """
    value = value.try_cast("double")
    if grid.scale == SCORE:
        return both_ends_cell((value - grid.lower) / (grid.upper - grid.lower), REFINED)
    inside = (value > grid.lower) & (value < grid.upper)
    if grid.step is not None:
        place = sf.floor(sf.floor((value - grid.lower) / grid.step + 0.5) / float(grid.values_in_cell))
    else:
        place = sf.floor(_linear(value, grid) if grid.scale == LINEAR else _logarithmic(value, grid))
    cell = sf.least(sf.greatest(place, sf.lit(0)), sf.lit(grid.size - 1)).cast("int")
    first, last = (int(cell) for cell in grid.cell([grid.lower, grid.upper]))
    # in Spark NaN equals itself and is above all numbers
    return sf.when(inside, cell).when(value <= grid.lower, first).when((value >= grid.upper) & ~sf.isnan(value), last)


def _linear(value: Column, grid: ValueGrid) -> Column:
    return (value - grid.lower) / (grid.upper - grid.lower) * float(grid.cells)


def _logarithmic(value: Column, grid: ValueGrid) -> Column:
    """``ValueGrid.position``, operation by operation.

    The doubling of a size is first estimated by a logarithm, which may be off by one near a power of two, and then
    corrected by comparison with exact powers. In Java, powers of two with whole exponents are exact, and so is division
    by them.
    """
    size = sf.abs(value) / float(grid.unit or 1.0)
    guess = sf.floor(sf.log2(sf.greatest(size, sf.lit(1.0)))).cast("double")
    power = sf.pow(sf.lit(2.0), guess)
    doubling = guess + sf.when(size >= power * 2.0, 1.0).when(size < power, -1.0).otherwise(0.0)
    within = (size / sf.pow(sf.lit(2.0), doubling) - 1.0) * float(grid.steps)
    large = (doubling * float(grid.steps) + within) + 1.0
    signed = sf.when(size < 1.0, size).otherwise(large) * sf.when(value < 0, -1.0).otherwise(1.0)
    return signed - grid.origin


def count_values(df: DataFrame, *, value: str | Column, grid: ValueGrid, weight: str | None = None) -> KeyCounts:
    """The cells that occur among the rows of ``df``, and the number of rows in each cell.

    Args:
        df: the rows.
        value: a column, or its name.
        grid: the cells.
        weight: a bigint column that says how many rows a row stands for; None if it stands for itself.
    """
    weights = [] if weight is None else [sf.col(weight)]
    rows = df.select(numeric_column(df, value, _VALUE).alias(_VALUE), *weights)
    keys = rows.select(value_key(sf.col(_VALUE), grid).alias(_KEY), *weights)
    return count_keys(keys, _KEY, distinct=grid.size, weight=weight)
