"""A reader for PostgreSQL tables, all of whose rows come from one snapshot of the database.

A transaction on the driver locks the table (``ACCESS SHARE``), exports its snapshot and stays open until the session
ends. Each partition is read in a transaction that imports this snapshot, so that parallel reads, further passes and
repeated tasks see the same rows. A task fails if it cannot import the snapshot, if the name now means another table, if
a policy of row-level security would hide rows from it, or if it would wait behind somebody who wants to change the
table.

Every value leaves the database as text and is converted as by TRY_CAST, just as in csv files: no value can raise.
Whatever the database would compute while it reads is refused or left out: views, rows behind policies, virtual
generated columns. The text of a request never reaches the database: identifiers are taken from its own catalog, and the
values that pin a version are plain words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.utils import is_remote

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.jdbc import JdbcConnection, Partitioning, connection_of
from spark_jobs.contract.places import Place
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.java_errors import JAVA_ERRORS
from spark_jobs.tables.texts import converted

DRIVER = "org.postgresql.Driver"
_ROWS_AT_ONCE = 10_000  # with a number of rows the driver reads in a transaction, not all rows at once
_REPEATABLE_READ = 4
_KEY = "k"
LOCK_WAIT = "10s"
"""How long a lock is waited for: one who waits to change the table keeps tasks out until the driver lets go of it."""

_SETTINGS = {
    "search_path": "pg_catalog",
    "row_security": "off",  # a policy makes the read fail, and hides no row
    # how values are written, whatever the role or the server prefers
    "TimeZone": "'UTC'",
    "DateStyle": "'ISO'",
    "IntervalStyle": "'postgres'",
    "extra_float_digits": "3",
    "bytea_output": "'hex'",
    "lc_monetary": "'C'",
}

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

_STATE_QUERY = "SELECT pg_catalog.pg_export_snapshot(), pg_catalog.current_setting('server_encoding')"
_TREE_QUERY = """
WITH RECURSIVE tree (oid, depth) AS (
    SELECT c.oid, 0 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ? AND c.relname = ? AND c.relkind IN ('r', 'p')
    AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_inherits i WHERE i.inhrelid = c.oid)
    UNION ALL
    SELECT i.inhrelid, tree.depth + 1 FROM tree JOIN pg_catalog.pg_inherits i ON i.inhparent = tree.oid
)
SELECT c.oid, c.relkind, pg_catalog.row_security_active(c.oid)
FROM tree JOIN pg_catalog.pg_class c ON c.oid = tree.oid ORDER BY tree.depth, c.oid
"""
_COLUMNS_QUERY = """
SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE a.attrelid = ? AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'
AND (n.nspname = 'pg_catalog' OR t.typtype = 'e')
ORDER BY a.attnum
"""
_NO_TABLE = (
    "must be a table that exists, and neither a view nor a partition of another table",
    "name the whole table",
)
_NO_LOCK = (
    f"must be a table that nobody changes: it could not be locked for reading in {LOCK_WAIT}",
    "repeat the release once the other transaction has ended",
)
_LOCK_REFUSALS = {"42P01": _NO_TABLE, "3F000": _NO_TABLE, "42809": _NO_TABLE, "55P03": _NO_LOCK}
"""What is wrong with a table, by PostgreSQL's error when it is locked: undefined, of the wrong kind, not available."""

_transactions: WeakKeyDictionary[SparkSession, list[Any]] = WeakKeyDictionary()
"""The connections whose transactions keep a snapshot, for as long as their session is used."""


@dataclass(frozen=True, kw_only=True)
class _Snapshot:
    """An exported snapshot, and a table in it.

    Attributes:
        name: what the snapshot is imported by.
        tables: the numbers (oid) of the table and of all its partitions.
        types: its columns, with the types that they are read as.
    """

    name: str
    tables: Sequence[str]
    types: Mapping[str, str]


def read_database(spark: SparkSession, source: TableSource) -> DataFrame:
    """The declared columns of a database table. Rows of other versions may be among its rows; the caller filters them.

    Raises:
        InvalidRequest: the connection or table is not allowed; the table is a view or a part of another table, has
            children that are no partitions, is behind a policy or cannot be locked; the database is not in UTF-8; or
            the partitioning column does not hold whole numbers.
        Py4JJavaError: the database does not answer or refuses.
    """
    if is_remote():
        raise InvalidRequest(
            "table.name", source.name, "cannot be read over Spark Connect, which has no place to "
            "hold a snapshot of the database", "run the release by spark-submit",
        )  # fmt: skip
    table = Place.of_database(str(source.name), what="table.name").path
    connection = connection_of(table, os.environ)
    options = _options(connection)
    transaction = _begun(spark, connection.url, options, source)
    try:
        frame = _frame(spark, source, connection.url, options, table.partition(".")[2], transaction)
    except BaseException:
        transaction.close()  # and with it the lock
        raise
    _transactions.setdefault(spark, []).append(transaction)
    return frame


