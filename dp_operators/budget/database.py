"""The ledger's database: how it is reached, locked, and made to keep what it was told.

A call sees nothing, and says nothing, that a crash of the database could still take back. On SQLite every transaction
is ``BEGIN IMMEDIATE`` in rollback-journal mode with ``synchronous=EXTRA``: the file is whole after each commit, and a
copy of it holds every spend. On PostgreSQL a writer locks the log's head row, commits without waiting for the disk, and
then waits for the disk without the lock (early lock release: DeWitt et al. 1984; Johnson et al., "Aether", 2010), so
that writers share flushes. It is as safe as an ordinary commit, because the write-ahead log is one sequence: whoever
saw a change flushes it together with its own before it answers, and so do readers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.sql.dml import UpdateBase

from dp_operators.budget.errors import LedgerUnavailable
from dp_operators.budget.schema import REVISION, VERSION_TABLE
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.failpoints import failpoint

T = TypeVar("T")

Write = tuple[UpdateBase, dict[str, Any]]
"""A statement, built once, and what its parameters are this time."""

BACKOFF = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Seconds between tries of a transaction that another one, or a lost connection, has cancelled."""

_CANCELLED = ("40001", "40P01")  # serialisation failure, deadlock
_LOCKED = "55P03"
# a transaction of its own, whose commit waits for the disk whatever the server's default is
_COMMIT = (
    "COMMIT; SELECT set_config('synchronous_commit', 'on', true), "
    "CASE WHEN NOT pg_is_in_recovery() THEN pg_logical_emit_message(true, 'privacy_ledger', '') END"
)


class Database:
    """A database that holds one ledger.

    Args:
        url: a SQLAlchemy URL of PostgreSQL or of a SQLite file.
        patience: seconds to wait for other writers.

    Raises:
        RequestRefused: another URL.
    """

    def __init__(self, url: str, *, patience: float) -> None:
        self._url = _ledger_url(url)
        self._patience = patience
        self._made: tuple[int, Engine] | None = None
        self._ready = False
        self.name = _public_name(self._url)
        self.sqlite = self._url.get_backend_name() == "sqlite"
        self._commit = "COMMIT" if self.sqlite else _COMMIT

    def read(self, work: Callable[[Connection], T]) -> T:
        """What ``work`` finds in one snapshot.

        Raises:
            RequestRefused: no ledger there, or one of another version.
            LedgerUnavailable: the database cannot be reached.
        """
        begin = "BEGIN" if self.sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        return self._retried(lambda: self._once(work, begin))

    def write(self, work: Callable[[Connection], T]) -> T:
        """What ``work`` returns, once what it wrote is safe on disk; it may be called again after a failure.

        Raises:
            RequestRefused: no ledger there, or one of another version.
            LedgerUnavailable: the database cannot be reached, or stays locked.
        """
        return self._retried(lambda: self._once(work, self._begin_write()))

    def exclusively(self, work: Callable[[Connection], None]) -> None:
        """Run ``work`` in one transaction, alone among such calls, whether or not there is a ledger yet.

        Raises:
            LedgerUnavailable: the database cannot be reached, or stays locked.
        """
        try:
            with self._engine().connect() as connection:
                lock = "" if self.sqlite else "SELECT pg_advisory_xact_lock(hashtext('privacy_ledger'))"
                run(connection, self._begin_exclusive() + lock)
                work(connection)
                run(connection, self._commit)
        except (DBAPIError, PoolTimeout) as error:
            raise self._unavailable(error) from None

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        made, self._made = self._made, None
        if made is not None:
            made[1].dispose(close=made[0] == os.getpid())

    def _retried(self, once: Callable[[], T]) -> T:
        pauses = iter(BACKOFF)
        while True:
            try:
                return once()
            except PoolTimeout as error:
                raise self._unavailable(error) from None
            except DBAPIError as error:
                cancelled = error.connection_invalidated or _code(error) in _CANCELLED
                pause = next(pauses, None) if cancelled else None
                if pause is None:
                    raise self._unavailable(error) from None
            time.sleep(pause)

    def _once(self, work: Callable[[Connection], T], begin: str) -> T:
        with self._connect() as connection:
            run(connection, begin)
            found = work(connection)
            failpoint("ledger_before_commit")
            run(connection, self._commit)
        failpoint("ledger_after_commit")
        return found

    def _connect(self) -> Connection:
        if self.sqlite and not Path(str(self._url.database)).exists():
            raise no_ledger(self.name)  # SQLite would make an empty file
        try:
            connection = self._engine().connect()
        except (DBAPIError, PoolTimeout) as error:
            raise self._unavailable(error) from None
        if not self._ready:
            try:
                require_revision(connection, self.name)
            except BaseException:
                connection.close()
                raise
            self._ready = True
        return connection

    def _begin_exclusive(self) -> str:
        if self.sqlite:
            return "BEGIN IMMEDIATE"
        wait = max(1, int(self._patience * 1000))
        # a writer that sleeps with the lock is thrown out before the others lose their patience
        return (
            "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT set_config('synchronous_commit', 'off', true), "
            f"set_config('lock_timeout', '{wait}', true), "
            f"set_config('idle_in_transaction_session_timeout', '{max(1, wait // 2)}', true); "
        )

    def _begin_write(self) -> str:
        return self._begin_exclusive() + ("" if self.sqlite else "SELECT FROM audit_head FOR UPDATE")

    def _engine(self) -> Engine:
        # connections do not survive a fork: the child makes its own
        if self._made is None or self._made[0] != os.getpid():
            self.close()
            self._made = (os.getpid(), self._new_engine())
        return self._made[1]

    def _new_engine(self) -> Engine:
        # transactions are begun and ended by the statements above, not by the drivers
        if self.sqlite:
            engine = create_engine(
                self._url,
                poolclass=NullPool,
                isolation_level="AUTOCOMMIT",
                hide_parameters=True,
                connect_args={"timeout": self._patience},
            )
            event.listen(engine, "connect", _prepare_sqlite)
            return engine
        timeout = {} if "connect_timeout" in self._url.query else {"connect_timeout": 5}
        return create_engine(
            self._url,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
            pool_timeout=self._patience,
            connect_args=timeout,
        )

    def _unavailable(self, error: SQLAlchemyError) -> LedgerUnavailable:
        if _code(error) == _LOCKED or "database is locked" in str(error):
            return LedgerUnavailable(self.name, "another writer holds it")
        if isinstance(error, PoolTimeout):
            return LedgerUnavailable(self.name, "all of this process's connections to it are in use")
        return LedgerUnavailable(self.name, _first_line(error, self._url))


