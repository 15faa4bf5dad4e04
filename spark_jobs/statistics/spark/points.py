"""``PointCounts`` and ``Moments`` in Spark: the key of a row's group and cell, and the passes over the table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics.point_grid import PointGrid
from spark_jobs.statistics.spark.cells import KeyCounts, count_keys, sums_by_key
from spark_jobs.statistics.spark.columns import key_column, listed_place, numeric_column

_X, _Y, _GROUP, _KEY = "x", "y", "group", "key"
_SUMS = ("n", "x", "y", "xx", "xy", "unusable")


def group_place(group: Column | None, grid: PointGrid) -> Column:
    """The index of a row's group in the grid's list, a bigint; null for a group that is not listed.

    Row-wise and total, for a column of texts or whole numbers.
    """
    if group is None:
        return sf.lit(0).cast("bigint")
    return listed_place(group, grid.places)


def point_key(x: Column, y: Column, group: Column | None, grid: PointGrid) -> Column:
    """The packed key of a row (``PointCounts.from_keys``), a bigint; null if its group is not listed.

    Row-wise and total: no value of any numeric or boolean type of x and y makes it raise, whether the session is in
    ANSI mode or not. x and y are used several times, so pass columns of a ``select`` rather than long expressions.

    Args:
        x: the first coordinate of the point, a numeric or boolean column.
        y: the second coordinate, likewise.
        group: a column of texts or whole numbers; None if the grid has no keys.
        grid: the box, its cells and the groups.
    """
    axes = ((x, grid.x), (y, grid.y))
    across, along = (nearest_place(at, axis.lower, axis.upper, axis.cells - 1) for at, axis in axes)
    cell = across.cast("bigint") * grid.cells + along
    return group_place(group, grid) * grid.stride + sf.coalesce(cell, sf.lit(grid.stride - 1))


def nearest_place(value: Column, lower: float, upper: float, steps: int) -> Column:
    """``point_grid.nearest_places``, operation by operation, an int; null for a row without a number."""
    value = value.try_cast("double")
    inside = (value > lower) & (value < upper)
    place = sf.floor((value - lower) / (upper - lower) * float(steps) + 0.5)
    place = sf.least(sf.greatest(place, sf.lit(0)), sf.lit(steps)).cast("int")
    # in Spark NaN equals itself and is above all numbers
    return sf.when(inside, place).when(value <= lower, 0).when((value >= upper) & ~sf.isnan(value), steps)


def count_points(
    df: DataFrame, *, x: str | Column, y: str | Column, group: str | Column | None, grid: PointGrid
) -> KeyCounts:
    """The keys of ``point_key`` that occur among the rows of ``df``, and the number of rows of each key."""
    return count_keys(_keys(df, x=x, y=y, group=group, grid=grid), _KEY, distinct=grid.size)


def sum_points(
    df: DataFrame, *, x: str | Column, y: str | Column, group: str | Column | None, grid: PointGrid
) -> dict[str, Int64Array]:
    """The sums of ``Moments``, by name, over the rows of ``df``: one entry for each group."""
    return sums_of_keys(_keys(df, x=x, y=y, group=group, grid=grid), _KEY, grid)


def sums_of_keys(df: DataFrame, key: str, grid: PointGrid) -> dict[str, Int64Array]:
    """The sums of ``Moments``, by name, over rows whose keys (``point_key``) are in a column; in one pass.

    Spark first aggregates within every partition. One row for each group is collected, for any number of cells.
    """
    rows = df.select(group_of(sf.col(key), grid).alias(_GROUP), (sf.col(key) % grid.stride).alias(_KEY))
    places, sums = sums_by_key(rows, _GROUP, distinct=grid.groups, aggregates=group_sums(sf.col(_KEY), grid))
    return by_group(places, sums, grid)


def group_of(key: Column, grid: PointGrid) -> Column:
    """The index of a row's group, from its packed key (``point_key``); a bigint."""
    # whole quotients below 2^53, which doubles represent exactly
    return ((key - key % grid.stride) / grid.stride).cast("bigint")


def group_sums(cell: Column, grid: PointGrid) -> list[Column]:
    """The aggregates that ``by_group`` reads, from a column of keys within groups (``point_key``); null is no row."""
    point = sf.when(cell < grid.stride - 1, cell)
    y = 2 * (point % grid.cells)
    x = 2 * ((point - point % grid.cells) / grid.cells).cast("bigint")
    return [sf.count(cell), sf.count(point), *(sf.sum(term) for term in (x, y, x * x, x * y))]


def by_group(places: Int64Array, sums: Sequence[Int64Array], grid: PointGrid) -> dict[str, Int64Array]:
    """The sums of ``Moments``, by name, from the results of ``group_sums`` for the groups at ``places``."""
    rows, n, *terms = sums
    of_groups = {name: np.zeros(grid.groups, dtype=np.int64) for name in _SUMS}
    for name, values in zip(_SUMS, (n, *terms, rows - n), strict=True):
        of_groups[name][places] = values
    return of_groups


def _keys(df: DataFrame, *, x: str | Column, y: str | Column, group: str | Column | None, grid: PointGrid) -> DataFrame:
    if group is None and grid.keys is not None:
        raise InvalidRequest("keys", None, "must be left out, because the rows have no groups", "leave it out")
    if group is not None and grid.keys is None:
        raise InvalidRequest(
            "keys", None, "must be given, because the rows have groups",
            "give the public list of groups, which is never derived from the rows",
        )  # fmt: skip
    columns = [numeric_column(df, x, _X).alias(_X), numeric_column(df, y, _Y).alias(_Y)]
    if group is not None:
        columns.append(key_column(df, group, _GROUP).alias(_GROUP))
    key = point_key(sf.col(_X), sf.col(_Y), None if group is None else sf.col(_GROUP), grid)
    return df.select(*columns).select(key.alias(_KEY))
