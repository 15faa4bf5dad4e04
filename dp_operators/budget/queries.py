"""Statements, built once and sent the shortest way.

On PostgreSQL they go straight to the driver of the pooled connection: SQLAlchemy's own execution costs a caller several
times as much, and the callers' processors are what a busy ledger runs out of.
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
"""Whether a column holds one of the blocks that are asked for, as a database says it."""


class Query:
    """A query for both kinds of database; its columns are labelled with their tables' names before their own.

    Args:
        build: the query, given how to say that a column is one of the parameter ``blocks``.
    """

    def __init__(self, build: Callable[[AmongBlocks], Select[Any]]) -> None:
        self._build = build

    @cached_property
    def core(self) -> Select[Any]:
        """For SQLAlchemy to execute on SQLite."""
        built = self._build(lambda column: column.in_(bindparam("blocks", expanding=True)))
        return built.set_label_style(LABEL_STYLE_TABLENAME_PLUS_COL)

    @cached_property
    def text(self) -> str:
        """For psycopg."""
        built = self._build(lambda column: column == any_(bindparam("blocks", type_=ARRAY(Text))))
        return str(built.set_label_style(LABEL_STYLE_TABLENAME_PLUS_COL).compile(dialect=PGDialect_psycopg()))  # type: ignore[no-untyped-call]


def fetch(connection: Connection, query: Query | str, given: Mapping[str, Any]) -> Sequence[Any]:
    """A query's rows, with their columns as attributes; text is for psycopg.

    Raises:
        DBAPIError: the database refuses, or is lost.
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
    """Send statements without parameters, in one message where the driver allows several.

    Raises:
        DBAPIError: the database refuses, or is lost.
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
            connection.engine.dispose()  # the pool's other connections went the same way
        raise DBAPIError(None, None, error, connection_invalidated=lost) from None