def run(connection: Connection, statements: str) -> None:
    """Send statements without parameters, in one message where the driver allows several."""
    connection.exec_driver_sql(statements, execution_options={"no_parameters": True})


def apply(connection: Connection, *writes: Write) -> None:
    """Execute writes that do not depend on one another; on PostgreSQL as one statement, in one message."""
    failpoint("ledger_before_write")
    if connection.dialect.name == "postgresql":
        values = {name: value for _, given in writes for name, value in given.items()}
        connection.execute(_together(*(statement for statement, _ in writes)), values)
        return
    for statement, given in writes:
        connection.execute(statement, given)


@cache
def _together(*statements: UpdateBase) -> UpdateBase:
    *first, last = statements
    return last.add_cte(*(statement.cte(f"write_{i}") for i, statement in enumerate(first)))


def revision_in(connection: Connection) -> str | None:
    """The schema's revision; None where there is no ledger.

    Raises:
        RequestRefused: this is Airflow's metadata database.
    """
    from sqlalchemy import column, inspect, table

    tables = inspect(connection).get_table_names()
    if "dag_run" in tables:
        raise RequestRefused(
            "ledger",
            bound="must not lie in Airflow's metadata database",
            remedy="give the ledger a database of its own",
        )
    if VERSION_TABLE not in tables:
        return None
    return connection.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()


def require_revision(connection: Connection, name: str) -> None:
    """Refuse a database without a ledger that this version works with.

    Raises:
        RequestRefused: no ledger there, or one of another version.
    """
    revision = revision_in(connection)
    if revision is None:
        raise no_ledger(name)
    if revision > REVISION:
        raise newer_ledger(name, revision)
    if revision < REVISION:
        raise RequestRefused(
            "ledger",
            given=f"{name} at schema {revision}",
            bound=f"must be at schema {REVISION}",
            remedy="run `dp-budget migrate`",
        )


def no_ledger(name: str) -> RequestRefused:
    """The refusal of a database that holds no ledger."""
    return RequestRefused("ledger", given=name, bound="holds no privacy ledger", remedy="run `dp-budget migrate`")


def newer_ledger(name: str, revision: str) -> RequestRefused:
    """The refusal of a ledger made by a later version."""
    return RequestRefused(
        "ledger",
        given=f"{name} at schema {revision}",
        bound=f"is newer than this program, which knows schema {REVISION}",
        remedy="upgrade airflow-provider-dp-diagnostics",
    )


def _ledger_url(url: str) -> URL:
    def refused(bound: str, remedy: str) -> RequestRefused:
        # the text itself may hold a password
        return RequestRefused("ledger", bound=bound, remedy=remedy)

    form = "e.g. postgresql://user@host/privacy_ledger or sqlite:////var/lib/dp/ledger.db"
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError, AttributeError):
        raise refused("must be a URL of a PostgreSQL database or a SQLite file", form) from None
    backend = parsed.drivername.partition("+")[0]
    if backend == "sqlite":
        if not parsed.database or parsed.database.startswith((":memory:", "file:")) or parsed.query:
            raise refused("must be the plain path of a SQLite file, which outlives this process", form)
        return parsed.set(drivername="sqlite")
    if backend not in ("postgresql", "postgres"):
        raise refused("must be a PostgreSQL database or a SQLite file", form)
    if "@" in (parsed.host or ""):
        raise refused("must have a host without @", "write an @ in the password as %40")
    return parsed.set(drivername="postgresql+psycopg")


def _public_name(url: URL) -> str:
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


def _first_line(error: SQLAlchemyError, url: URL) -> str:
    said = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
    secrets = [url.password, *(value for name, value in url.query.items() if "password" in name)]
    for secret in secrets:
        if isinstance(secret, str) and secret:
            said = said.replace(secret, "***")
    return " ".join(said.splitlines()[0].split()).rstrip(".;")


def _code(error: SQLAlchemyError) -> str | None:
    return getattr(getattr(error, "orig", None), "sqlstate", None)


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = EXTRA")
