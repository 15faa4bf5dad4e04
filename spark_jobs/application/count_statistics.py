"""From a pinned table to exact statistics, with Spark. The statistics are private.

Counts of cells and sums over rows (``sum_statistics``) are added up in one pass. Rows are read again by fits, in a pass
for each set of released coefficients; by distribution functions, between released bounds; and for discovered keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from spark_jobs.application.aggregates import UnitRowCounter
from spark_jobs.application.points import PointInputs, point_grid
from spark_jobs.application.profiles import ProfileCounter
from spark_jobs.application.rows import OWNER, ROW, carried, columns_of, key_names, totals_of_units, within_units
from spark_jobs.application.score_counters import GROUPED_SCORES, PAIRED_SCORES, SCORES
from spark_jobs.application.sum_statistics import ROW_PASSES, ROW_SUMMATIONS, RowPasses, RowSummation
from spark_jobs.application.value_statistics import SEARCHED, Values
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.left_out import CAUSE, CAUSES, LEFT_OUT
from spark_jobs.contract.options import (
    GroupedScoreCells,
    PairedScoreCells,
    PointCells,
    ProfileCells,
    ResidualCells,
    ScoreCells,
    SearchedValueCells,
    Statistic,
    ValueCells,
)
from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.tables import ColumnsModel, TableSource
from spark_jobs.statistics import (
    PointCounts,
    ResidualCounts,
)
from spark_jobs.statistics.residual_grid import RESIDUAL_KEYS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_KEY = "key"
_MAX_INT = 2**31 - 1
Reader = Callable[["SparkSession", TableSource], "DataFrame"]
Counts = Mapping[Any, Any]
"""Exact statistics: the values, of types of ``spark_jobs.statistics``, by their declarations in the request; and, as
``LEFT_OUT``, the number of rows by the cause for which they do not count (``CAUSES``)."""


class CellCounter(Protocol):
    """Counts one type of statistic: the inputs of a row, the row's cell, and the statistic of all cells' counts."""

    def inputs(self, statistic: Any, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        """Columns that are read of the table with its scores; each is evaluated once per row."""
        ...

    def key(self, statistic: Any, *inputs: Column) -> Column:
        """The cell of a row: an int or bigint from 0 to ``size - 1``, or null for a row that does not count."""
        ...

    def size(self, statistic: Any) -> int:
        """The number of cells; empty cells take no memory."""
        ...

    def build(self, statistic: Any, keys: Int64Array, counts: Int64Array) -> Any:
        """The statistic with these cells and their counts; other cells have count 0."""
        ...


class _Residuals:
    def inputs(self, statistic: ResidualCells, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        from spark_jobs.contract.columns import amount_need
        from spark_jobs.tables.expressions import amount_column, one_nan
        from spark_jobs.tables.scoring import fitted_value

        fitted = fitted_value(scored, request.needed_model)
        return fitted, one_nan(amount_column(amount_need(statistic.outcome, "outcome"), scored.schema) - fitted)

    def key(self, statistic: ResidualCells, *inputs: Column) -> Column:
        from spark_jobs.statistics.spark.residuals import residual_key

        fitted, residual = inputs
        return residual_key(fitted, residual, statistic.unit)

    def size(self, statistic: ResidualCells) -> int:
        return RESIDUAL_KEYS

    def build(self, statistic: ResidualCells, keys: Int64Array, counts: Int64Array) -> ResidualCounts:
        return ResidualCounts.from_keys(keys, counts, unit=statistic.unit)


class _Points(PointInputs):
    def size(self, statistic: Any) -> int:
        return point_grid(statistic).size

    def build(self, statistic: Any, keys: Int64Array, counts: Int64Array) -> PointCounts:
        return PointCounts.from_keys(keys, counts, grid=point_grid(statistic))


CELL_COUNTERS: Mapping[type[Statistic], CellCounter] = {
    ScoreCells: SCORES,
    GroupedScoreCells: GROUPED_SCORES,
    PairedScoreCells: PAIRED_SCORES,
    ValueCells: Values(),
    SearchedValueCells: SEARCHED,
    ResidualCells: _Residuals(),
    PointCells: _Points(),
    ProfileCells: ProfileCounter(),
    UnitRowCells: UnitRowCounter(),
}
"""The counter of each type of statistic that is counted in cells."""


def _aggregation(statistic: Statistic) -> CellCounter | RowSummation | RowPasses:
    of_type = type(statistic)
    return CELL_COUNTERS.get(of_type) or ROW_SUMMATIONS.get(of_type) or ROW_PASSES[of_type]


def prepare(
    spark: SparkSession, request: ReleaseRequest, *, read: Reader | None = None, by_sorting: bool = False
) -> DataFrame:
    """A Spark plan with the columns ``key_i`` of each statistic i of the request (``columns_of``), and ``CAUSE``.

    The key of a row is its cell, or its vector for a statistic that is summed; null if the row does not count. A table
    of aggregates has the numbers that are summed in columns beside the cell. ``CAUSE`` says why a row counts in no
    statistic; rows that count in any statistic have none. No row is read yet, so errors depend on the schema alone,
    never on rows. ``read`` is the function that reads the table; by default ``tables.source.read_table``. For
    ``by_sorting`` see ``bound_contributions``.

    Raises:
        InvalidRequest: the table, its schema, the filter or the model does not fit the request, or the salt that the
            request needs is missing.
    """
    from pyspark.sql import functions as sf

    from spark_jobs.application.causes import PASSES, cause_of_row, filtered
    from spark_jobs.contract.column_checks import check_columns
    from spark_jobs.tables.expressions import filter_column, quoted
    from spark_jobs.tables.nested import with_fields
    from spark_jobs.tables.scoring import prepare_model
    from spark_jobs.tables.source import read_table
    from spark_jobs.tables.texts import UNPARSED

    table = read_table(spark, request.table, parsing=True) if read is None else read(spark, request.table)
    types = {field.name: field.dataType.simpleString() for field in table.schema.fields}
    check_columns(request, {name: of for name, of in types.items() if name != UNPARSED})
    table = with_fields(table)
    if request.block_filter is not None:
        table = table.where(filter_column(request.block_filter, table.schema))
    table = filtered(table, request)
    scored = prepare_model(table, request.needed_model) if request.uses_model else table
    inputs = {
        (i, j): column
        for i, statistic in enumerate(request.statistics)
        for j, column in enumerate(_aggregation(statistic).inputs(statistic, scored, request))
    }
    owners = {OWNER: request.unit.column, ROW: request.row_id}
    owned = {name: sf.col(quoted(column)).alias(name) for name, column in owners.items() if column is not None}
    why = {CAUSE: cause_of_row(request, scored.schema).alias(CAUSE), PASSES: sf.col(PASSES)}
    rows = scored.select(
        *(column.alias(f"input_{i}_{j}") for (i, j), column in inputs.items()), *owned.values(), *why.values()
    )
    if request.of_unit_totals:
        rows = totals_of_units(rows, request, [f"input_{i}_{j}" for i, j in inputs])
    keys, columns = key_names(request), []
    counts = sf.col(PASSES) if OWNER not in owned else sf.col(PASSES) & sf.col(OWNER).isNotNull()
    for i, (statistic, key) in enumerate(zip(request.statistics, keys, strict=True)):
        first, *others = _row(statistic, [sf.col(f"input_{i}_{j}") for k, j in inputs if k == i])
        row = (sf.when(counts, first), *others)
        columns += [column.alias(name) for column, name in zip(row, columns_of(statistic, key), strict=True)]
    rows = rows.select(*columns, *map(sf.col, (*owned, CAUSE)))
    if owned:
        rows = rows.select(*carried(request), *map(sf.col, (*owned, CAUSE)))
    nothing = reduce(and_, (sf.col(key).isNull() for key in keys))
    unowned = sf.col(OWNER).isNull() if OWNER in owned else sf.lit(False)
    rows = rows.withColumn(CAUSE, sf.when(unowned, CAUSES.index("no_unit")).when(nothing, sf.col(CAUSE)))
    if not owned:
        return rows
    return within_units(rows, request, row_id=ROW if ROW in owned else None, by_sorting=by_sorting)


def _row(statistic: Statistic, inputs: Sequence[Column]) -> list[Column]:
    """The columns of a row for a statistic (``columns_of``), from its inputs."""
    of_type = type(statistic)
    if of_type in ROW_SUMMATIONS:
        return ROW_SUMMATIONS[of_type].row(statistic, *inputs)
    return [(CELL_COUNTERS.get(of_type) or ROW_PASSES[of_type]).key(statistic, *inputs)]


def count(rows: DataFrame, request: ReleaseRequest) -> Counts:
    """The exact statistics of all diagnostics; ``rows`` is the plan that ``prepare`` returned."""
    named = dict(zip(request.statistics, key_names(request), strict=True))
    once = {statistic: name for statistic, name in named.items() if type(statistic) not in ROW_PASSES}
    later = {
        statistic: ROW_PASSES[type(statistic)].later(statistic, rows, name)
        for statistic, name in named.items()
        if statistic not in once
    }
    from spark_jobs.application.causes import causes_alone

    counted = dict(_count_once(rows, once) if once else {LEFT_OUT: causes_alone(rows)})
    for statistic, name in once.items():
        if isinstance(statistic, SearchedValueCells):
            counted[statistic] = SEARCHED.with_rows(counted[statistic], rows, name)
    if ScoreCells() in counted:
        counted[ScoreCells()] = replace(counted[ScoreCells()], steps=_steps_of_scores(request))
    return {**later, **counted}


def _steps_of_scores(request: ReleaseRequest) -> int | None:
    """The steps of the scale of the request's scores, if it has a step."""
    scale = request.model.scale if isinstance(request.model, ColumnsModel) else None
    return None if scale is None or scale.step is None else scale.steps


