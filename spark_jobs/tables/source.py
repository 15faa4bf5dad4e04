"""Tables of the lake, at one fixed state.

What is read is decided by names alone: a path, a catalog name, the columns of partitions. A table that does not exist
or cannot be read is refused; a partition that does not exist is an empty table, for its presence would tell whether
some row has that value. Rows with values that do not fit are kept, and what does not fit is null.

What lies under a path or a version must never be written again, and the names of a table's versions are public: a
version that is not there is refused. One limit is Spark's own: a Parquet file that keeps timestamps in milliseconds
must hold none beyond the year 294247, for reading such a value raises, where that column is used at all.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark, without types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField

from spark_jobs.contract.column_types import Kind, normal_type
from spark_jobs.contract.columns import ColumnNeed
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions import tree as tree
from spark_jobs.contract.places import Place
from spark_jobs.contract.tables import Literalish, TableSource
from spark_jobs.tables.csv_files import read_csv
from spark_jobs.tables.expressions import condition_column, field_of, kind_of, quoted

SETTINGS = {
    # a partition column's type would depend on the values of all partitions
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    # neither may a file vanish from a count, nor a date of another calendar raise
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
}
"""What the meaning of a table rests on; set whenever one is read."""

Names = tuple[str, ...]

_REFUSALS = {
    "PATH_NOT_FOUND": ("must be a table that exists", "check the path and its version"),
    "UNABLE_TO_INFER_SCHEMA": ("must be a table with files in it", "check the path and its version"),
    "TABLE_OR_VIEW_NOT_FOUND": ("must be a table that exists", "check the catalog's name of it"),
    "SCHEMA_NOT_FOUND": ("must be a table that exists", "check the catalog's name of it"),
    "UNSUPPORTED_FEATURE.TIME_TRAVEL": (
        "must be a table that keeps its versions, to be pinned by table_version",
        "pin it by snapshot.partition",
    ),
    "CANNOT_MERGE_SCHEMAS": ("must have one type for each column in all its files", "write the files anew"),
    "COLUMN_ALREADY_EXISTS": ("must have columns that differ in more than their case", "rename one of them"),
    "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER": ("must hold whole Parquet files alone", "look for a damaged file"),
}
_UNREADABLE = ("must be a table that can be read", "check its address, its format and who may read it")


def read_table(spark: SparkSession, source: TableSource) -> DataFrame:
    """The table in its pinned state; nothing but its schema has been read, so only that can be wrong.

    Partition columns of a path are strings. See ``spark_jobs.tables.csv_files`` for the reading of csv files.

    Raises:
        InvalidRequest: there is no such table, it cannot be read, its files do not fit together, or it cannot be pinned
            that way. One line; nothing that Spark or a store said is in it.
    """
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    if source.is_catalog:
        return _read_catalog(spark, source)
    path = _folder(spark, source)
    with _refusing("table.path", source.path):
        if source.form == "csv":
            frame = read_csv(spark, path, source.columns or (), bound=source.is_bound)
        else:
            frame = spark.read.option("mergeSchema", "true").parquet(path)
    return _pinned(_declared(frame, source), source, _partition_columns(frame, path))


def _declared(frame: DataFrame, source: TableSource) -> DataFrame:
    """The columns that are declared, in their order; of a table of which none are, all that it has.

    Raises:
        InvalidRequest: the table has not these columns, each of its type. One sentence, whatever differs.
    """
    if source.columns is None or (source.form == "csv" and not source.is_bound):
        return frame
    fields: dict[str, list[StructField]] = {}
    for field in frame.schema.fields:
        fields.setdefault(field.name.lower(), []).append(field)
    matches = [fields.get(column.name.lower(), []) for column in source.columns]
    if any(
        len(alike) != 1 or normal_type(alike[0].dataType.simpleString()) != column.type
        for alike, column in zip(matches, source.columns, strict=True)
    ):
        raise InvalidRequest(
            "table",
            value=source.path or source.name,
            requirement="must have the columns that its account binds, of the same types",
            remedy="compare them with `dp-budget show`; a state that was written otherwise cannot be read",
        )
    names = zip(matches, source.columns, strict=True)
    return frame.select(*(sf.col(quoted(alike[0].name)).alias(column.name) for alike, column in names))


def _folder(spark: SparkSession, source: TableSource) -> str:
    """The folder that is read, as the table's identity has it."""
    system = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS") or "file:///"
    if str(source.path).startswith("/") and not system.startswith("file:"):
        raise InvalidRequest(
            "table.path",
            value=source.path,
            requirement=f"must be a URI where Spark's default file system is another than file://: here it is {system}",
            remedy="write the scheme, as the account's table has it",
        )
    source.pinned.require_real(what="table.path")
    _require_no_links(source)
    return source.pinned.path


