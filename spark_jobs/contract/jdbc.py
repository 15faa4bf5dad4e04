"""Tables of databases: the connections that an administrator allows, and how a request splits the reading of a table.

A request names a connection and one of its tables; address, user and password are in a file that the administrator
writes, and that only the driver reads. The file is the JSON object

    {"warehouse": {"url": "jdbc:postgresql://db.example/lake", "user": "reader", "password_file": "/run/secrets/lake",
                   "tables": ["public.visits"]}}
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import Frozen

CONNECTIONS_VARIABLE = "DP_DIAGNOSTICS_JDBC"
"""The environment variable that names the file of connections."""

MAX_PARTITIONS = 1000
_URL = re.compile(r"jdbc:postgresql://[A-Za-z0-9._\[\]:,-]+/[A-Za-z0-9._$-]+(\?[^#\s]*)?")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*\.[A-Za-z_][A-Za-z0-9_$]*")


class Partitioning(Frozen):
    """How Spark splits the reading of a database's table, by public ranges of a column that together have every row.

    Attributes:
        column: a column of whole numbers.
        lower: the lower bound of the ranges; rows below are read with the first range.
        upper: the upper bound of the ranges; rows above are read with the last range.
        partitions: the number of ranges, each read over a connection of its own.
    """

    column: Annotated[str, Field(min_length=1, max_length=255)]
    lower: Annotated[int, Field(ge=-(2**62), le=2**62)]
    upper: Annotated[int, Field(ge=-(2**62), le=2**62)]
    partitions: Annotated[int, Field(ge=1, le=MAX_PARTITIONS)]

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if self.lower >= self.upper:
            raise InvalidRequest(
                "upper", self.upper, f"must be above lower, {self.lower}",
                "give public bounds of the column, in ascending order",
            )  # fmt: skip
        return self


class JdbcConnection(Frozen):
    """A database that requests may read, as its administrator describes it.

    Attributes:
        url: its address, ``jdbc:postgresql://host/database``, with the driver's properties after a ``?``.
        user: the database user; None if the address or the server decides it.
        password_file: the file with the password; None if no password is needed.
        tables: the tables that may be read, as ``schema.table``.
    """

    url: str
    user: str | None = None
    password_file: str | None = None
    tables: Annotated[tuple[str, ...], Field(min_length=1)]

    @field_validator("url")
    @classmethod
    def _of_postgresql(cls, value: str) -> str:
        if not _URL.fullmatch(value):
            raise InvalidRequest(
                "", None, "must be the address of a PostgreSQL database",
                "write it like jdbc:postgresql://host:5432/database",
            )  # fmt: skip
        return value

    @field_validator("tables")
    @classmethod
    def _are_tables(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for table in value:
            if not _TABLE.fullmatch(table):
                raise InvalidRequest(
                    "", table, "must be a schema and a table, such as public.visits", "correct the name"
                )
        return value

    @property
    def database(self) -> str:
        """The address without the driver's properties."""
        return self.url.partition("?")[0].lower().replace(":5432/", "/")

    def password(self) -> str | None:
        """The password in ``password_file``; None if no file is named.

        Raises:
            InvalidRequest: the file cannot be read.
        """
        if self.password_file is None:
            return None
        try:
            return Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, ValueError):
            raise InvalidRequest(
                f"{CONNECTIONS_VARIABLE}.password_file", None, "must name a file that can be read",
                "mount the secret there",
            ) from None  # fmt: skip


def connection_of(table: str, environ: Mapping[str, str]) -> JdbcConnection:
    """The connection of ``table``, such as ``warehouse.public.visits``, which must be one of its tables.

    Raises:
        InvalidRequest: there is no file of connections, the file is malformed, or it does not allow the table; the
            message does not distinguish a missing connection from a missing table.
    """
    name, _, of_database = table.partition(".")
    connection = _connections(environ).get(name)
    if connection is None or of_database not in connection.tables:
        raise InvalidRequest(
            "table.name", f"jdbc:{table}",
            f"must be a table that {CONNECTIONS_VARIABLE} allows, spelled in the same case",
            "correct the name, or have the administrator add the table to its connection",
        )  # fmt: skip
    return connection


def _connections(environ: Mapping[str, str]) -> dict[str, JdbcConnection]:
    path = environ.get(CONNECTIONS_VARIABLE)
    unreadable = InvalidRequest(
        CONNECTIONS_VARIABLE,
        path,
        "must name a JSON file of connections, because the table is in a database",
        "write the file, and name it in the environment of the driver",
    )
    try:
        fields = json.loads(Path(path or "").read_bytes()) if path else None
    except (OSError, ValueError):
        raise unreadable from None
    if not isinstance(fields, dict):
        raise unreadable
    try:
        connections = {name: JdbcConnection.parse(part) for name, part in fields.items()}
    except InvalidRequest as refused:
        raise refused.within(CONNECTIONS_VARIABLE) from None
    _, times = next(iter(Counter(connection.database for connection in connections.values()).most_common(1)), ("", 0))
    if times > 1:  # one table would have two names, and two budgets
        raise InvalidRequest(
            CONNECTIONS_VARIABLE, None, "must have only one connection for each database",
            "list all tables of a database under one connection",
        )  # fmt: skip
    return connections
