"""One run of a stream: the due steps are counted, drawn in segments, and stored one encrypted object after another.

Each object contains the hash of the previous object.

All due steps are counted at once, unless the stream keeps the number of rows used of each unit. Then a segment is
counted only when the previous segment is stored, so that every object has these numbers as they are after its own last
step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_jobs.application.progress import Announcer
from spark_jobs.application.streams.chain import ObjectChain, Position
from spark_jobs.application.streams.counting import Counted
from spark_jobs.contract.embedded_engine import EMBEDDED
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ApplicationStage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Counter = Callable[[ObjectChain, Position, int, Announcer], Counted]
"""Counts the steps from the end of a chain to one that is excluded."""


def run_stream(chain: ObjectChain, *, count: Counter, announcer: Announcer) -> None:
    """Store the objects of all steps before the task's last one, whatever earlier runs have stored.

    Raises:
        InvalidRequest: the request, its table, a key, the salt, the version or the stored state does not fit; no row
            was read.
        RefusedTooLateError: something was refused after noise had been drawn.
        SealBroken: an object in the store is damaged.
    """
    until = chain.task.until
    position = chain.end()
    if position.next >= until:
        return
    chain.require_not_back(position)
    at_once = until if chain.request.places is None else position.next + chain.segment_steps
    while position.next < until:
        base, end = position.next, min(at_once, until)
        counted = count(chain, position, end, announcer)
        announcer.stage(ApplicationStage.DRAWING)
        while position.next < end:
            last = min(position.next + chain.segment_steps, end)
            position = chain.append(position, counted.cells[position.next - base : last - base], use=counted.use)
        at_once = position.next + chain.segment_steps


def count_with_spark(master: str | None) -> Counter:
    """A function that opens a session of Spark or of the embedded engine, counts steps in one job, and closes it."""

    def count(chain: ObjectChain, position: Position, until: int, announcer: Announcer) -> Counted:
        from spark_jobs.application.session import reading
        from spark_jobs.application.streams.counting import count_steps, prepare_steps
        from spark_jobs.tables.source import read_table

        request, first = chain.request, position.next

        def prepare(spark: SparkSession) -> DataFrame:
            if master == EMBEDDED:
                from spark_jobs.application.embedded_tables import prepare_steps_embedded

                return prepare_steps_embedded(spark, request)
            return prepare_steps(spark, request, read_table(spark, request.table))

        with reading(prepare, master=master, announcer=announcer) as rows:
            announcer.stage(ApplicationStage.COUNTING)
            failpoint("before_count")
            counted = count_steps(
                rows, request, first=first, steps=until - first, use=position.state.use, unit_salt=chain.unit_salt
            )
            failpoint("after_count")
        return counted

    return count
