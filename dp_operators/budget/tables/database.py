"""The ledger's database: connections, transactions and durability.

A call returns only what a crash of the database can no longer undo. On SQLite every change is a transaction of its own
in rollback-journal mode with ``synchronous=EXTRA``: the file is consistent after each commit, and a copy of it contains
every spend. On PostgreSQL a change commits, and releases its locks, without waiting for the disk; the call then waits
for the disk before it returns (early lock release: DeWitt et al. 1984; Johnson et al., "Aether", 2010), so that callers
share flushes. That is as safe as an ordinary commit: the write-ahead log is one sequence, so whoever has seen a change,
reader or writer, also waits for it.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, column, inspect, select, table
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from dp_operators.budget.errors import LedgerUnavailable, NotAllowed
from dp_operators.budget.tables.backends import (
    PostgreSQL,
    SQLite,
    parse_ledger_url,
    public_name,
    without_places,
    without_secrets,
)
from dp_operators.budget.tables.queries import run
from dp_operators.budget.tables.schema import BASELINE, REVISION, VERSION_TABLE
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.failpoints import failpoint

T = TypeVar("T")

BACKOFF = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Seconds before each retry of work that another writer or a lost connection has cancelled."""

# serialisation failure, deadlock, a key inserted by another call, a ledger frozen meanwhile
_CANCELLED = ("40001", "40P01", "23505", "DP002")
_LOCKED = "55P03"
_NOT_ALLOWED = "42501"
_ON_DISK = "on disk"


class Overtaken(Exception):
    """Between this call's read and its write, another call changed what was read; nothing was written."""


