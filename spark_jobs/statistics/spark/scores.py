"""``ScoreCounts`` in Spark: the key of a row's cell, and the pass that counts keys."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.contract.options.base import SCORE_CELLS
from spark_jobs.statistics.grid import require_cells
from spark_jobs.statistics.spark.cells import KeyCounts, count_keys
from spark_jobs.statistics.spark.columns import numeric_column

_LABEL, _SCORE, _KEY = "label", "score", "key"


def score_key(label: Column, score: Column, cells: int = SCORE_CELLS) -> Column:
    """The packed key ``label * cells + cell`` of a row, an int; null for a row that is dropped.

    Row-wise and total: no value of any numeric or boolean type makes it raise, whether the session is in ANSI mode or
    not. Both arguments are used several times, so pass columns of a ``select`` rather than long expressions.

    Raises:
        InvalidRequest: ``cells`` is not a power of two from 2 to 2^20.
    """
    cells = require_cells(cells)
    label, score = label.try_cast("double"), score.try_cast("double")
    # As branch-free as SQL allows, because it runs once per row: only 0 and 1 (and plus infinity, and NaN, which in
    # Spark
    # equals itself and is above all numbers) are their own squares. Casts apply only to values that fit an int.
    known = (label * label == label) & (label <= 1)
    cell = (
        sf.when((score >= 0) & (score < 1), (score * float(cells)).cast("int"))
        .when(score < 0, 0)
        .when((score >= 1) & ~sf.isnan(score), cells - 1)
    )
    return sf.when(known, (label * float(cells)).cast("int").bitwiseOR(cell))


def count_scores(df: DataFrame, *, label: str | Column, score: str | Column, cells: int) -> KeyCounts:
    """The keys of ``score_key`` that occur among the rows of ``df``, and the number of rows of each key."""
    require_cells(cells)
    columns = {_LABEL: numeric_column(df, label, _LABEL), _SCORE: numeric_column(df, score, _SCORE)}
    rows = df.select(*(column.alias(name) for name, column in columns.items()))
    rows = rows.select(score_key(sf.col(_LABEL), sf.col(_SCORE), cells).alias(_KEY))
    return count_keys(rows, _KEY, distinct=2 * cells)
