"""``ScoreCounts``, alone and by group, and ``PairedScoreCounts`` in Spark: the key of a row's cell, and the pass."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.contract.grids import PAIR_CELLS, SCORE_CELLS
from spark_jobs.score_grid import PAIRED, REFINED
from spark_jobs.statistics.grid import require_score_cells
from spark_jobs.statistics.spark.both_ends import both_ends_cell
from spark_jobs.statistics.spark.cells import KeyCounts, count_keys
from spark_jobs.statistics.spark.columns import key_column, listed_place, numeric_column

_LABEL, _SCORE, _GROUP, _FIRST, _SECOND, _KEY = "label", "score", "group", "first", "second", "key"


def score_key(label: Column, score: Column, cells: int = SCORE_CELLS) -> Column:
    """The packed key ``label * cells + cell`` of a row, an int; null for a row that is dropped.

    Row-wise and total: no value of any numeric or boolean type makes it raise, whether the session is in ANSI mode or
    not. Both arguments are used several times, so pass columns of a ``select`` rather than long expressions.

    Raises:
        InvalidRequest: ``cells`` is neither that of the refined grid nor a power of two from 2 to 2^20.
    """
    cells = require_score_cells(cells)
    known, whole = _outcome(label)
    return sf.when(known, whole * cells + _cell(score, cells))


def pair_key(label: Column, first: Column, second: Column) -> Column:
    """The packed key of a row in ``PairedScoreCounts``, an int; null for a row that is dropped. As ``score_key``."""
    one, other = (both_ends_cell(score.try_cast("double"), PAIRED) for score in (first, second))
    known, whole = _outcome(label)
    return sf.when(known, (whole * PAIR_CELLS + one) * PAIR_CELLS + other)


def grouped_score_key(label: Column, score: Column, group: Column, places: Mapping[str, int]) -> Column:
    """The packed key of a row in ``GroupedScoreCounts``, an int; null for a row that is dropped. As ``score_key``."""
    place = sf.coalesce(listed_place(group, places), sf.lit(len(places))).cast("int")
    return place * (2 * SCORE_CELLS) + score_key(label, score)


def _outcome(label: Column) -> tuple[Column, Column]:
    """Whether a label is 0 or 1, and the label as an int."""
    whole = label.try_cast("int")
    # In whole numbers, because this runs once per row: only 0 and 1 have no other bit than the last.
    return (whole.bitwiseAND(-2) == 0) & (whole == label.try_cast("double")), whole


def _cell(score: Column, cells: int) -> Column:
    """The cell of a score, an int; null if the score is null or NaN."""
    score = score.try_cast("double")
    if cells == SCORE_CELLS:
        return both_ends_cell(score, REFINED)
    # Cut to the ends as a whole number, which takes no branch; only what is too large for an int, or no number, needs
    # one.
    place = (score * float(cells)).try_cast("int")
    return (
        sf.when(place.isNotNull(), sf.greatest(sf.lit(0), sf.least(place, sf.lit(cells - 1))))
        .when(score < 0, 0)
        .when((score >= 1) & ~sf.isnan(score), cells - 1)
    )


def count_scores(df: DataFrame, *, label: str | Column, score: str | Column, cells: int) -> KeyCounts:
    """The keys of ``score_key`` that occur among the rows of ``df``, and the number of rows of each key."""
    require_score_cells(cells)
    columns = {_LABEL: numeric_column(df, label, _LABEL), _SCORE: numeric_column(df, score, _SCORE)}
    rows = df.select(*(column.alias(name) for name, column in columns.items()))
    rows = rows.select(score_key(sf.col(_LABEL), sf.col(_SCORE), cells).alias(_KEY))
    return count_keys(rows, _KEY, distinct=2 * cells)


def count_grouped_scores(
    df: DataFrame, *, label: str | Column, score: str | Column, group: str | Column, places: Mapping[str, int]
) -> KeyCounts:
    """The keys of ``grouped_score_key`` that occur among the rows of ``df``, and the number of rows of each key."""
    columns = {_LABEL: numeric_column(df, label, _LABEL), _SCORE: numeric_column(df, score, _SCORE)}
    columns[_GROUP] = key_column(df, group, _GROUP)
    rows = df.select(*(column.alias(name) for name, column in columns.items()))
    rows = rows.select(grouped_score_key(sf.col(_LABEL), sf.col(_SCORE), sf.col(_GROUP), places).alias(_KEY))
    return count_keys(rows, _KEY, distinct=2 * SCORE_CELLS * (len(places) + 1))


def count_score_pairs(df: DataFrame, *, label: str | Column, first: str | Column, second: str | Column) -> KeyCounts:
    """The keys of ``pair_key`` that occur among the rows of ``df``, and the number of rows of each key."""
    given = {_LABEL: label, _FIRST: first, _SECOND: second}
    rows = df.select(*(numeric_column(df, column, name).alias(name) for name, column in given.items()))
    rows = rows.select(pair_key(*map(sf.col, given)).alias(_KEY))
    return count_keys(rows, _KEY, distinct=2 * PAIR_CELLS**2)
