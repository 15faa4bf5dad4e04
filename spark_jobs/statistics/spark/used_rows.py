"""The counted events of units in Spark, given the number of rows that the stream has used of each unit before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from spark_jobs.arrays import Int64Array
from spark_jobs.statistics.spark.settings import SLICE_BYTES
from spark_jobs.statistics.spark.states import (
    EVENTS,
    STEP,
    UNIT,
    cell_key,
    first_events,
    known_rows,
    summed,
    with_ties,
)
from spark_jobs.statistics.state_grid import EventBound, StateGrid
from spark_jobs.statistics.unit_use import HASH_BYTES, UnitUse, marked, unmarked

_HASH, _USED, _BEGINS, _KEY = "unit_hash", "used", "begins", "key"
_INNER, _OUTER = "inner", "outer"
_BLOCK = 64
_ROW_BYTES = HASH_BYTES + 8 + 8 + 4

Rows = tuple[NDArray[Any], Int64Array, Int64Array]
"""The hash of a unit, a cell and a number of events, of each row."""


def used_rows(
    df: DataFrame,
    *,
    time: str | Column,
    state: str | Column | None,
    unit: str | Column,
    grid: StateGrid,
    bound: EventBound,
    use: UnitUse,
) -> Rows:
    """The counted events of the units that have a place or get one, added up by unit and cell.

    The executors keep the counted events while these are collected, so that the rows are read once. Events of units
    that get no place are not collected, so that the size of the collected data has a public limit.
    """
    spark = df.sparkSession
    rows = known_rows(df, time=time, state=state, unit=unit, grid=grid)
    hashed = _with_hashes(summed(rows, UNIT), bound).repartition(_HASH)
    known = hashed.join(_as_table(spark, use), _HASH, "left")
    room = sf.lit(bound.max_rows).cast("bigint") - sf.coalesce(_USED, sf.lit(0).cast("bigint"))
    counted = first_events(with_ties(known, bound, UNIT), bound, _HASH, room)
    kept = (
        counted.withColumn(_BEGINS, sf.min(STEP).over(Window.partitionBy(_HASH)))
        .groupBy(_HASH, cell_key(grid).alias(_KEY), _USED, _BEGINS)
        .agg(sf.sum(EVENTS).alias(EVENTS))
        .persist()
    )
    try:
        admitted = kept.where(_has_place(kept, use))
        slices = max(-(-kept.count() * _ROW_BYTES // SLICE_BYTES), 1)
        slice_of = sf.pmod(sf.xxhash64(_HASH), sf.lit(slices))
        parts = [_collect(admitted.where(slice_of == place)) for place in range(slices)]
    finally:
        kept.unpersist()
    hashes, keys, events = (np.concatenate(column) for column in zip(*parts, strict=True))
    return hashes, keys, events


def _with_hashes(rows: DataFrame, bound: EventBound) -> DataFrame:
    """The same rows with the HMAC-SHA-256 of their unit: the hash of a key and of the hash of another and the text."""
    key = np.frombuffer(bound.unit_key.ljust(_BLOCK, b"\0"), dtype=np.uint8)
    pads = (bytes((key ^ 0x36).tobytes()), bytes((key ^ 0x5C).tobytes()))
    # keys are a row of a table, because constants would be visible in the plan
    keyed = rows.crossJoin(sf.broadcast(rows.sparkSession.createDataFrame([pads], f"{_INNER} binary, {_OUTER} binary")))
    text = sf.encode(sf.col(UNIT).cast("string"), "UTF-8")
    inner = sf.unhex(sf.sha2(sf.concat(sf.col(_INNER), text), 256))
    return keyed.withColumn(_HASH, sf.unhex(sf.sha2(sf.concat(sf.col(_OUTER), inner), 256))).drop(_INNER, _OUTER)


def _as_table(spark: SparkSession, use: UnitUse) -> DataFrame:
    columns = {
        _HASH: pa.array(unmarked(use.hashes), type=pa.binary()),
        _USED: pa.array(use.used, type=pa.int64()),
    }
    return spark.createDataFrame(pa.table(columns))


def _has_place(kept: DataFrame, use: UnitUse) -> Column:
    """Whether a row's unit has a place, or is among the first new ones for which there is one."""
    known = sf.col(_USED).isNotNull()
    if use.free <= 0:
        return known
    order = sf.struct(sf.col(_BEGINS), sf.col(_HASH))
    first = kept.where(~known).select(order.alias("unit")).distinct().orderBy("unit").limit(use.free)
    [last] = first.agg(sf.max("unit").alias("last")).collect()
    if last["last"] is None:
        return known
    begins, digest = last["last"]
    return known | (order <= sf.struct(sf.lit(begins).cast("bigint"), sf.lit(bytes(digest))))


def _collect(rows: DataFrame) -> Rows:
    answer = rows.select(_HASH, _KEY, EVENTS).toArrow()
    hashes = b"".join(answer.column(_HASH).to_pylist())
    keys, events = (answer.column(name).to_numpy().astype(np.int64) for name in (_KEY, EVENTS))
    return marked(hashes), keys, events
