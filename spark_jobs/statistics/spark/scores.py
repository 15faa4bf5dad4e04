"""``ScoreCounts``, alone and by group, and ``PairedScoreCounts`` in Spark: the key of a row's cell, and the pass."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.contract.options.base import SCORE_CELLS
from spark_jobs.contract.options.comparisons import PAIR_CELLS
from spark_jobs.statistics.grid import require_cells
from spark_jobs.statistics.pair_grid import DOUBLINGS, FINE_BITS
from spark_jobs.statistics.spark.cells import KeyCounts, count_keys
from spark_jobs.statistics.spark.columns import key_column, listed_place, numeric_column

_LABEL, _SCORE, _GROUP, _FIRST, _SECOND, _KEY = "label", "score", "group", "first", "second", "key"


def score_key(label: Column, score: Column, cells: int = SCORE_CELLS) -> Column:
    """The packed key ``label * cells + cell`` of a row, an int; null for a row that is dropped.

    Row-wise and total: no value of any numeric or boolean type makes it raise, whether the session is in ANSI mode or
    not. Both arguments are used several times, so pass columns of a ``select`` rather than long expressions.

    Raises:
        InvalidRequest: ``cells`` is not a power of two from 2 to 2^20.
    """
    cells = require_cells(cells)
    known, whole = _outcome(label)
    return sf.when(known, (whole * cells).bitwiseOR(_cell(score, cells)))


def pair_key(label: Column, first: Column, second: Column) -> Column:
    """The packed key of a row in ``PairedScoreCounts``, an int; null for a row that is dropped. As ``score_key``."""
    one, other = (_pair_cell(_cell(score, SCORE_CELLS)) for score in (first, second))
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
    # Cut to the ends as a whole number, which takes no branch; only what is too large for an int, or no number, needs
    # one.
    place = (score * float(cells)).try_cast("int")
    return (
        sf.when(place.isNotNull(), sf.greatest(sf.lit(0), sf.least(place, sf.lit(cells - 1))))
        .when(score < 0, 0)
        .when((score >= 1) & ~sf.isnan(score), cells - 1)
    )


def _pair_cell(cell: Column) -> Column:
    """The cell of a comparison's grid, from a cell of ``ScoreCounts``; see ``statistics.pair_grid.pair_cells``."""
    folded = sf.least(cell, sf.lit(SCORE_CELLS - 1) - cell)
    # half a cell more is never a power of two, so that rounding does not matter
    bits = sf.floor(sf.log2(folded + 0.5)).cast("int") + 1
    doublings = sf.greatest(sf.lit(0), sf.least(bits - FINE_BITS, sf.lit(DOUBLINGS)))
    index = sf.lit(2 ** (FINE_BITS - 1)) * doublings + sf.call_function("shiftright", folded, doublings)
    return sf.when(cell < SCORE_CELLS // 2, index).otherwise(sf.lit(PAIR_CELLS - 1) - index)


def count_scores(df: DataFrame, *, label: str | Column, score: str | Column, cells: int) -> KeyCounts:
    """The keys of ``score_key`` that occur among the rows of ``df``, and the number of rows of each key."""
    require_cells(cells)
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
