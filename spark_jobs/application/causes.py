"""Why a row counts in no statistic, as a column: the first of ``contract.left_out.CAUSES`` that fits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.columns import needs
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.expressions.tree import columns as columns_of
from spark_jobs.contract.left_out import CAUSE, CAUSES
from spark_jobs.contract.options import PointCells, PointSums
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.statistics.spark.cells import count_keys
from spark_jobs.tables.contribution import WEIGHT
from spark_jobs.tables.expressions import field_of, filter_column, quoted
from spark_jobs.tables.texts import UNPARSED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PASSES = "__dp_passes"
"""Whether the request's filter is true of a row; rows of which it is false are gone."""
_NULL_MEANS = ("unit.column", "row_id", "model.categorical", "diagnostics.categorical", "diagnostics.other.categorical")
"""Fields that name columns in which a null is a level like others, or which say whose row it is."""


def filtered(table: DataFrame, request: ReleaseRequest) -> DataFrame:
    """Rows for which the request's filter is true, plus, as rows that do not count, those for which it is unknown."""
    if request.where is None:
        return table.withColumn(PASSES, sf.lit(True))
    passes = filter_column(request.where, table.schema)
    unknown = [
        sf.col(quoted(field_of(need, table.schema).name)).isNull()
        for need in needs(request, table.columns)
        if need.field == "where" and need.name in columns_of(parse(request.where, what="where"))
    ]
    # the first condition is one that readers of columnar files can use
    rows = table.where(reduce(or_, unknown, passes)).where(passes.isNull() | passes)
    return rows.withColumn(PASSES, sf.coalesce(passes, sf.lit(False)))


def cause_of_row(request: ReleaseRequest, schema: StructType) -> Column:
    """The cause of a row that counts in no statistic although it has a unit."""
    nulls, texts = [], []
    texts_of = schema[UNPARSED].dataType if UNPARSED in schema.names else StructType()
    unparsed = texts_of.names if isinstance(texts_of, StructType) else ()
    for name in dict.fromkeys(_needed(request, schema)):
        column = sf.col(quoted(name))
        nulls.append(column.isNull())
        if schema[name].dataType.simpleString() in ("float", "double"):
            nulls.append(sf.isnan(column))
        if name in unparsed:
            texts.append(sf.coalesce(sf.col(UNPARSED).getField(name), sf.lit(False)))
    return (
        sf.when(reduce(or_, texts, sf.lit(False)), CAUSES.index("not_parsed"))
        .when(reduce(or_, nulls, sf.lit(False)), CAUSES.index("null"))
        .otherwise(CAUSES.index("outside"))
    )


def _needed(request: ReleaseRequest, schema: StructType) -> Iterator[str]:
    by_line = any(isinstance(statistic, (PointCells, PointSums)) for statistic in request.statistics)
    for need in needs(request, schema.names):
        if need.field not in _NULL_MEANS and (by_line or need.field != "diagnostics.group_by"):
            yield field_of(need, schema).name


def causes_alone(rows: DataFrame) -> Int64Array:
    """The number of rows of each cause, in a pass that counts nothing else."""
    weight = WEIGHT if WEIGHT in rows.columns else None
    return by_cause(*count_keys(rows, CAUSE, distinct=len(CAUSES), weight=weight))


def by_cause(keys: Int64Array, counts: Int64Array) -> Int64Array:
    """The counts of all causes, in order, from the counts of those that occur."""
    causes = np.zeros(len(CAUSES), dtype=np.int64)
    causes[keys] = counts
    return causes
