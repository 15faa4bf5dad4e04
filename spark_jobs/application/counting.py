"""The Spark half: from a pinned table to exact statistics, in one pass. What it returns is private."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.statistics import ScoreCounts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LABEL, _SCORE, _UNIT, _KEY = "label", "score", "unit", "key"


def prepare(spark: SparkSession, request: ReleaseRequest) -> DataFrame:
    """A plan whose column ``key`` is each kept row's cell; nothing has run, so only the schema can be wrong.

    Raises:
        RequestRefused: the table, its schema, the filter or the model does not fit the request, or the request needs
            a salt and there is none.
    """
    from pyspark.sql import functions as sf

    from spark_jobs.checks.input import check_input
    from spark_jobs.statistics.spark.scores import score_key
    from spark_jobs.tables.contribution import bound_contributions, read_salt
    from spark_jobs.tables.expressions import filter_column, quoted
    from spark_jobs.tables.scoring import label_and_score, prepare_model
    from spark_jobs.tables.source import read_table

    table = read_table(spark, request.table)
    check_input(spark, table.schema, request)
    if request.where is not None:
        table = table.where(filter_column(request.where, table.schema))
    scored = prepare_model(table, request.model)
    label, score = label_and_score(scored, request)
    unit = [] if request.unit.column is None else [sf.col(quoted(request.unit.column)).alias(_UNIT)]
    rows = scored.select(label.alias(_LABEL), score.alias(_SCORE), *unit)
    rows = rows.select(score_key(sf.col(_LABEL), sf.col(_SCORE)).alias(_KEY), *(sf.col(_UNIT) for _ in unit))
    if not unit:
        return rows
    salt = read_salt(os.environ)
    bounded = request.unit.model_copy(update={"column": _UNIT})
    # a dropped row must not take the place of one that counts
    return bound_contributions(rows.where(sf.col(_KEY).isNotNull()), unit=bounded, keys=[_KEY], salt=salt)


def count(rows: DataFrame) -> ScoreCounts:
    """The exact counts of all diagnostics, in one pass over the rows."""
    from spark_jobs.statistics.spark.scores import counts_from_keys

    return counts_from_keys(rows, _KEY)
