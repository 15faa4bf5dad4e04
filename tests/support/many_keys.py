"""The memory that discovered keys take of the driver's Python: ``python -m tests.support.many_keys N [HEAP]``.

Prints the growth of the largest resident size, in MiB, the seconds, and the number of released keys, of N keys with
three rows each, of which a thousand have fifty: every key can be released, passes through the driver and gets its
noise, and hardly one but the thousand is released. Java, which is the driver's and the executors' here, has a heap of
``HEAP``, such as ``1g``. With ``at-once`` the driver reads all keys together, which is the fault that a test must find.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.application.session import SQL_SETTINGS
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms.noise import SecureNoise
from spark_jobs.statistics import SumsByKey
from tests.support.many_groups import peak

LARGE, ROWS, ROWS_OF_LARGE = 1_000, 3, 50
"""Of so many keys each has so many rows, and of the others each the first number."""


def keys(spark: SparkSession, number: int) -> DataFrame:
    """The rows, with a key of about twenty characters and a value each."""
    every = spark.range(number * ROWS).select((sf.col("id") % number).alias("id"))
    large = spark.range(LARGE * (ROWS_OF_LARGE - ROWS)).select((sf.col("id") % LARGE).alias("id"))
    rows = every.unionByName(large)
    return rows.select(sf.format_string("/page-%015d", "id").alias("page"), (sf.col("id") % 7).alias("seconds"))


def plant_one_read(of_engine: type[DataFrame]) -> None:
    """Make the driver read all keys together."""

    def together(self: DataFrame, prefetchPartitions: bool = False) -> Iterator[Row]:
        return iter(self.collect())

    of_engine.toLocalIterator = together  # type: ignore[method-assign]


def main() -> None:
    """Discover the keys, and print what that took."""
    heap = next((one for one in sys.argv[2:] if one != "at-once"), "3g")
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", heap)
    for name, value in {**SQL_SETTINGS, "spark.sql.shuffle.partitions": "64", "spark.ui.enabled": "false"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    table = keys(spark, int(sys.argv[1]))
    if "at-once" in sys.argv:
        plant_one_read(type(table))
    by = [{"column": "page", "keys": "discover", "min_units": 2}]
    sums = SumsByKey.from_dataframe(table, by=by, measures=[{"of": "seconds", "bounds": [0, 7], "step": 1}])
    before, began = peak(), time.monotonic()
    result = aggregates.release(sums, epsilon="1", delta="1e-6", noise=SecureNoise())
    print(f"{peak() - before:.0f} {time.monotonic() - began:.0f} {len(result.keys[0])}")
    spark.stop()


if __name__ == "__main__":
    main()
