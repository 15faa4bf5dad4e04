"""What the embedded engine reads: the columns that a request needs, without values on which the engine would fail."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.application.count_statistics import prepare
from spark_jobs.contract.embedded_engine import CheckedFiles, needed_columns, require_embedded
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.table_files import NO_VALUE
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.tables import TableSource
from spark_jobs.embedded.client import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NUMBERS = ("float", "double")


def prepare_embedded(spark: SparkSession, request: ReleaseRequest) -> DataFrame:
    """Plan the rows as ``count_statistics.prepare`` does, with a session of the embedded engine.

    Raises:
        InvalidRequest: as for ``count_statistics.prepare``, or the request needs Spark.
    """
    from spark_jobs.statistics.spark.columns import lists_by_cases

    read = partial(read_embedded, checked=require_embedded(request))
    source = request.table.model_copy(update={"columns": needed_columns(request)})
    with lists_by_cases():
        return prepare(spark, request.model_copy(update={"table": source}), read=read, by_sorting=True)


def prepare_steps_embedded(spark: SparkSession, request: StreamRequest) -> DataFrame:
    """Plan a stream's rows as ``streams.counting.prepare_steps`` does, with a session of the embedded engine.

    Raises:
        InvalidRequest: as for ``prepare_steps``, or the stream needs Spark.
    """
    from spark_jobs.application.streams.counting import prepare_steps
    from spark_jobs.statistics.spark.columns import lists_by_cases

    checked = require_embedded(request)
    source = request.table.model_copy(update={"columns": needed_columns(request)})
    with lists_by_cases():
        return prepare_steps(spark, request, read_embedded(spark, source, checked=checked))


def read_embedded(spark: SparkSession, source: TableSource, *, checked: CheckedFiles) -> DataFrame:
    """The bound columns of Parquet files or of a Delta or Iceberg version; every NaN is made the one above all numbers.

    Raises:
        InvalidRequest: the table cannot be read.
    """
    from pyspark.sql import functions as sf

    from spark_jobs.tables.expressions import quoted
    from spark_jobs.tables.source import read_table
    from spark_jobs.tables.views import make_view

    view = Path(tempfile.mkdtemp(dir=str(spark.conf.get(FOLDER)))) / "table"
    folders = checked.folder_columns
    make_view(
        Path(str(source.pinned.local)),
        checked.values,
        {column.name: column.type for column in source.columns or ()},
        view=view,
        folder_columns=folders,
    )
    frame = read_table(spark, source, view=str(view))
    of_folders = {name.lower() for name in folders}

    def alike(name: str, of: str) -> Column:
        column = sf.col(quoted(name))
        if of in _NUMBERS:
            return sf.nanvl(column, sf.lit(float("nan")).cast(of)).alias(name)
        # the engine takes the name of no value for a value
        return sf.when(column != NO_VALUE, column).alias(name) if name.lower() in of_folders else column

    return frame.select(*(alike(field.name, field.dataType.simpleString()) for field in frame.schema.fields))
