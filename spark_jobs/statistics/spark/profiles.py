"""``ProfileCounts`` in Spark: the cell of a row."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark_jobs.contract.options.profile import ProfileCells, ProfileColumn
from spark_jobs.statistics.spark.aggregates import group_of


def profile_key(values: Sequence[tuple[Column, Column]], design: ProfileCells) -> Column:
    """The cell of a row, a bigint; no row is without one. Row-wise and total.

    Args:
        values: for each column, its value as ``group_of`` takes it, and whether a text is no value of its type. Both
            are used several times, so pass columns of a ``select``.
        design: the columns and their cells.
    """
    cell = sf.lit(0).cast("bigint")
    for (value, unparsed), column, labels in zip(values, design.columns, design.keys, strict=True):
        own = _alone(value, unparsed, column, design) if len(values) == 1 else _of_pair(value, column, design)
        cell = cell * len(labels) + own
    return cell


def _of_pair(value: Column, column: ProfileColumn, design: ProfileCells) -> Column:
    dimension = column.dimension(design.bins)
    return sf.coalesce(group_of(value, dimension), sf.lit(len(dimension.labels)).cast("bigint"))


def _alone(value: Column, unparsed: Column, column: ProfileColumn, design: ProfileCells) -> Column:
    dimension = column.dimension(design.bins)
    place = {label: len(dimension.labels) + number for number, label in enumerate(column.outside)}
    missing = value.isNull()
    if dimension.edges is not None:
        missing = missing | sf.isnan(value)
    rest = sf.when(unparsed, place["unparsed"]).when(missing, place["missing"])
    if dimension.edges is not None:
        rest = rest.when(value < dimension.edges[0], place["below"]).otherwise(place["above"])
    else:
        rest = rest.otherwise(place["other"])
    return sf.coalesce(group_of(value, dimension), rest.cast("bigint"))
