"""Queries, built once and executed with little overhead.

On PostgreSQL they go directly to the driver of the pooled connection: SQLAlchemy's own execution takes several times as
much processor time of the client, which is the bottleneck of a busy ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import LABEL_STYLE_TABLENAME_PLUS_COL, ColumnElement, Connection, Select, Text, any_, bindparam
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

AmongBlocks = Callable[[ColumnElement[str]], ColumnElement[bool]]
"""The condition that a column is one of the parameter ``blocks``, in the dialect of a database."""


class Query:
    """A query for both kinds of database; its column labels are prefixed with the names of their tables.

    Args:
        build: makes the query, given the condition that a column is one of the parameter ``blocks``.
    """

    def __init__(self, build: Callable[[AmongBlocks], Select[Any]]) -> None:
        self._build = build

    @cached_property
    def core(self) -> Select[Any]:
        """The query for SQLAlchemy to execute on SQLite."""
        built = self._build(lambda column: column.in_(bindparam("blocks", expanding=True)))
        return built.set_label_style(LABEL_STYLE_TABLENAME_PLUS_COL)

    @cached_property
    def text(self) -> str:
        """The query's text for psycopg."""
        built = self._build(lambda column: column == any_(bindparam("blocks", type_=ARRAY(Text))))
        return str(built.set_label_style(LABEL_STYLE_TABLENAME_PLUS_COL).compile(dialect=PGDialect_psycopg()))  # type: ignore[no-untyped-call]


def fetch(connection: Connection, query: Query | str, given: Mapping[str, Any]) -> Sequence[Any]:
    """The rows of a query, with columns as attributes; a query given as text is for psycopg.

    Raises:
        DBAPIError: the database rejects it, or the connection is lost.
    """
    if connection.dialect.name != "postgresql":
        if isinstance(query, str):
            raise TypeError("text is for psycopg")
        return connection.execute(query.core, dict(given)).all()
    from psycopg.rows import namedtuple_row

    text = query if isinstance(query, str) else query.text
    rows: Sequence[Any] = _by_driver(
        connection, lambda driver: driver.cursor(row_factory=namedtuple_row).execute(text, given).fetchall()
    )
    return rows


def run(connection: Connection, statements: str) -> None:
    """Execute statements without parameters, in one message where the driver allows several.

    Raises:
        DBAPIError: the database rejects them, or the connection is lost.
    """
    if connection.dialect.name == "postgresql":
        _by_driver(connection, lambda driver: driver.execute(statements))
    else:
        connection.exec_driver_sql(statements)


def _by_driver(connection: Connection, call: Callable[[Any], Any]) -> Any:
    from psycopg import Error

    driver: Any = connection.connection.driver_connection
    try:
        return call(driver)
    except Error as error:
        lost = bool(driver.closed)
        if lost:
            connection.invalidate()
            connection.engine.dispose()  # the pool's other connections are lost as well
        raise DBAPIError(None, None, error, connection_invalidated=lost) from None
