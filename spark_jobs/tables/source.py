"""Tables of the data lake, in one pinned state.

The data to read depends only on names: a path, a catalog name, partition columns. A table that does not exist or cannot
be read raises an error; a partition that does not exist is read as an empty table, because an error would disclose
whether some row has that value. Rows with invalid values are kept, and the invalid values are null.

The data under a path or a version must never be overwritten. The names of a table's versions are public: a version that
does not exist raises an error. One limit is Spark's own: a Parquet file with timestamps in milliseconds must not
contain one beyond the year 294247, as reading such a value raises if the column is used.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField
from pyspark.sql.utils import is_remote

from spark_jobs.contract.binding import Format
from spark_jobs.contract.column_types import Kind, normal_type
from spark_jobs.contract.columns import ColumnNeed
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions import tree as tree
from spark_jobs.contract.file_checks import check_footers, footers_of, pinned_names, require_no_links
from spark_jobs.contract.footers import is_readable, readable_part
from spark_jobs.contract.snapshots import Literalish
from spark_jobs.contract.store.table_files import UnlistedStore, partition_columns, require_all_rows
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.catalogs import catalog_table, require_types
from spark_jobs.tables.csv_files import read_csv
from spark_jobs.tables.databases import read_database
from spark_jobs.tables.expressions import condition_column, field_of, kind_of, quoted
from spark_jobs.tables.hadoop_files import listed
from spark_jobs.tables.json_files import read_json
from spark_jobs.tables.parquet_files import read_parquet
from spark_jobs.tables.refusals import UNREADABLE, UNREADABLE_VERSION, refusing
from spark_jobs.tables.texts import ASSUMED, UNPARSED, converted

SETTINGS = {
    # otherwise the type of a partition column depends on the values of all partitions
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    # a missing file must not be ignored, and a date of another calendar must not raise
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # Hive's own readers fail on a row where Spark's give null
    "spark.sql.hive.convertMetastoreParquet": "true",
    "spark.sql.hive.convertMetastoreOrc": "true",
}
"""The settings that determine the contents of a table; set whenever one is read."""


def read_table(
    spark: SparkSession, source: TableSource, *, parsing: bool = False, view: str | None = None
) -> DataFrame:
    """The table in its pinned state; only its schema is read, so that errors do not depend on rows.

    With ``parsing``, a table of text files also has the column ``UNPARSED``. ``view`` is a folder of this machine whose
    Parquet files are read in place of the table's own.

    Partition columns of a path are strings. For csv and JSON files see
    ``spark_jobs.tables.csv_files`` and ``json_files``.

    Raises:
        InvalidRequest: the table does not exist or cannot be read, its files have different schemas, or it cannot be
            pinned in this way. The message is one line and quotes nothing from Spark or a store.
    """
    _apply_settings(spark)
    unreadable = UNREADABLE if source.snapshot.table_version is None else UNREADABLE_VERSION
    field = "table.name" if source.path is None else "table.path"
    with refusing(field, source.path or source.name, unreadable=unreadable):
        reader = _READERS[source.form] if view is None else partial(_parquet, view=view)
        frame, partitioned = reader(spark, source)
        pinned = _pinned(_declared(frame, source), source, partitioned)
    if source.form == "catalog" and source.snapshot.table_version is None:
        require_types(spark, str(source.name), pinned)
    return pinned if parsing else pinned.drop(UNPARSED)


def read_arrivals(spark: SparkSession, source: TableSource) -> DataFrame:
    """A stream of the rows of the Parquet files in the table's folder, and of files that arrive there later.

    The stream has the declared columns; a column that a file lacks is null in its rows.

    Raises:
        InvalidRequest: as for ``read_table``.
    """
    _apply_settings(spark)
    path = _folder(spark, source)
    schema = ", ".join(f"{quoted(column.name)} {column.type}" for column in source.columns or ())
    with refusing("table.path", source.path):
        frame = spark.readStream.schema(schema).parquet(path)
    return _declared(frame, source)


def _apply_settings(spark: SparkSession) -> None:
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)


def _declared(frame: DataFrame, source: TableSource) -> DataFrame:
    """The declared columns in their order, or all columns of the table if none are declared.

    Raises:
        InvalidRequest: a declared column is missing or has another type. The message is the same in all cases.
    """
    if source.columns is None or (source.form in ("csv", "json") and not source.is_bound):
        return frame
    fields: dict[str, list[StructField]] = {}
    for field in frame.schema.fields:
        fields.setdefault(field.name.lower(), []).append(field)
    # of Parquet files, columns that no engine reads are left out
    columns = [column for column in source.columns if source.form != "parquet" or is_readable(column.type)]
    matches = [fields.get(column.name.lower(), []) for column in columns]
    if any(
        len(alike) != 1 or normal_type(alike[0].dataType.simpleString()) != readable_part(column.type)
        for alike, column in zip(matches, columns, strict=True)
    ):
        raise InvalidRequest(
            "table", source.path or source.name, "must have the columns that its account binds, of the same types",
            "compare them with `dp-budget show`; a state with other columns cannot be read",
        )  # fmt: skip
    names = zip(matches, columns, strict=True)
    columns_of_own = [UNPARSED] if UNPARSED in frame.columns else []
    return frame.select(*(sf.col(quoted(alike[0].name)).alias(column.name) for alike, column in names), *columns_of_own)


def _folder(spark: SparkSession, source: TableSource) -> str:
    """The folder to read, as in the table's identity."""
    if is_remote():  # the default of a server cannot be read, so the scheme is always given
        source.pinned.require_real(what="table.path")
        path = source.pinned.path
        return f"file://{path}" if path.startswith("/") else path
    system = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS") or "file:///"
    if str(source.path).startswith("/") and not system.startswith("file:"):
        raise InvalidRequest(
            "table.path", source.path,
            f"must be a URI, because Spark's default file system is {system} and not file://",
            "add the scheme, as in the account's table",
        )  # fmt: skip
    source.pinned.require_real(what="table.path")
    require_no_links(source)
    return source.pinned.path


