"""One run of a stream: the due steps are counted at once, drawn in segments, and stored one encrypted object after
another, each with the hash of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.application.progress import Announcer
from spark_jobs.application.streams.chain import ObjectChain
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ApplicationStage
from spark_jobs.contract.stream_request import StreamRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Counter = Callable[[StreamRequest, int, int, Announcer], Int64Array]
"""Counts the steps from a first one to one that is excluded; an array of shape (steps, states)."""


def run_stream(chain: ObjectChain, *, count: Counter, announcer: Announcer) -> None:
    """Store the objects of all steps before the task's last one, whatever earlier runs have stored.

    Raises:
        InvalidRequest: the request, its table, a key or the stored state does not fit; no row was read.
        RefusedTooLateError: something was refused after noise had been drawn.
        SealBroken: an object in the store is damaged.
    """
    until = chain.task.until
    position = chain.end()
    if position.next >= until:
        return
    base = position.next
    counts = count(chain.request, base, until, announcer)
    announcer.stage(ApplicationStage.DRAWING)
    while position.next < until:
        end = min(position.next + chain.segment_steps, until)
        position = chain.append(position, counts[position.next - base : end - base])


def count_with_spark(master: str | None) -> Counter:
    """A counter that opens a Spark session, counts in one job, and closes it."""

    def count(request: StreamRequest, first: int, until: int, announcer: Announcer) -> Int64Array:
        from spark_jobs.application.session import reading
        from spark_jobs.application.streams.counting import count_steps, prepare_steps
        from spark_jobs.tables.source import read_table

        def prepare(spark: SparkSession) -> DataFrame:
            return prepare_steps(spark, request, read_table(spark, request.table))

        with reading(prepare, master=master, announcer=announcer) as rows:
            announcer.stage(ApplicationStage.COUNTING)
            failpoint("before_count")
            counts = count_steps(rows, request, first=first, steps=until - first).counts
            failpoint("after_count")
        return np.asarray(counts, dtype=np.int64)

    return count
