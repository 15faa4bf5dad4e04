"""A reader for tables of PostgreSQL, all of whose rows come from one snapshot of the database.

A transaction on the driver exports its snapshot and stays open until the session ends; each partition is read in a
transaction that imports it, so that parallel reads, further passes and repeated tasks see the same rows. A task that
cannot import it fails.

Every value leaves the database as text and is converted as by TRY_CAST, just as in csv files: no value can raise. The
text of a request never reaches the database: identifiers are those of its own catalog, and the values of a version are
plain words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark, without types
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.utils import is_remote

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.jdbc import JdbcConnection, Partitioning, connection_of
from spark_jobs.contract.places import Place
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.texts import converted

DRIVER = "org.postgresql.Driver"
_ROWS_AT_ONCE = 10_000  # with a number of rows the driver reads in a transaction, not all rows at once
_REPEATABLE_READ = 4
_KEY = "k"

_SIMPLE = {
    "boolean": "boolean",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "real": "float",
    "double precision": "double",
    "date": "date",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamp",
    "numeric": "decimal(38,18)",
}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_WHOLE = ("smallint", "int", "bigint")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.:+ -]{1,200}")

_TABLE_QUERY = """
SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relname = ? AND c.relkind IN ('r', 'p')
AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid)
"""
_COLUMNS_QUERY = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE a.attrelid = ? AND a.attnum > 0 AND NOT a.attisdropped AND (n.nspname = 'pg_catalog' OR t.typtype = 'e')
ORDER BY a.attnum
"""

_transactions: WeakKeyDictionary[SparkSession, list[Any]] = WeakKeyDictionary()
"""The connections whose transactions keep a snapshot, for as long as their session is used."""


@dataclass(frozen=True, kw_only=True)
class _Snapshot:
    """An exported snapshot, and the columns of a table in it with the types that they are read as."""

    name: str
    types: Mapping[str, str]


def read_database(spark: SparkSession, source: TableSource) -> DataFrame:
    """The declared columns of a table of a database, and of its version the rows of which may be others.

    Raises:
        InvalidRequest: the connection or table is not allowed, the table is a view or a part of another table, or the
            column of the partitioning is not one of whole numbers.
        Py4JJavaError: the database does not answer or refuses.
    """
    if is_remote():
        raise InvalidRequest(
            "table.name", value=source.name, requirement="cannot be read over Spark Connect, which has no place to "
            "hold a snapshot of the database", remedy="run the release by spark-submit",
        )  # fmt: skip
    table = Place.of_database(str(source.name), what="table.name").path
    connection = connection_of(table, os.environ)
    options = _options(connection)
    _, schema, name = table.split(".")
    snapshot = _snapshot(spark, connection.url, options, (schema, name), source)
    bounds = source.partitioning
    if bounds is None:
        raise ValueError("a table of a database is read by bounds")  # its request has required them
    columns = tuple(snapshot.types)
    key = _key(bounds, snapshot.types)
    texts = ", ".join(f"({_quoted(column)})::pg_catalog.text AS c{place}" for place, column in enumerate(columns))
    conditions = [f"{_quoted(column)} = {value}" for column, value in _pins(source, snapshot.types)]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    query = (
        f"SELECT {texts}, ({_quoted(key)})::pg_catalog.int8 AS {_KEY} "  # noqa: S608 - names of the catalog, plain words
        f"FROM {_quoted(schema)}.{_quoted(name)}{where}"
    )
    frame = (
        spark.read.format("jdbc")
        .options(**options, url=connection.url, dbtable=f"({query}) AS t", driver=DRIVER)
        .options(partitionColumn=_KEY, lowerBound=bounds.lower, upperBound=bounds.upper)
        .options(numPartitions=bounds.partitions, fetchsize=_ROWS_AT_ONCE, pushDownPredicate="false")
        .option("sessionInitStatement", _importing(snapshot.name))
        .load()
    )
    return frame.select(
        *(converted(sf.col(f"c{place}"), snapshot.types[column]).alias(column) for place, column in enumerate(columns))
    )


def _options(connection: JdbcConnection) -> dict[str, str]:
    given = {"user": connection.user, "password": connection.password()}
    return {name: value for name, value in given.items() if value is not None}


