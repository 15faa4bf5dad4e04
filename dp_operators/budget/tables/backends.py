"""The two kinds of database that can store a ledger, PostgreSQL and SQLite, and their URLs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from spark_jobs.contract.errors import InvalidRequest


@dataclass(frozen=True)
class SQLite:
    """SQLite: one writer at a time, which locks the file, so what it reads stays true until it commits."""

    url: URL
    patience: float

    begin_read = begin_snapshot = "BEGIN"
    begin_change = begin_alone = begin_migration = "BEGIN IMMEDIATE"
    commit = "COMMIT"
    flush = ""

    def engine(self) -> Engine:
        """An engine that begins and ends no transaction by itself; the ledger begins and ends them."""
        engine = create_engine(
            self.url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            connect_args={"timeout": self.patience},
        )

        def prepare(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = EXTRA")

        event.listen(engine, "connect", prepare)
        return engine


@dataclass(frozen=True)
class PostgreSQL:
    """PostgreSQL: many writers. Reads and changes are single statements, so no client keeps a lock between two."""

    url: URL
    patience: float

    begin_read = begin_change = ""
    begin_snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    begin_alone = "BEGIN; SELECT hold_ledger()"
    begin_migration = "BEGIN; SELECT pg_advisory_xact_lock(hashtext('privacy_ledger'))"
    commit = "COMMIT; "
    # a transaction of its own, whose commit waits for the disk, and for standbys if the server is configured so
    flush = (
        "SELECT set_config('synchronous_commit', 'on', true), "
        "CASE WHEN NOT pg_is_in_recovery() THEN pg_logical_emit_message(true, 'privacy_ledger', '') END"
    )

    def engine(self) -> Engine:
        """An engine in autocommit; a lost connection is detected at its first use and replaced."""
        timeout = {} if "connect_timeout" in self.url.query else {"connect_timeout": 5}
        engine = create_engine(
            self.url,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            pool_timeout=self.patience,
            connect_args=timeout,
        )
        wait = max(1, int(self.patience * 1000))

        def prepare(connection: Any, _record: Any) -> None:
            # an idle transaction of several statements is cancelled before the writers behind it time out
            connection.execute(
                "SET synchronous_commit = off; SET default_transaction_isolation = 'read committed'; "
                f"SET lock_timeout = {wait}; SET idle_in_transaction_session_timeout = {max(1, wait // 2)}"
            )

        event.listen(engine, "connect", prepare)
        return engine


def parse_ledger_url(url: str) -> URL:
    """The parsed URL of a ledger, with the driver that is used.

    Raises:
        InvalidRequest: not the URL of a PostgreSQL database or of a SQLite file.
    """

    def error(requirement: str, remedy: str) -> InvalidRequest:
        # no value: the URL may contain a password
        return InvalidRequest("ledger", None, requirement, remedy)

    form = "e.g. postgresql://user@host/privacy_ledger or sqlite:////var/lib/dp/ledger.db"
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError, AttributeError):
        raise error("must be a URL of a PostgreSQL database or a SQLite file", form) from None
    backend = parsed.drivername.partition("+")[0]
    if backend == "sqlite":
        if not parsed.database or parsed.database.startswith((":memory:", "file:")) or parsed.query:
            raise error("must be the plain path of a SQLite file, which outlives this process", form)
        return parsed.set(drivername="sqlite")
    if backend not in ("postgresql", "postgres"):
        raise error("must be a PostgreSQL database or a SQLite file", form)
    if "@" in (parsed.host or ""):
        raise error("must have a host without @", "write an @ in the password as %40")
    return parsed.set(drivername="postgresql+psycopg")


def public_name(url: URL) -> str:
    """The URL without its password."""
    shown = {name: value for name, value in url.query.items() if name in ("host", "port")}
    public = URL.create(
        url.get_backend_name(),
        username=url.username,
        host=url.host,
        port=url.port,
        database=url.database,
        query=shown,
    )
    return public.render_as_string()


def passwords_in(url: URL) -> tuple[str, ...]:
    """The passwords of a URL, which may also be in its query."""
    texts = (url.password, *(value for name, value in url.query.items() if "password" in name))
    return tuple(text for text in texts if isinstance(text, str) and text)


def without_secrets(message: str, url: URL) -> str:
    """A driver's error message on one line, with the passwords of the URL masked."""
    for secret in passwords_in(url):
        message = message.replace(secret, "***")
    return " ".join(message.split()).rstrip(".;")


def without_places(message: str) -> str:
    """A driver's error message without the logins, hosts, addresses and names of databases that it quotes."""
    text = message.rpartition("failed: ")[2]
    return re.sub(r"\"[^\"]*\"|'[^']*'", "(not shown)", text)
