"""The micro-batches of Spark Structured Streaming, for a followed stream, whose rows are counted as they arrive.

A reading is one run of a streaming query with ``foreachBatch`` and the trigger ``availableNow``, without any stateful
operator: Spark's checkpoint records which rows a micro-batch has, and there is no state store. No option limits how
much a micro-batch reads (``streams.follow`` says why).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.application.progress import Announcer
from spark_jobs.application.streams.follow import Take
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.places import Place
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.stream_request import StreamRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWNERS_FOLDER = 0o700


class _EnoughError(Exception):
    """Ends a query after a micro-batch, which stays uncommitted."""


class SparkMicroBatches:
    """Reads, in micro-batches, the rows that arrive in a folder.

    Args:
        rows: the streaming plan of the rows that count.
        request: the stream's request.
        checkpoint: URI of Spark's checkpoint, in Hadoop's form.
        unit_salt: orders the rows of a unit; unused if every row is a unit.
    """

    def __init__(self, rows: DataFrame, request: StreamRequest, checkpoint: str, unit_salt: bytes = b"") -> None:
        self._rows = rows
        self._request = request
        self._checkpoint = checkpoint
        self._unit_salt = unit_salt

    def read(self, take: Take) -> str:
        """Run the query until ``take`` has enough, or nothing new is left; return the query's identity.

        Raises:
            StreamingQueryException: Spark failed; errors of ``take`` are raised unchanged.
        """
        from pyspark.errors import StreamingQueryException

        known, raised, identity = threading.Event(), list[BaseException](), ""

        def on_batch(rows: DataFrame, number: int) -> None:
            known.wait()
            try:
                if take(identity, number, partial(_files, rows), partial(self._count, rows)):
                    return
                raise _EnoughError
            except BaseException as error:
                raised.append(error)
                raise

        writer = self._rows.writeStream.foreachBatch(on_batch).option("checkpointLocation", self._checkpoint)
        query = writer.trigger(availableNow=True).start()
        identity = str(query.id)
        known.set()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            if not raised:
                raise
        if raised and not isinstance(raised[0], _EnoughError):
            raise raised[0]
        return identity

    def _count(self, rows: DataFrame, first: int, steps: int) -> Int64Array:
        from spark_jobs.application.streams.counting import count_steps

        failpoint("before_count")
        counts = count_steps(rows, self._request, first=first, steps=steps, unit_salt=self._unit_salt).cells
        failpoint("after_count")
        return counts


def _files(rows: DataFrame) -> str:
    """A digest of the files of a micro-batch, with their sizes and times of change; a file that is gone has none."""
    spark: Any = rows.sparkSession
    paths, configuration = spark._jvm.org.apache.hadoop.fs.Path, spark._jsc.hadoopConfiguration()
    states = []
    for name in sorted(rows.inputFiles()):
        path = paths(spark._jvm.java.net.URI(name))
        now = path.getFileSystem(configuration).globStatus(path)
        states.append([name, *((one.getLen(), one.getModificationTime()) for one in now or ())])
    return hashlib.sha256(json.dumps(states).encode()).hexdigest()


@contextmanager
def spark_micro_batches(
    request: StreamRequest, *, checkpoint: str, unit_salt: bytes, master: str | None, announcer: Announcer
) -> Iterator[SparkMicroBatches]:
    """Micro-batches of the request's table, by a Spark session that is closed at the end.

    Raises:
        InvalidRequest: the table, its schema or the filter does not fit the request; no row was read.
    """
    from spark_jobs.application.session import reading
    from spark_jobs.application.streams.counting import prepare_steps
    from spark_jobs.tables.source import read_arrivals

    place = Place.of_folder(checkpoint, what="checkpoint")
    if place.local is not None:
        # it names files, whose names others may not know
        Path(place.local).mkdir(mode=_OWNERS_FOLDER, parents=True, exist_ok=True)

    def prepare(spark: SparkSession) -> DataFrame:
        return prepare_steps(spark, request, read_arrivals(spark, request.table))

    with reading(prepare, master=master, announcer=announcer) as rows:
        yield SparkMicroBatches(rows, request, place.path, unit_salt)
