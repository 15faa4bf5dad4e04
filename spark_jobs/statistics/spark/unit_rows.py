"""``UnitRowCounts`` in Spark: one row for each unit, with the number of its rows, and the cell of that number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add, and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.statistics.spark.aggregates import dimension_column, group_of, quoted_name
from spark_jobs.statistics.spark.cells import count_keys

_APART, _UNIT, _ROWS = "__dp_apart", "unit", "rows"


def has_groups(values: Sequence[Column], design: UnitRowCells) -> Column:
    """Whether a row has a group in each dimension; ``values`` are columns as for ``aggregates.group_of``."""
    groups = (group_of(value, one).isNotNull() for one, value in zip(design.by, values, strict=True))
    return reduce(and_, groups, sf.lit(True))


def unit_rows(rows: DataFrame, values: Sequence[str], unit: str, counts: Column, design: UnitRowCells) -> DataFrame:
    """One row for each unit, with the number of its rows that count; rows that do not count stay unchanged.

    The result for a unit depends on its own rows alone, so that tables which differ by one unit give the same rows for
    all others.

    Args:
        rows: a table with the columns named below; of other columns, the values of one of the unit's rows are kept.
        values: the names of the columns of each dimension, and last of a column of ones, which becomes the number of
            rows.
        unit: the name of the column of units.
        counts: whether a row counts, provided that it has a group in each dimension.
        design: the dimensions.
    """
    *dimensions, number = values
    counted = sf.coalesce(counts & has_groups([sf.col(name) for name in dimensions], design), sf.lit(False))
    apart = rows.withColumn(_APART, sf.when(~counted, sf.monotonically_increasing_id()))
    others = [sf.first(name).alias(name) for name in rows.columns if name not in (unit, number)]
    return apart.groupBy(unit, _APART).agg(*others, sf.sum(number).alias(number)).select(*rows.columns)


def cell_of_rows(rows: Column, design: UnitRowCells) -> Column:
    """The cell of a unit with this number of rows, an int."""
    return reduce(add, (sf.when(rows > candidate, 1).otherwise(0) for candidate in design.candidates))


def counts_of_table(df: DataFrame, unit: str, design: UnitRowCells) -> tuple[Int64Array, Int64Array]:
    """The cells that occur, and the number of units in each, over the rows of ``df``."""
    named = [f"value_{number}" for number in range(len(design.by))]
    columns = [dimension_column(df, one).alias(name) for one, name in zip(design.by, named, strict=True)]
    rows = df.select(quoted_name(unit).alias(_UNIT), *columns)
    known = rows[_UNIT].isNotNull()
    if rows.schema[_UNIT].dataType.simpleString() in ("float", "double"):
        known &= ~sf.isnan(_UNIT)
    rows = rows.where(known & has_groups([sf.col(name) for name in named], design))
    units = rows.groupBy(_UNIT).agg(sf.count(sf.lit(1)).alias(_ROWS))
    return count_keys(units, cell_of_rows(sf.col(_ROWS), design), distinct=design.cells)
