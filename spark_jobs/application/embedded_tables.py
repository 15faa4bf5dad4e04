"""What the embedded engine reads: the columns that a request needs, and of these no value on which it would fail."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.application.count_statistics import prepare
from spark_jobs.contract.embedded_engine import needed_columns, require_embedded
from spark_jobs.contract.file_checks import pinned_names
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.table_files import NO_VALUE, TableFiles, partition_columns
from spark_jobs.contract.tables import TableSource
from spark_jobs.embedded.client import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_NUMBERS = ("float", "double")


def prepare_embedded(spark: SparkSession, request: ReleaseRequest) -> DataFrame:
    """As ``count_statistics.prepare``, with a session of the embedded engine.

    Raises:
        InvalidRequest: likewise, or the request needs Spark.
    """
    require_embedded(request)
    source = request.table.model_copy(update={"columns": needed_columns(request)})
    return prepare(spark, request.model_copy(update={"table": source}), read=read_embedded)


def read_embedded(spark: SparkSession, source: TableSource) -> DataFrame:
    """The bound columns of Parquet files; what NaN a file has, is the one that all engines put above all numbers.

    Raises:
        InvalidRequest: the table cannot be read.
    """
    from pyspark.sql import functions as sf

    from spark_jobs.tables.expressions import quoted
    from spark_jobs.tables.source import read_table, require_no_links
    from spark_jobs.tables.views import make_view

    require_no_links(source)
    files = TableFiles.of(source.pinned)
    view = Path(tempfile.mkdtemp(dir=str(spark.conf.get(FOLDER)))) / "table"
    folders = partition_columns(files.names[0])
    make_view(
        Path(files.folder),
        pinned_names(source, files.names),
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
