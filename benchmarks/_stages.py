"""Bytes that the stages of a Spark session have spilled, shuffled and sent to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Bytes:
    """Bytes spilled to disk, written for a shuffle, and sent to the driver as results of tasks."""

    spilled: int
    shuffled: int
    collected: int

    def __sub__(self, earlier: Bytes) -> Bytes:
        return Bytes(
            spilled=self.spilled - earlier.spilled,
            shuffled=self.shuffled - earlier.shuffled,
            collected=self.collected - earlier.collected,
        )


def bytes_so_far(spark: SparkSession) -> Bytes:
    """Those of all stages of the session."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    doubles = spark.sparkContext._gateway.new_array(spark.sparkContext._jvm.double, 0)
    stages = context.statusStore().stageList(None, False, False, doubles, None)
    every = [stages.apply(place) for place in range(stages.size())]
    return Bytes(
        spilled=sum(stage.diskBytesSpilled() for stage in every),
        shuffled=sum(stage.shuffleWriteBytes() for stage in every),
        collected=sum(stage.resultSize() for stage in every),
    )
