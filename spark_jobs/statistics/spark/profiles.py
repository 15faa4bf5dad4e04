"""``ProfileCounts`` in Spark: the cell of a row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark_jobs.contract.options.profile import ProfileCells, ProfileColumn
from spark_jobs.statistics.spark.aggregates import group_of
from spark_jobs.statistics.spark.columns import listed_place


def profile_key(values: Sequence[tuple[Column, Column]], design: ProfileCells) -> Column:
    """The cell of a row, a bigint and never null. Row-wise and total.

    Args:
        values: for each column of the design, its value, for periods in microseconds since 1970 in UTC, and whether the
            row has a text that is no value of the column's type. Both are used several times, so pass columns of a
            ``select``.
        design: the columns and their cells.
    """
    cell = sf.lit(0).cast("bigint")
    for (value, unparsed), column, labels in zip(values, design.columns, design.keys, strict=True):
        own = _alone(value, unparsed, column, design) if len(values) == 1 else _of_pair(value, column, design)
        cell = cell * len(labels) + own
    return cell


def _of_pair(value: Column, column: ProfileColumn, design: ProfileCells) -> Column:
    return sf.coalesce(_listed(value, column, design.bins), sf.lit(len(column.labels(design.bins))).cast("bigint"))


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
    return sf.coalesce(_listed(value, column, design.bins), rest.cast("bigint"))


def _listed(value: Column, column: ProfileColumn, bins: int) -> Column:
    """The cell of a value; null for a row without one, or with another value."""
    dimension = column.dimension(bins)
    if dimension.places is not None:
        return group_of(listed_place(value, dimension.places), dimension)
    return group_of(value, dimension) if dimension.edges is None else _bin_of(value, column, dimension.edges)


def _bin_of(value: Column, column: ProfileColumn, edges: Sequence[float]) -> Column:
    """The bin of a number, as ``group_of`` has it: one is computed, and then corrected by comparison with the edges.

    Edges have equal distances, or equal ratios from the first above 0 on, so that what is computed is off by 1 at most.
    """
    last, first = len(edges) - 2, 0 if column.scale != "log" or edges[0] > 0 else 1
    if column.scale == "log" and column.step is None and edges[-1] > 0:
        ratio = math.log(edges[-1] / edges[first]) / (last + 1 - first)
        place = sf.floor(sf.log(sf.greatest(value, sf.lit(edges[first])) / edges[first]) / ratio) + first
        place = sf.when(value < edges[first], 0).otherwise(place)
    else:
        place = sf.floor((value - edges[0]) / (edges[1] - edges[0]))
    place = sf.least(sf.greatest(place, sf.lit(0)), sf.lit(last)).cast("int")
    known = sf.array(*map(sf.lit, edges))
    below = (value < sf.get(known, place)).cast("int")
    above = ((value >= sf.get(known, place + 1)) & (place < last)).cast("int")
    within = (value >= edges[0]) & (value <= edges[-1]) & ~sf.isnan(value)
    return sf.when(within, place - below + above).cast("bigint")
