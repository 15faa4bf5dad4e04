"""A reader for tables of a catalog: Hive's metastore, or a catalog of Iceberg or Delta."""

from __future__ import annotations

from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.contract.column_types import normal_type
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.tables.refusals import UNREADABLE, UNREADABLE_VERSION, refusing

FORMATS = ("parquet", "orc", "delta", "iceberg")
"""The formats of which Spark's readers give the same rows whatever is in them, or fail before the first."""
_FILES = ("parquet", "orc")
"""The formats whose files each have types of their own, beside those that the catalog states."""
_UNMARKED = ("parquet", "binary", "string")
"""Some programs do not mark texts as such in Parquet; every reader for texts takes them."""

_HIVE_FORMATS = {
    "org.apache.hadoop.hive.ql.io.parquet.serde.parquethiveserde": "parquet",
    "org.apache.hadoop.hive.ql.io.orc.orcserde": "orc",
}
"""The serialisers of Hive in whose place Spark reads by its own readers."""


def catalog_table(
    spark: SparkSession, name: str, *, table_version: int | None = None
) -> tuple[DataFrame, tuple[str, ...]]:
    """A table of the catalog, in its current state or at a version, and its partition columns; no row is read.

    Raises:
        InvalidRequest: the table or version does not exist, it is a view, or its rows are stored in another format.
    """
    quoted_name = _quoted(name)
    unreadable = UNREADABLE if table_version is None else UNREADABLE_VERSION
    with refusing("table.name", name, unreadable=unreadable):
        _require_catalog(spark, name)
        if spark.catalog.getTable(quoted_name).tableType not in ("MANAGED", "EXTERNAL"):
            raise InvalidRequest(
                "table.name", name, "must be a table, not a view, because a view may read tables of other accounts",
                "name the table that the view reads, or write the view's rows to a table",
            )  # fmt: skip
        _format(spark, name, quoted_name)
        if table_version is not None:
            return spark.sql(f"SELECT * FROM {quoted_name} VERSION AS OF {int(table_version)}"), ()  # noqa: S608
        columns = spark.catalog.listColumns(quoted_name)
        return spark.table(quoted_name), tuple(column.name for column in columns if column.isPartition)


def require_types(spark: SparkSession, name: str, frame: DataFrame) -> None:
    """Raise unless all files of ``frame``, a table in one state, have the types of its columns; no row is read.

    A reader that expects the catalog's types would fail at the first row of a file with other types. A file may lack a
    column.

    Raises:
        InvalidRequest: a file has another type for a column, or cannot be read.
    """
    quoted_name = _quoted(name)
    with refusing("table.name", name):
        form = _format(spark, name, quoted_name)
        files = [unquote(file) for file in frame.inputFiles()] if form in _FILES else []
        if not files:
            return
        options = {"mergeSchema": "true", "recursiveFileLookup": "true"}
        stored = {
            field.name.lower(): field.dataType
            for field in spark.read.options(**options).format(form).load(files).schema
        }
    types = (
        tuple(
            normal_type(one.simpleString()) for one in (stored.get(field.name.lower(), field.dataType), field.dataType)
        )
        for field in frame.schema
    )
    if any(of_files != of_catalog and (form, of_files, of_catalog) != _UNMARKED for of_files, of_catalog in types):
        raise InvalidRequest(
            "table.name", name, "must have the same type for a column in the catalog and in all files",
            "write the files again with the types of the catalog",
        )  # fmt: skip


def _require_catalog(spark: SparkSession, name: str) -> None:
    """Raise one of Spark's errors unless the first part of ``name`` is a catalog.

    Spark would take it for a part of a database's name, and Iceberg's session catalog the last part for a branch.
    """
    current = spark.catalog.currentCatalog()
    try:
        spark.catalog.setCurrentCatalog(Place.of_catalog(name, what="table.name").path.split(".")[0])
    finally:
        spark.catalog.setCurrentCatalog(current)


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in Place.of_catalog(name, what="table.name").path.split("."))


def _format(spark: SparkSession, name: str, quoted_name: str) -> str:
    """In which of ``FORMATS`` the table's rows are stored, as the catalog describes it.

    Raises:
        InvalidRequest: in none of them.
    """
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {quoted_name}").collect()
    # a column may have any name, so only what comes after the last heading is about the table
    last = max((i for i, row in enumerate(rows) if row.col_name.startswith("# Detailed Table")), default=len(rows))
    facts = {row.col_name: str(row.data_type).lower() for row in rows[last:]}
    stored = facts.get("Provider", "unknown")
    if stored == "hive":
        serializer = facts.get("Serde Library", "unknown")
        stored = _HIVE_FORMATS.get(serializer, serializer)
    if stored not in FORMATS:
        raise InvalidRequest(
            "table.name", name,
            f"must be stored as {', '.join(FORMATS)}, and not as {stored}, whose reader may fail on a row",
            "write its rows to such a table",
        )  # fmt: skip
    return stored