def _count_once(rows: DataFrame, named: Mapping[Statistic, str]) -> Counts:
    """The statistics that are counted in cells or summed, in one pass; ``named`` has the column of each one's keys.

    Each row is exploded into its lines, one for each cell and for each place of a sum; the cells and places of all
    statistics are numbered consecutively.
    """
    from pyspark.sql import functions as sf

    from spark_jobs.application.causes import by_cause
    from spark_jobs.statistics.spark.cells import sums_by_key
    from spark_jobs.tables.contribution import WEIGHT

    starts = np.concatenate([[0], np.cumsum([_summation(statistic).size(statistic) for statistic in named])])
    spans = dict(zip(named, zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True), strict=True))
    summed = {
        statistic: [sf.col(column) for column in columns_of(statistic, name)]
        for statistic, name in named.items()
        if type(statistic) in ROW_SUMMATIONS
    }
    total = int(starts[-1])
    weight = [sf.col(WEIGHT)] if WEIGHT in rows.columns else []
    beside = [*(column for row in summed.values() for column in row), *weight]
    lines = rows.select(_line_keys(named, spans).alias(_KEY), *beside)
    values, aggregates = [], {}
    for number, (statistic, row) in enumerate(summed.items()):
        start, end = spans[statistic]
        place = sf.when((sf.col(_KEY) >= start) & (sf.col(_KEY) < end), sf.col(_KEY) - start)
        line = ROW_SUMMATIONS[type(statistic)].line(statistic, row, place)
        names = [f"line_{number}_{part}" for part in range(len(line))]
        values += [column.alias(name) for column, name in zip(line, names, strict=True)]
        aggregates[statistic] = ROW_SUMMATIONS[type(statistic)].aggregates(statistic, row, [*map(sf.col, names)])
    cells = [sf.sum(WEIGHT) if weight else sf.count(sf.lit(1))]
    keys, sums = sums_by_key(
        lines.select(_KEY, *beside, *values),
        _KEY,
        distinct=total + len(CAUSES),
        aggregates=[*cells, *(column for columns in aggregates.values() for column in columns)],
    )
    of_causes = keys >= total
    statistics: dict[Any, Any] = {LEFT_OUT: by_cause(keys[of_causes] - total, sums[0][of_causes])}
    used = len(cells)
    for statistic, (start, end) in spans.items():
        own = (keys >= start) & (keys < end)
        if statistic in summed:
            of_statistic = [values[own] for values in sums[used : used + len(aggregates[statistic])]]
            used += len(of_statistic)
            build = ROW_SUMMATIONS[type(statistic)].build
            built = build(statistic, keys[own] - start, sums[0][own], of_statistic)
        else:
            built = CELL_COUNTERS[type(statistic)].build(statistic, keys[own] - start, sums[0][own])
        statistics[statistic] = built
    return statistics


