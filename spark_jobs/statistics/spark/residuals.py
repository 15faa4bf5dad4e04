"""``ResidualCounts`` in Spark: the key of a row's cell, and the pass that counts keys."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.statistics.residual_grid import AXIS, DOUBLINGS, RESIDUAL_KEYS, SIDE, STEPS, require_unit
from spark_jobs.statistics.spark.cells import KeyCounts, count_keys
from spark_jobs.statistics.spark.columns import numeric_column

_FITTED, _RESIDUAL, _KEY = "fitted", "residual", "key"


def residual_key(fitted: Column, residual: Column, unit: float = 1.0) -> Column:
    """The packed key ``fitted cell * AXIS + residual cell`` of a row, an int; null for a row that is not counted.

    Row-wise and total: no value of any numeric or boolean type makes it raise, whether the session is in ANSI mode or
    not. Both arguments are used several times, so pass columns of a ``select`` rather than long expressions.

    Raises:
        InvalidRequest: the unit is not a number between 2^-1000 and 2^1000.
    """
    unit = require_unit(unit)
    fitted, residual = fitted.try_cast("double"), residual.try_cast("double")
    # a null makes the comparison null, so that the row is not counted either
    known = ~(sf.isnan(fitted) | sf.isnan(residual)) & fitted.isNotNull() & residual.isNotNull()
    return sf.when(known, _axis_cell(fitted, unit) * AXIS + _axis_cell(residual, unit))


def _axis_cell(value: Column, unit: float) -> Column:
    """``residual_grid.axis_cells``, operation by operation.

    The doubling of a size is first estimated by a logarithm, which may be off by one near a power of two, and then
    corrected by comparison with exact powers. Casts apply only to values in range.
    """
    size = sf.least(sf.abs(value) / sf.lit(unit), sf.lit(2.0**DOUBLINGS))
    twice = sf.greatest(size * 2.0, sf.lit(1.0))
    guess = sf.least(sf.floor(sf.log2(twice)).cast("int"), sf.lit(DOUBLINGS + 1))
    power = sf.call_function("shiftleft", sf.lit(1).cast("bigint"), guess).cast("double")
    within = (
        sf.when(twice >= power * 2.0, twice / (power * 2.0))
        .when(twice < power, twice / (power * 0.5))
        .otherwise(twice / power)
    )
    doubling = guess + sf.when(twice >= power * 2.0, 1).when(twice < power, -1).otherwise(0)
    large = (doubling + 1) * STEPS + sf.ceil((within - 1.0) * float(STEPS)).cast("int") - 1
    small = sf.greatest(sf.ceil(sf.least(size, sf.lit(1.0)) * float(2 * STEPS)).cast("int") - 1, sf.lit(0))
    side = sf.when(size <= 0.5, small).otherwise(large)
    return sf.when(value < 0, SIDE - 1 - side).otherwise(side + SIDE)


def count_residuals(df: DataFrame, *, fitted: str | Column, residual: str | Column, unit: float) -> KeyCounts:
    """The keys of ``residual_key`` that occur among the rows of ``df``, and the number of rows of each key."""
    unit = require_unit(unit)
    columns = {_FITTED: numeric_column(df, fitted, _FITTED), _RESIDUAL: numeric_column(df, residual, _RESIDUAL)}
    rows = df.select(*(column.alias(name) for name, column in columns.items()))
    key = residual_key(sf.col(_FITTED), sf.col(_RESIDUAL), unit)
    return count_keys(rows.select(key.alias(_KEY)), _KEY, distinct=RESIDUAL_KEYS)