def _frame(
    spark: SparkSession, source: TableSource, url: str, options: Mapping[str, str], name: str, transaction: Any
) -> DataFrame:
    schema, _, table = name.partition(".")
    whole = f"{_quoted(schema)}.{_quoted(table)}"
    snapshot = _snapshot(transaction, whole, (schema, table), source)
    bounds = source.partitioning
    if bounds is None:
        raise ValueError("a table of a database is read by bounds")  # its request has required them
    columns = tuple(snapshot.types)
    key = _key(bounds, snapshot.types)
    texts = ", ".join(f"({_quoted(column)})::pg_catalog.text AS c{place}" for place, column in enumerate(columns))
    # the lock lets others attach a partition, whose rows the snapshot may contain
    conditions = [f"tableoid IN ({', '.join(snapshot.tables)})"]
    conditions += [f"{_quoted(column)} = {value}" for column, value in _pins(source, snapshot.types)]
    query = (
        f"SELECT {texts}, ({_quoted(key)})::pg_catalog.int8 AS {_KEY} "  # noqa: S608 - names of the catalog, plain words
        f"FROM {whole} WHERE {' AND '.join(conditions)}"
    )
    frame = (
        spark.read.format("jdbc")
        .options(**options, url=url, dbtable=f"({query}) AS t", driver=DRIVER)
        .options(partitionColumn=_KEY, lowerBound=bounds.lower, upperBound=bounds.upper)
        .options(numPartitions=bounds.partitions, fetchsize=_ROWS_AT_ONCE, pushDownPredicate="false")
        .option("sessionInitStatement", _importing(snapshot, whole))
        .load()
    )
    return frame.select(
        *(converted(sf.col(f"c{place}"), snapshot.types[column]).alias(column) for place, column in enumerate(columns))
    )


def _options(connection: JdbcConnection) -> dict[str, str]:
    given = {"user": connection.user, "password": connection.password()}
    return {name: value for name, value in given.items() if value is not None}


def _begun(spark: SparkSession, url: str, options: Mapping[str, str], source: TableSource) -> Any:
    """A transaction in which nothing has been read."""
    jvm: Any = spark._jvm
    try:
        jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(DRIVER)
    except JAVA_ERRORS:
        raise InvalidRequest(
            "table.name", source.name, f"needs {DRIVER} on Spark's class path",
            "add PostgreSQL's JDBC driver by spark.jars",
        ) from None  # fmt: skip
    properties = jvm.java.util.Properties()
    for option, value in options.items():
        properties.setProperty(option, value)
    transaction = jvm.java.sql.DriverManager.getConnection(url, properties)
    transaction.setReadOnly(True)
    transaction.setTransactionIsolation(_REPEATABLE_READ)
    transaction.setAutoCommit(False)
    return transaction


def _snapshot(transaction: Any, whole: str, name: tuple[str, str], source: TableSource) -> _Snapshot:
    """Lock the table, so that it stays what its name means and keeps its rows; then export a snapshot and look at it.

    The lock comes first: a snapshot from before it could contain rows that are gone.
    """
    for setting in (*_settings(), "SET LOCAL idle_in_transaction_session_timeout TO 0"):
        _rows(transaction, setting)
    try:
        _rows(transaction, f"LOCK TABLE {whole} IN ACCESS SHARE MODE")
    except JAVA_ERRORS as error:
        if (refusal := _LOCK_REFUSALS.get(str(error.java_exception.getSQLState()))) is None:
            raise
        raise _refused(source, *refusal) from None
    [[exported, encoding]] = _rows(transaction, _STATE_QUERY)
    if encoding != "UTF8":  # it may contain bytes that are no text, which fail when they are read
        raise _refused(
            source, f"must be in a database whose encoding is UTF8, not {encoding}", "copy it into one that is"
        )
    tree = list(_rows(transaction, _TREE_QUERY, *name))
    if not tree:
        raise _refused(source, *_NO_TABLE)
    kinds = [kind for _, kind, _ in tree]
    if kinds != ["r"] and not (kinds[0] == "p" and {*kinds} <= {"r", "p"}):
        # a child may have several parents, and a foreign table may be any table: rows with two names
        raise _refused(
            source, "must have no children other than partitions that are tables of the database itself",
            "write its rows to one table",
        )  # fmt: skip
    if any(guarded == "t" for *_, guarded in tree):
        # a policy computes which rows there are, perhaps from other tables
        raise _refused(
            source, "must be a table without policies of row-level security for the connection's user, on it or on "
            "any partition", "read it as a user with BYPASSRLS",
        )  # fmt: skip
    tables = [number for number, *_ in tree]
    readable = {column: _type(of) for column, of in _rows(transaction, _COLUMNS_QUERY, int(tables[0]))}
    declared = {column.name.lower() for column in source.columns} if source.columns else set(map(str.lower, readable))
    types = {name: of for name, of in readable.items() if name.lower() in declared}
    return _Snapshot(name=exported, tables=tables, types=types)


def _refused(source: TableSource, requirement: str, remedy: str) -> InvalidRequest:
    return InvalidRequest("table.name", source.name, requirement, remedy)


def _settings() -> Iterator[str]:
    for name, value in {**_SETTINGS, "lock_timeout": f"'{LOCK_WAIT}'"}.items():
        yield f"SET LOCAL {name} TO {value}"


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


def _importing(snapshot: _Snapshot, whole: str) -> str:
    statements = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
        f"SET TRANSACTION SNAPSHOT '{snapshot.name}'",
        *_settings(),
        # fails if the name means another table by now, as when the schema has been renamed, which no lock prevents
        f"SELECT 1 / (pg_catalog.to_regclass('{whole}')::pg_catalog.oid = {snapshot.tables[0]})::pg_catalog.int4",
    )
    return "; ".join(statements)


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
            "table.partitioning.column", partitioning.column, "must be a declared column of whole numbers",
            "name another column",
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
                    "table.snapshot.partition", f"{name}={value}",
                    "must be a whole number, or text of letters, digits and any of _ . : + - and spaces",
                    "name the versions of the table in this form",
                )  # fmt: skip
    return pins


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