class Database:
    """A database with one ledger.

    Every method raises InvalidRequest where the database has no ledger, or one of another version, and NotAllowed where
    this role lacks a privilege; and LedgerUnavailable where the database cannot be reached or stays locked. A method
    may call the function ``work`` again after a failure.

    Args:
        url: a SQLAlchemy URL of PostgreSQL or of a SQLite file.
        patience: seconds to wait for other writers.
        name: the ledger's name in errors, which then show no login, host or database; by default its URL.

    Raises:
        InvalidRequest: another kind of URL.
    """

    def __init__(self, url: str, *, patience: float, name: str | None = None) -> None:
        self._url = parse_ledger_url(url)
        self._backend = (SQLite if self._url.get_backend_name() == "sqlite" else PostgreSQL)(self._url, patience)
        self._engine_of_process: tuple[int, Engine] | None = None
        self._ready = False
        self._named = name is not None
        self.name = public_name(self._url) if name is None else name

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which only reads; on PostgreSQL each statement may see a different state of the ledger."""
        return self._retried(work, self._backend.begin_read)

    def snapshot(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which only reads and sees one state of the ledger."""
        return self._retried(work, self._backend.begin_snapshot)

    def change(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` and wait for the disk; its writes carry their own guards, see ``sql_writes``."""
        return self._retried(work, self._backend.begin_change, writes=True)

    def alone(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` with no other writer and wait for the disk."""
        return self._retried(work, self._backend.begin_alone, writes=True)

    def migrating(self, work: Callable[[Connection], None]) -> None:
        """Run ``work`` in one transaction with no other migration; the ledger need not exist yet."""
        self._retried(work, self._backend.begin_migration, writes=True, needs_ledger=False)

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        owned, self._engine_of_process = self._engine_of_process, None
        if owned is not None:
            owned[1].dispose(close=owned[0] == os.getpid())

    def _retried(
        self, work: Callable[[Connection], T], begin: str, *, writes: bool = False, needs_ledger: bool = True
    ) -> T:
        pauses = iter(BACKOFF)
        while True:
            try:
                return self._once(work, begin, writes=writes, needs_ledger=needs_ledger)
            except Overtaken:
                failure = LedgerUnavailable(self.name, "each attempt to write was overtaken by another writer")
                again = True
            except (DBAPIError, PoolTimeout) as error:
                if _code(error) == _NOT_ALLOWED:
                    raise NotAllowed(self.name, self._message(error)) from None
                failure = self._unavailable(error)
                again = isinstance(error, DBAPIError) and (error.connection_invalidated or _code(error) in _CANCELLED)
            pause = next(pauses, None) if again else None
            if pause is None:
                raise failure
            time.sleep(pause)

    def _once(self, work: Callable[[Connection], T], begin: str, *, writes: bool, needs_ledger: bool) -> T:
        with self._connect(needs_ledger=needs_ledger) as connection:
            connection.info.pop(_ON_DISK, None)
            if begin:
                run(connection, begin)
            result = work(connection)
            if writes:
                failpoint("ledger_before_commit")
            if not connection.info.pop(_ON_DISK, False):
                run(connection, f"{self._backend.commit if begin else ''}{self._backend.flush}")
        if writes:
            failpoint("ledger_after_commit")
        return result

    def _connect(self, *, needs_ledger: bool) -> Connection:
        # SQLite would create an empty file, and no folder
        file = Path(str(self._url.database)) if isinstance(self._backend, SQLite) else None
        if file is not None and needs_ledger and not file.exists():
            raise no_ledger(self.name)
        if file is not None and not file.parent.exists():
            folder = "it" if self._named else f"it: mkdir -p {shlex.quote(str(file.parent))}"
            raise InvalidRequest("ledger", self.name, "must lie in a folder that exists", f"make {folder}")
        try:
            connection = self._engine().connect()
        except (DBAPIError, PoolTimeout) as error:
            raise self._unavailable(error) from None
        if needs_ledger and not self._ready:
            try:
                require_revision(connection, self.name)
            except BaseException:
                connection.close()
                raise
            self._ready = True
        return connection

    def _engine(self) -> Engine:
        # connections do not survive a fork: the child opens its own
        owned = self._engine_of_process
        if owned is None or owned[0] != os.getpid():
            self.close()
            self._engine_of_process = owned = (os.getpid(), self._backend.engine())
        return owned[1]

    def _unavailable(self, error: SQLAlchemyError) -> LedgerUnavailable:
        if _code(error) == _LOCKED or "database is locked" in str(error):
            return LedgerUnavailable(self.name, "another writer has locked it")
        if isinstance(error, PoolTimeout):
            return LedgerUnavailable(self.name, "all of this process's connections to it are in use")
        return LedgerUnavailable(self.name, self._message(error))

    def _message(self, error: SQLAlchemyError) -> str:
        message = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
        shown = without_secrets(message.splitlines()[0], self._url)
        return without_places(shown) if self._named else shown


def on_disk(connection: Connection) -> None:
    """Mark a change as finished: its last statement has itself waited for the disk."""
    connection.info[_ON_DISK] = True


def revision_in(connection: Connection) -> str | None:
    """The revision of the ledger's schema; None if the database has no ledger.

    Raises:
        InvalidRequest: this is Airflow's metadata database.
    """
    tables = inspect(connection).get_table_names()
    if "dag_run" in tables:
        raise InvalidRequest(
            "ledger", None, "must not be in Airflow's metadata database", "give the ledger a database of its own"
        )
    if VERSION_TABLE not in tables:
        return None
    return connection.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalar()


def require_revision(connection: Connection, name: str) -> None:
    """Reject a database whose ledger this version cannot use.

    Raises:
        InvalidRequest: the database has no ledger, or one of another version.
    """
    revision = revision_in(connection)
    if revision is None:
        raise no_ledger(name)
    require_release(revision, name)
    if revision < REVISION:
        raise InvalidRequest(
            "ledger", f"schema {revision} at {name}", f"must be at schema {REVISION}", "run `dp-budget migrate`"
        )


def no_ledger(name: str) -> InvalidRequest:
    """The error for a database without a ledger."""
    return InvalidRequest("ledger", name, "has no privacy ledger", "run `dp-budget migrate`")


def require_release(revision: str, name: str) -> None:
    """Reject a ledger of a later version, and one that was made before the first release.

    Raises:
        InvalidRequest: the ledger is one of these.
    """
    value = f"schema {revision} at {name}"
    if revision > REVISION:
        raise InvalidRequest(
            "ledger", value, f"is newer than this program, which knows schema {REVISION}",
            "upgrade airflow-provider-dp-diagnostics",
        )  # fmt: skip
    if revision < BASELINE:
        raise InvalidRequest(
            "ledger", value, "was made before 0.1.0, and such ledgers are not upgraded",
            "keep it, and open its accounts in a new database, as the page on upgrades says",
        )  # fmt: skip


def _code(error: SQLAlchemyError) -> str | None:
    return getattr(getattr(error, "orig", None), "sqlstate", None)
