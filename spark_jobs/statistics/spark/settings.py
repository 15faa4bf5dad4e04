"""Spark settings for fast counting. None of them changes a result."""

from __future__ import annotations

from types import MappingProxyType

WORD = 8
"""Bytes of a key, a count or a sum."""
SLICE_BYTES = 2**25
"""Bytes of keys, counts and sums that the driver collects at a time."""
SESSION_SETTINGS: MappingProxyType[str, str] = MappingProxyType(
    {
        # Enough for the counts of 2 x 2^20 cells many times over; in local mode the executors share it.
        "spark.driver.memory": "2g",
        # Twice a slice, for what Arrow adds to it, and what a saved pipeline's metadata may have.
        "spark.driver.maxResultSize": str(2 * SLICE_BYTES + 2**26),
        # Otherwise, for up to 200 reducers, Spark writes one file of a few rows per reducer and task.
        "spark.shuffle.sort.bypassMergeThreshold": "1",
    }
)
"""Settings with which the application starts its session, as they cannot be set later; they affect only speed."""

_MAX_BITS = 22
_MAX_TABLE = 2**26
"""Bytes. Both limit the hash table of a task; keys that do not fit use Spark's general one."""


def counting_settings(distinct: int, aggregates: int = 1) -> dict[str, str]:
    """The Spark settings for a query that computes ``aggregates`` counts and sums for each of ``distinct`` keys."""
    bits = min(_MAX_BITS, (_MAX_TABLE // (WORD * (1 + aggregates))).bit_length() - 1)
    return {
        "spark.sql.codegen.wholeStage": "true",
        # The hash table that Spark generates for a query has 2^16 slots by default, fewer than 2 x 76,290 cells need;
        # the
        # other keys use a general table that is several times slower.
        "spark.sql.codegen.aggregate.map.twolevel.enabled": "true",
        "spark.sql.codegen.aggregate.fastHashMap.capacityBit": str(max(16, min(bits, distinct.bit_length()))),
        # Keys and counts in columns of 4 and 8 bytes stay in the processor's cache; rows of 40 bytes each do not.
        "spark.sql.codegen.aggregate.map.vectorized.enable": "true",
        # One loop over the rows instead of a call per row and operator, which Java does not inline. A loop that is too
        # long
        # for Java's compiler (from 8,000 bytes; a model with a hundred terms) would be interpreted, so Spark evaluates
        # it
        # operator by operator.
        "spark.sql.codegen.splitConsumeFuncByOperator": "false",
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # A result that the executors keep has as few partitions as its size needs, and not 200 of a few rows each.
        "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
        # Every task emits a row for each of its keys, so use few tasks: one per core, each with up to 1 GB.
        "spark.sql.files.maxPartitionBytes": "1g",
    }