def _line_keys(named: Mapping[Statistic, str], spans: Mapping[Statistic, tuple[int, int]]) -> Column:
    """The keys of a row's lines, exploded into a row each; the only key as it is."""
    from pyspark.sql import functions as sf

    places = {
        statistic: ROW_SUMMATIONS[type(statistic)].places(statistic, [*map(sf.col, columns_of(statistic, name))])
        if type(statistic) in ROW_SUMMATIONS
        else [SEARCHED.cell(statistic, sf.col(name)) if isinstance(statistic, SearchedValueCells) else sf.col(name)]
        for statistic, name in named.items()
    }
    (*_, (_, total)) = spans.values()
    type_name = "int" if total + len(CAUSES) <= _MAX_INT else "bigint"
    moved = [
        place.cast(type_name) + sf.lit(spans[statistic][0]).cast(type_name)
        for statistic, of_statistic in places.items()
        for place in of_statistic
    ]
    # a row with a cause has no other key
    moved[0] = sf.coalesce(moved[0], sf.col(CAUSE).cast(type_name) + sf.lit(total).cast(type_name))
    return sf.explode(sf.array(*moved)) if len(moved) > 1 else moved[0]


def _summation(statistic: Statistic) -> CellCounter | RowSummation:
    return CELL_COUNTERS.get(type(statistic)) or ROW_SUMMATIONS[type(statistic)]