def _require_no_links(source: TableSource) -> None:
    """Refuse a folder with symbolic links in it: they may lead to another table, or to the same rows twice."""
    folders = [] if source.pinned.local is None else [source.pinned.local]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                members = list(entries)
        except OSError:
            continue  # Spark says what cannot be read
        if any(entry.is_symlink() for entry in members):
            raise InvalidRequest(
                "table.path",
                value=source.path,
                requirement="must be a folder without symbolic links in it",
                remedy="put the files themselves there",
            )
        folders += [entry.path for entry in members if entry.is_dir(follow_symlinks=False)]


def catalog_table(spark: SparkSession, name: str, *, table_version: int | None = None) -> tuple[DataFrame, Names]:
    """A catalog's table as it is now or at a version, and its partition columns; no row is read.

    Raises:
        InvalidRequest: there is no such table or version, or it is a view.
    """
    quoted_name = ".".join(f"`{part}`" for part in Place.of_catalog(name, what="table.name").path.split("."))
    with _refusing("table.name", name):
        if spark.catalog.getTable(quoted_name).tableType not in ("MANAGED", "EXTERNAL"):
            raise InvalidRequest(
                "table.name",
                value=name,
                requirement="must be a table, and no view: a view reads tables of other accounts",
                remedy="name the table that it reads, or write its rows to one",
            )
        if table_version is not None:
            return spark.sql(f"SELECT * FROM {quoted_name} VERSION AS OF {int(table_version)}"), ()  # noqa: S608
        columns = spark.catalog.listColumns(quoted_name)
        return spark.table(quoted_name), tuple(column.name for column in columns if column.isPartition)


def _read_catalog(spark: SparkSession, source: TableSource) -> DataFrame:
    frame, partitioned = catalog_table(spark, str(source.name), table_version=source.snapshot.table_version)
    return _pinned(_declared(frame, source), source, partitioned)


def _partition_columns(frame: DataFrame, path: str) -> tuple[str, ...]:
    """The columns that the folders of a table's files give, as in ``day=2026-11-21/part-0.parquet``."""
    files = frame.inputFiles()
    below = unquote(files[0]).rpartition("/")[0].removeprefix(path) if files else ""
    names = {unquote(folder.partition("=")[0]) for folder in below.split("/") if "=" in folder}
    return tuple(column for column in frame.columns if column in names)


def _pinned(frame: DataFrame, source: TableSource, partitioned: tuple[str, ...]) -> DataFrame:
    for name, value in (source.snapshot.partition or {}).items():
        need = ColumnNeed(name=name, field="table.snapshot.partition")
        field = field_of(need, frame.schema)
        if field.name.lower() not in {column.lower() for column in partitioned}:
            raise InvalidRequest(
                need.field,
                value=name,
                requirement=f"must be a partition column, which here is {' or '.join(partitioned) or 'none'}",
                remedy="pin the table by the columns that it is partitioned by",
            )
        pin = _pin(need, value, kind_of(field.dataType))
        frame = frame.where(condition_column(pin, frame.schema, field=need.field, text=f"{name}={value}"))
    return frame


def _pin(need: ColumnNeed, value: Literalish, kind: Kind | None) -> tree.Expression:
    """Partition = value, where the column may hold the value as text."""
    column: tree.Expression = tree.ColumnReference(name=need.name)
    literal: Literalish | datetime.date = value
    if kind is Kind.STRING and isinstance(value, bool):
        column, literal = tree.Function(name="LOWER", arguments=(column,)), str(value).lower()
    elif kind is Kind.STRING and isinstance(value, int):
        column = tree.Cast(part=column, to=tree.CastType.BIGINT)
    elif kind is Kind.STRING and isinstance(value, float):
        column = tree.Cast(part=column, to=tree.CastType.DOUBLE)
    elif kind is Kind.DATE and isinstance(value, str):
        literal = _date(need, value)
    return tree.Compare(op="=", left=column, right=tree.Literal(value=literal))


def _date(need: ColumnNeed, text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            need.field, value=f"{need.name}={text}", requirement="must be a date", remedy="write it like 2026-01-31"
        ) from None


@contextmanager
def _refusing(field: str, given: object) -> Iterator[None]:
    """Say in one line of ours why a table cannot be read; Spark's own words may quote what it read."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        bound, remedy = next((_REFUSALS[name] for name in _conditions(error) if name in _REFUSALS), _UNREADABLE)
        raise InvalidRequest(field, value=given, requirement=bound, remedy=remedy) from None


def _conditions(error: Exception) -> list[str]:
    """The names of Spark's error conditions in ``error``, outermost first."""
    return re.findall(r"\[([A-Z_]+(?:\.[A-Z_]+)?)\]", str(error))
