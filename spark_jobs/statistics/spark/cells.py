"""The pass over the table that counts and sums the rows of each key.

A statistic encodes the cell, or the group, of a row as a packed integer key; the result is the keys that occur, with
their counts and sums. Keys, counts and sums are whole numbers, so that neither the order of rows nor a partition that
is computed again changes a bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.arrays import Int64Array
from spark_jobs.statistics.spark.settings import SLICE_BYTES, WORD, counting_settings

KeyCounts = tuple[Int64Array, Int64Array]
"""The keys that occur, and the number of rows of each key: two arrays of equal length."""
_DROPPED = -1
_KEY, _SUM = "key", "sum"


def count_keys(df: DataFrame, key: str | Column, *, distinct: int, weight: str | None = None) -> KeyCounts:
    """The keys that occur among the rows of ``df``, in any order, and the number of rows of each key.

    Args:
        df: the rows; only features of its session that Spark Connect supports are used.
        key: an integer column, or its name: at least 0, or null for a row that is not counted.
        distinct: the number of possible keys, which determines the size of Spark's hash table.
        weight: a bigint column that says how many rows a row stands for; None if it stands for itself.

    Returns:
        Keys and counts: two int64 arrays of equal length, which is at most ``distinct``.
    """
    counted = sf.count(sf.lit(1)) if weight is None else sf.sum(weight)
    keys, (counts,) = sums_by_key(df, key, distinct=distinct, aggregates=[counted])
    return keys, counts


def sums_by_key(
    df: DataFrame, key: str | Column, *, distinct: int, aggregates: Sequence[Column]
) -> tuple[Int64Array, list[Int64Array]]:
    """The keys that occur among the rows of ``df``, in any order, and the counts and sums of each key's rows.

    Spark first aggregates within every partition, so that the amount of shuffled and collected data is bounded by the
    number of distinct keys, not by the number of rows. The result is collected in slices of ``SLICE_BYTES``. If there
    are several slices, the executors keep the result until all slices are collected, so that the rows are read once.

    Args:
        df: as in ``count_keys``.
        key: likewise.
        distinct: likewise.
        aggregates: counts and sums of bigint columns; a sum of nothing but nulls is 0.

    Returns:
        The keys, and one array for each aggregate, of equal length.
    """
    key = sf.col(key) if isinstance(key, str) else key
    # rows with a null key would not use the fast path of Spark's hash table
    key = sf.coalesce(key, sf.lit(_DROPPED)).alias(_KEY)
    names = [f"{_SUM}_{place}" for place in range(len(aggregates))]
    table_bytes = distinct * WORD * (1 + len(names))
    with settings(df.sparkSession, counting_settings(distinct, aggregates=len(names))):
        table = df.groupBy(key).agg(*(column.alias(name) for column, name in zip(aggregates, names, strict=True)))
        collected = [_collect(table, names)] if table_bytes <= SLICE_BYTES else _collect_slices(table, names)
    keys, *sums = (np.concatenate(parts) for parts in zip(*collected, strict=True))
    return keys, sums


def _collect_slices(table: DataFrame, names: Sequence[str]) -> list[list[Int64Array]]:
    """The slices of a result that the executors keep meanwhile, each with about as many keys as the others."""
    kept = table.persist()
    try:
        slices = max(-(-kept.count() * WORD * (1 + len(names)) // SLICE_BYTES), 1)
        slice_of = sf.pmod(sf.xxhash64(_KEY), sf.lit(slices))
        return [_collect(kept.where(slice_of == place), names) for place in range(slices)]
    finally:
        kept.unpersist()


def _collect(table: DataFrame, names: Sequence[str]) -> list[Int64Array]:
    """The columns of one slice as arrays, without the key of rows that are not counted."""
    answer = table.toArrow()
    keys = answer.column(_KEY).to_numpy().astype(np.int64)
    kept = keys != _DROPPED
    sums = (answer.column(name).fill_null(0).to_numpy().astype(np.int64) for name in names)
    return [keys[kept], *(values[kept] for values in sums)]


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """A context in which the session has these SQL settings; the previous ones are restored afterwards.

    The settings affect only speed and memory, so that queries of other threads of the session may run under them too.
    """
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