def _snapshot(
    spark: SparkSession, url: str, options: Mapping[str, str], name: tuple[str, str], source: TableSource
) -> _Snapshot:
    """Begin a transaction that stays open, and export its snapshot."""
    jvm: Any = spark._jvm
    try:
        jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(DRIVER)
    except Py4JJavaError:
        raise InvalidRequest(
            "table.name", value=source.name, requirement=f"needs {DRIVER} on Spark's class path",
            remedy="add PostgreSQL's JDBC driver by spark.jars",
        ) from None  # fmt: skip
    properties = jvm.java.util.Properties()
    for option, value in options.items():
        properties.setProperty(option, value)
    transaction = jvm.java.sql.DriverManager.getConnection(url, properties)
    _transactions.setdefault(spark, []).append(transaction)
    transaction.setReadOnly(True)
    transaction.setTransactionIsolation(_REPEATABLE_READ)
    transaction.setAutoCommit(False)
    _rows(transaction, "SET LOCAL search_path TO pg_catalog")
    _rows(transaction, "SET LOCAL idle_in_transaction_session_timeout TO 0")
    [[exported]] = _rows(transaction, "SELECT pg_catalog.pg_export_snapshot()")
    tables = list(_rows(transaction, _TABLE_QUERY, *name))
    if len(tables) != 1:
        raise InvalidRequest(
            "table.name", value=source.name,
            requirement="must be a table that exists, and neither a view nor a partition of another table",
            remedy="name the whole table",
        )  # fmt: skip
    readable = {column: _type(of) for column, of in _rows(transaction, _COLUMNS_QUERY, int(tables[0][0]))}
    declared = {column.name.lower() for column in source.columns} if source.columns else set(map(str.lower, readable))
    return _Snapshot(name=exported, types={name: of for name, of in readable.items() if name.lower() in declared})


def _rows(transaction: Any, statement: str, *values: object) -> Iterator[list[str]]:
    """Run a statement; its rows as texts, if it has any."""
    prepared = transaction.prepareStatement(statement)
    try:
        for place, value in enumerate(values, start=1):
            prepared.setLong(place, value) if isinstance(value, int) else prepared.setString(place, value)
        rows: list[list[str]] = []
        if prepared.execute():
            result = prepared.getResultSet()
            width = result.getMetaData().getColumnCount()
            while result.next():
                rows.append([str(result.getString(place)) for place in range(1, width + 1)])
        return iter(rows)
    finally:
        prepared.close()


def _importing(snapshot: str) -> str:
    return (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; "
        f"SET TRANSACTION SNAPSHOT '{snapshot}'; SET LOCAL search_path TO pg_catalog; SET LOCAL TIME ZONE 'UTC'"
    )


def _type(of: str) -> str:
    """The type that a column is read as, given PostgreSQL's own name of it; text for whatever has no other."""
    number = _NUMERIC.fullmatch(of)
    if number and 0 < int(number[1]) <= 38 and int(number[2]) <= int(number[1]):
        return f"decimal({number[1]},{number[2]})"
    return _SIMPLE.get(of, "string")


def _key(partitioning: Partitioning, types: Mapping[str, str]) -> str:
    alike = [column for column in types if column.lower() == partitioning.column.lower()]
    if len(alike) != 1 or types[alike[0]] not in _WHOLE:
        raise InvalidRequest(
            "table.partitioning.column", value=partitioning.column,
            requirement="must be a declared column of whole numbers", remedy="name another column",
        )  # fmt: skip
    return alike[0]


def _pins(source: TableSource, types: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    """The columns of the version and the literals that they must equal; the caller compares once more, exactly."""
    pins = []
    for name, value in (source.snapshot.partition or {}).items():
        for column in (column for column in types if column.lower() == name.lower()):
            if isinstance(value, int) and not isinstance(value, bool):
                pins.append((column, str(value)))
            elif isinstance(value, str) and _PLAIN_VALUE.fullmatch(value):
                pins.append((column, f"'{value}'"))
            else:
                raise InvalidRequest(
                    "table.snapshot.partition", value=f"{name}={value}",
                    requirement="must be a whole number, or text of letters, digits and any of _ . : + - and spaces",
                    remedy="name the versions of the table so",
                )  # fmt: skip
    return pins


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
