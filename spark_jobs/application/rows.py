"""The columns of a row for each statistic, and their one column each while the rows of units are chosen."""

from __future__ import annotations

import os
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from spark_jobs.application.points import point_grid
from spark_jobs.application.sum_statistics import ROW_SUMMATIONS
from spark_jobs.contract.left_out import CAUSE
from spark_jobs.contract.options import AggregateCells, DiscoverableCells, PointCells, PointSums, Statistic
from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from spark_jobs.tables.contribution import GroupsOfRows

KEY, OWNER, ROW = "key", "unit", "row"
"""What names of keys begin with; and the columns of a row's unit and of what distinguishes it from others of the unit,
before rows are chosen."""


def key_names(request: ReleaseRequest) -> list[str]:
    """The names of the key columns of ``prepare``, one for each statistic of the request."""
    return [f"{KEY}_{i}" for i in range(len(request.statistics))]


def columns_of(statistic: Statistic, key: str) -> list[str]:
    """The columns of a statistic: its key, and then the numbers beside it."""
    summation = ROW_SUMMATIONS.get(type(statistic))
    width = 1 if summation is None else summation.width(statistic)
    return [key, *(f"{key}_{number}" for number in range(1, width))]


def carried(request: ReleaseRequest) -> list[Column]:
    """One column of each statistic; null for a row without a point, unless the number of rows is public."""
    from pyspark.sql import functions as sf

    from spark_jobs.statistics.spark.aggregates import vector_of

    columns = []
    for statistic, name in zip(request.statistics, key_names(request), strict=True):
        names = columns_of(statistic, name)
        key = sf.col(name) if len(names) == 1 else vector_of([sf.col(one) for one in names])
        if isinstance(statistic, (PointCells, PointSums)) and not request.sizes_are_public(statistic):
            key = sf.when(~_without_point(statistic, key), key)
        columns.append(key.alias(name))
    return columns


def _apart(request: ReleaseRequest) -> list[Column]:
    """All columns of each statistic, from those of ``carried``."""
    from pyspark.sql import functions as sf

    columns = []
    for statistic, key in zip(request.statistics, key_names(request), strict=True):
        names = columns_of(statistic, key)
        parts = [sf.col(key)] if len(names) == 1 else [sf.get(key, sf.lit(place)) for place in range(len(names))]
        columns += [part.alias(name) for part, name in zip(parts, names, strict=True)]
    return columns


def within_units(rows: DataFrame, request: ReleaseRequest, *, row_id: str | None, by_sorting: bool) -> DataFrame:
    """The rows that the unit may have, with the first rows of units marked where units are counted.

    Args:
        rows: with the columns of ``carried`` and of units, and ``CAUSE``.
        request: the request.
        row_id: the column that distinguishes the rows of a unit.
        by_sorting: see ``bound_contributions``.
    """
    from pyspark.sql import functions as sf

    from spark_jobs.contract.salt import read_salt
    from spark_jobs.statistics.spark.aggregates import with_units
    from spark_jobs.tables.contribution import UNIT, bound_contributions

    keys, salt = key_names(request), read_salt(os.environ)
    used = request.unit.max_rows if request.group_bound is not None else request.rows_of_unit
    bounded = request.unit.model_copy(update={"column": OWNER, "max_rows": used})
    # a row that does not count must not take the place of one that does
    of_several = zip(keys, request.statistics, strict=True) if request.rows_of_unit > 1 else ()
    counting = {key: one for key, one in of_several if isinstance(one, AggregateCells) and one.of_units is not None}
    groups = _groups(request)
    of_keys = groups is not None and groups.later is not None  # one row of a unit is left in each key
    kept = bound_contributions(
        rows, unit=bounded, keys=[*keys, CAUSE], salt=salt, spare=_spare(request), row_id=row_id, cause=CAUSE,
        with_unit=request.rows_of_unit > 1 and not of_keys, groups=groups, by_sorting=by_sorting,
    )  # fmt: skip
    for key, statistic in counting.items():
        kept = with_units(kept, key, UNIT, statistic)
    return kept.select(*_apart(request), *(sf.col(name) for name in kept.columns if name not in keys))


def _groups(request: ReleaseRequest) -> GroupsOfRows | None:
    """The limit of a unit's groups, which are the cells or keys of the only statistic of a request that has one."""
    from pyspark.sql import functions as sf

    from spark_jobs.statistics.spark.aggregates import cell_of
    from spark_jobs.statistics.spark.discovered_keys import key_of, lacks_values
    from spark_jobs.tables.contribution import GroupsOfRows

    if request.group_bound is None:
        return None
    row = sf.col(*key_names(request))
    if isinstance(request.statistics[0], DiscoverableCells):
        return GroupsOfRows(key_of(row), request.group_bound, lacks_values(row))
    return GroupsOfRows(cell_of(row), request.group_bound)


def _spare(request: ReleaseRequest) -> Column:
    """Whether a row counts in no statistic, except as a row without a point."""
    from pyspark.sql import functions as sf

    nothing = (
        sf.col(name).isNull() | _without_point(statistic, sf.col(name))
        if isinstance(statistic, (PointCells, PointSums))
        else sf.col(name).isNull()
        for statistic, name in zip(request.statistics, key_names(request), strict=True)
    )
    return reduce(and_, nothing)


def _without_point(statistic: PointCells | PointSums, key: Column) -> Column:
    stride: int = point_grid(statistic).stride
    return key % stride == stride - 1


def totals_of_units(rows: DataFrame, request: ReleaseRequest, inputs: list[str]) -> DataFrame:
    """The rows with one for each unit and cell, or for each unit, of the only statistic, which is about totals."""
    from pyspark.sql import functions as sf

    from spark_jobs.application.causes import PASSES
    from spark_jobs.statistics.spark.aggregates import unit_totals
    from spark_jobs.statistics.spark.unit_rows import unit_rows

    (statistic,) = request.statistics
    counts = sf.col(PASSES) & sf.col(OWNER).isNotNull()
    match statistic:
        case UnitRowCells():
            return unit_rows(rows, inputs, OWNER, counts, statistic)
        case AggregateCells():
            return unit_totals(rows, inputs, OWNER, counts, statistic)
    raise TypeError(f"no totals of units for {type(statistic).__name__}")
