"""``SumsByKey`` in Spark: the key of a row with its places on lattices, and the keys' sums, one partition at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf

from spark_jobs.contract.options.aggregates import DiscoverableCells
from spark_jobs.statistics.key_batch import KeyBatch
from spark_jobs.statistics.public_keys import LONGEST_KEY
from spark_jobs.statistics.spark.aggregates import NO_VALUE, quoted_name
from spark_jobs.statistics.spark.columns import key_column, numeric_column
from spark_jobs.statistics.spark.points import nearest_place

PARTITIONS = 64
"""The number of partitions of the keys, always the same: it must not depend on how many keys there are."""
_AT_ONCE = 1 << 15
"""Keys of a batch."""
_ROW, _KEY, _PLACES, _SUM = "row", "key", "places", "sum"


def key_row_of(key: Column, values: Sequence[Column], design: DiscoverableCells) -> Column:
    """A row's key and place on each measure's lattice, a struct; null for a row without a key. Row-wise and total.

    Args:
        key: texts or whole numbers.
        values: a column of numbers or booleans for each measure.
        design: dimension and measures.
    """
    text = key.cast("string")
    places = [
        sf.coalesce(nearest_place(value, *measure.bounds, measure.steps), sf.lit(NO_VALUE)).cast("bigint")
        for measure, value in zip(design.measures, values, strict=True)
    ]
    of_row = sf.struct(text.alias(_KEY), sf.array(sf.lit(0).cast("bigint"), *places).alias(_PLACES))
    return sf.when(sf.char_length(text).between(1, LONGEST_KEY) & sf.is_valid_utf8(text), of_row)


def key_of(row: Column) -> Column:
    """The key of a row that ``key_row_of`` made; null for none."""
    return row.getField(_KEY)


def lacks_values(row: Column) -> Column:
    """Whether a row that ``key_row_of`` made has not all values."""
    return sf.exists(row.getField(_PLACES), lambda one: one == NO_VALUE)


def one_row_of_a_unit(df: DataFrame, row: str, unit: str, place: str) -> DataFrame:
    """One row of each unit in each key: the first one that has all values, or the first one if none has.

    Args:
        df: rows from ``key_row_of``, with a different place for each row of a unit.
        row: the name of the column of these rows.
        unit: the name of the column of the unit.
        place: the name of the column of the place among the rows of the unit.
    """
    first = sf.struct(sf.when(lacks_values(sf.col(row)), 1).otherwise(0), sf.col(place))
    rows = df.where(sf.col(row).isNotNull()).select(
        sf.col(unit), row, key_of(sf.col(row)).alias(_KEY), first.alias(_PLACES)
    )
    return rows.groupBy(unit, _KEY).agg(sf.min_by(row, _PLACES).alias(row)).select(row)


def key_batches(df: DataFrame, row: str, design: DiscoverableCells, *, min_units: int) -> Iterator[KeyBatch]:
    """The keys with at least ``min_units`` complete rows, and their sums; each key is in exactly one batch.

    The driver reads one of ``PARTITIONS`` partitions at a time. Keys with fewer rows are not read, as they are never
    released, whatever the noise (``mechanisms.discovered_keys``).

    Args:
        df: rows from ``key_row_of``.
        row: the name of the column of these rows.
        design: dimension and measures.
        min_units: the fewest rows with which a key can be released.
    """
    places = sf.col(row).getField(_PLACES)
    names = [f"{_SUM}_{number}" for number in range(2 + len(design.measures))]
    sums = zip(_sums_of_rows(sf.col(_PLACES), len(design.measures)), names, strict=True)
    table = (
        df.where(sf.col(row).isNotNull())
        .select(key_of(sf.col(row)).alias(_KEY), places.alias(_PLACES))
        .groupBy(_KEY)
        .agg(*(column.alias(name) for column, name in sums))
        .where(sf.col(names[1]) >= min_units)
        .repartition(PARTITIONS, _KEY)
    )
    rows = table.toLocalIterator()
    while several := list(islice(rows, _AT_ONCE)):
        yield _batch(several, len(design.measures))


def _sums_of_rows(places: Column, measures: int) -> list[Column]:
    """Rows, complete rows and sums of places of the rows of one key."""
    complete = sf.forall(places, lambda one: one != NO_VALUE)
    terms = (sf.get(places, sf.lit(1 + number)) for number in range(measures))
    return [
        sf.count(sf.lit(1)),
        sf.count(sf.when(complete, sf.lit(1))),
        *(sf.sum(sf.when(complete, term)) for term in terms),
    ]


def _batch(rows: Sequence[Row], measures: int) -> KeyBatch:
    of_rows, complete, *sums = (
        np.array([row[1 + place] or 0 for row in rows], dtype=np.int64) for place in range(2 + measures)
    )
    return KeyBatch(
        keys=[row[0] for row in rows],
        rows=complete,
        incomplete=of_rows - complete,
        sums=np.array(sums, dtype=np.int64).reshape(measures, len(rows)),
    )


def batches_of_table(df: DataFrame, design: DiscoverableCells) -> Callable[[], Iterator[KeyBatch]]:
    """A function that reads the keys of a DataFrame in batches, where each row is a unit of its own.

    Raises:
        InvalidRequest: a column is missing, or is of an unsuitable type.
    """
    column = design.dimension.column
    key = key_column(df, quoted_name(column), column)
    values = [numeric_column(df, quoted_name(measure.of), measure.of) for measure in design.measures]
    rows = df.select(key_row_of(key, values, design).alias(_ROW))
    return lambda: key_batches(rows, _ROW, design, min_units=design.min_units)
