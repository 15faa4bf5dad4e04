"""The pass over the table that counts the rows of each key.

A statistic encodes the cell of a row as a packed integer key; the result is the keys that occur, with their counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.arrays import Int64Array
from spark_jobs.statistics.spark.settings import counting_settings

KeyCounts = tuple[Int64Array, Int64Array]
"""The keys that occur, and the number of rows of each key: two arrays of equal length."""
_DROPPED = -1
_KEY, _COUNT = "key", "count"


def count_keys(df: DataFrame, key: str | Column, *, distinct: int, weight: str | None = None) -> KeyCounts:
    """The keys that occur among the rows of ``df``, in any order, and the number of rows of each key.

    Spark first aggregates within every partition, so that the amount of shuffled and collected data is bounded by the
    number of distinct keys, not by that of the rows.

    Args:
        df: the rows; only features of its session that Spark Connect supports are used.
        key: an integer column, or its name: at least 0, or null for a row that is not counted.
        distinct: the number of possible keys, which determines the size of Spark's hash table.
        weight: a bigint column that says how many rows a row stands for; None if it stands for itself.

    Returns:
        Keys and counts: two int64 arrays of equal length, which is at most ``distinct``.
    """
    key = sf.col(key) if isinstance(key, str) else key
    # rows with a null key would not use the fast path of Spark's hash table
    key = sf.coalesce(key, sf.lit(_DROPPED)).alias(_KEY)
    with settings(df.sparkSession, counting_settings(distinct)):
        counted = sf.count(sf.lit(1)) if weight is None else sf.sum(weight)
        table = df.groupBy(key).agg(counted.alias(_COUNT)).toArrow()
    keys = table.column(_KEY).to_numpy().astype(np.int64)
    counts = table.column(_COUNT).to_numpy().astype(np.int64)
    kept = keys != _DROPPED
    return keys[kept], counts[kept]


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