def _catalog(spark: SparkSession, source: TableSource) -> tuple[DataFrame, tuple[str, ...]]:
    return catalog_table(spark, str(source.name), table_version=source.snapshot.table_version)


def _database(spark: SparkSession, source: TableSource) -> tuple[DataFrame, tuple[str, ...]]:
    # any declared column may be the version; the reader has left out what cannot be in it
    return read_database(spark, source), tuple(source.snapshot.partition or ())


def _files_folder(spark: SparkSession, source: TableSource) -> str:
    """The folder of a table of files, which all lie at one depth as far as this process can list them."""
    path = _folder(spark, source)
    with suppress(UnlistedStore):
        require_all_rows(listed(spark, path, source.pinned.local), field="table.path", value=source.path)
    return path


def _csv(spark: SparkSession, source: TableSource) -> tuple[DataFrame, tuple[str, ...]]:
    path = _files_folder(spark, source)
    frame = read_csv(spark, path, source.columns or (), bound=source.is_bound, form=source.file_form or ASSUMED)
    return frame, _partition_columns(frame, path)


def _json(spark: SparkSession, source: TableSource) -> tuple[DataFrame, tuple[str, ...]]:
    path = _files_folder(spark, source)
    frame = read_json(spark, path, source.columns or (), form=source.file_form or ASSUMED)
    return frame, _partition_columns(frame, path)


def _parquet(spark: SparkSession, source: TableSource, view: str | None = None) -> tuple[DataFrame, tuple[str, ...]]:
    """Parquet files by their footers, where this process can list them; else as Spark merges their schemas."""
    path = view or _folder(spark, source)
    try:
        files = listed(spark, path, view or source.pinned.local)
    except UnlistedStore:
        return _columnar(spark, source)
    require_all_rows(files, field="table.path", value=source.path)
    if not files.names:
        return _columnar(spark, source)  # Spark says whether there is a folder
    folders = partition_columns(files.names[0])
    pinned = pinned_names(source, files.names)
    footers = footers_of(source, files, pinned if pinned or source.columns is not None else files.names)
    check_footers(source, footers)
    if not footers and source.columns is None:
        return _columnar(spark, source)
    return _folders_typed(read_parquet(spark, path, source.columns, footers, folders=folders), source, folders), folders


def _columnar(spark: SparkSession, source: TableSource) -> tuple[DataFrame, tuple[str, ...]]:
    path = _files_folder(spark, source)
    frame = spark.read.option("mergeSchema", "true").format(source.form).load(path)
    folders = _partition_columns(frame, path)
    return _folders_typed(frame, source, folders), folders


def _folders_typed(frame: DataFrame, source: TableSource, folders: tuple[str, ...]) -> DataFrame:
    """The values that folders are named by, as values of the bound types, or null."""
    types = {column.name.lower(): column.type for column in source.columns or ()}
    bound = {name: types[name.lower()] for name in folders if name.lower() in types}
    typed = {name: converted(sf.col(quoted(name)), of).alias(name) for name, of in bound.items() if of != "string"}
    return frame.withColumns(typed) if typed else frame  # Spark Connect takes no empty list


def _delta(spark: SparkSession, source: TableSource) -> tuple[DataFrame, tuple[str, ...]]:
    path = _folder(spark, source)
    return spark.read.format("delta").option("versionAsOf", str(source.snapshot.table_version)).load(path), ()


def _iceberg(spark: SparkSession, source: TableSource) -> tuple[DataFrame, tuple[str, ...]]:
    path = _folder(spark, source)
    return spark.read.format("iceberg").option("snapshot-id", str(source.snapshot.table_version)).load(path), ()


_READERS: dict[Format, Callable[[SparkSession, TableSource], tuple[DataFrame, tuple[str, ...]]]] = {
    "parquet": _parquet,
    "orc": _columnar,
    "csv": _csv,
    "json": _json,
    "delta": _delta,
    "iceberg": _iceberg,
    "catalog": _catalog,
    "jdbc": _database,
}
"""For each format, what reads a table: its rows, and the columns that may be pinned."""


def _partition_columns(frame: DataFrame, path: str) -> tuple[str, ...]:
    """The columns in the folder names of a table's files, as in ``day=2026-11-21/part-0.parquet``."""
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
                need.field, name, f"must be a partition column; this table has {' and '.join(partitioned) or 'none'}",
                "pin the table by the columns that it is partitioned by",
            )  # fmt: skip
        pin = _pin(need, value, kind_of(field.dataType))
        frame = frame.where(condition_column(pin, frame.schema, field=need.field, text=f"{name}={value}"))
    return frame


def _pin(need: ColumnNeed, value: Literalish, kind: Kind | None) -> tree.Expression:
    """The condition that the partition column equals the value, which the column may contain as text."""
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
        raise InvalidRequest(need.field, f"{need.name}={text}", "must be a date", "write it like 2026-01-31") from None
