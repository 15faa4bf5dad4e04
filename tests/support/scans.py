"""How often Spark's executed queries scan files, from the nodes of their final plans."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def executed_scans(spark: SparkSession, of: str = "Scan parquet") -> Iterator[set[int]]:
    """A set that, after the context, has a number for each scan of files by the queries that were executed within it.

    A query that reads what an earlier one has persisted has the same scan in its plan, with the same number: that of
    the scan's first metric.
    """
    bus = spark.sparkContext._jsc.sc().listenerBus()
    store: Any = spark._jsparkSession.sharedState().statusStore()
    scans: set[int] = set()
    bus.waitUntilEmpty()
    before = {execution.executionId() for execution in _listed(store.executionsList())}
    yield scans
    bus.waitUntilEmpty()
    for execution in _listed(store.executionsList()):
        if execution.executionId() not in before:
            nodes = _listed(store.planGraph(execution.executionId()).allNodes())
            scans |= {node.metrics().apply(0).accumulatorId() for node in nodes if node.name().startswith(of)}


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]
