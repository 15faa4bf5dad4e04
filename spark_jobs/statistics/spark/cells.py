"""The one pass: how many rows have each key.

A statistic says which cell a row lies in by a packed integer key, and gets back the keys that occur with their counts.
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
"""Keys that occur, and how many rows have each: two arrays of one length."""
_DROPPED = -1
_KEY, _COUNT = "key", "count"


def count_keys(df: DataFrame, key: str | Column, *, distinct: int) -> KeyCounts:
    """The keys that occur among the rows of ``df``, in no order, and how many rows have each.

    Spark adds up in every partition first, so what is shuffled and collected is bounded by the number of distinct keys
    and not by the rows.

    Args:
        df: the rows; nothing is asked of its session that Spark Connect does not offer.
        key: an integer column, or its name: at least 0, or null for a row that is not counted.
        distinct: how many keys there can be; sizes Spark's hash table and bounds what is collected.

    Returns:
        Keys and counts: int64 arrays of one length, at most ``distinct``.
    """
    key = sf.col(key) if isinstance(key, str) else key
    # a null key would miss the fast path of Spark's hash table, row by row
    key = sf.coalesce(key, sf.lit(_DROPPED)).alias(_KEY)
    with settings(df.sparkSession, counting_settings(distinct)):
        table = df.groupBy(key).agg(sf.count(sf.lit(1)).alias(_COUNT)).toArrow()
    keys = table.column(_KEY).to_numpy().astype(np.int64)
    counts = table.column(_COUNT).to_numpy().astype(np.int64)
    kept = keys != _DROPPED
    return keys[kept], counts[kept]


@contextmanager
def settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """The session with these SQL settings, and as it was afterwards.

    They decide on speed and memory alone, so that a query of another thread of the session may run under them too.
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
