"""The Spark settings that counting relies on for its speed. None of them changes a result."""

from __future__ import annotations

from types import MappingProxyType

SESSION_SETTINGS: MappingProxyType[str, str] = MappingProxyType(
    {
        # Holds the counts of 2 x 2^20 cells many times over; a local run's executors live in it as well.
        "spark.driver.memory": "2g",
        # A request may have 2^26 counts of 16 bytes (``contract.options.base.MAX_KEYS``): Spark's own limit of 1g
        # would end a release that was paid for.
        "spark.driver.maxResultSize": "2g",
        # With up to 200 reducers Spark would otherwise write one file per reducer and task, for a few rows each.
        "spark.shuffle.sort.bypassMergeThreshold": "1",
    }
)
"""For the application to start its session with: they cannot be set later. Counting is right without them, too."""

_MAX_BITS = 22
"""Caps the hash table of a task at some 100 MB; keys that do not fit go to Spark's general one."""


def counting_settings(distinct: int) -> dict[str, str]:
    """Settings for the query that counts ``distinct`` keys; they are put back after it."""
    return {
        "spark.sql.codegen.wholeStage": "true",
        # The hash table that Spark generates for a query has 2^16 slots by default, fewer than 2 x 65,536 cells have
        # keys, and the rest goes to a general one that is several times slower.
        "spark.sql.codegen.aggregate.map.twolevel.enabled": "true",
        "spark.sql.codegen.aggregate.fastHashMap.capacityBit": str(max(16, min(_MAX_BITS, distinct.bit_length()))),
        # Keys and counts in columns of 4 and 8 bytes stay in the processor's cache; rows of 40 bytes each do not.
        "spark.sql.codegen.aggregate.map.vectorized.enable": "true",
        # One loop over the rows instead of a call per row and operator, which Java does not inline. A loop that gets
        # too long for Java's compiler (from 8,000 bytes; a model of a hundred terms) would be interpreted, so Spark
        # shall evaluate that one operator by operator.
        "spark.sql.codegen.splitConsumeFuncByOperator": "false",
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # Every task passes on a row per key that it saw: as few tasks as there are cores, up to 1 GB for each.
        "spark.sql.files.maxPartitionBytes": "1g",
    }
