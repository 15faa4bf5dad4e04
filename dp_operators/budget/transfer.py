"""Moves a ledger with its audit log to another database, so that at any time at most one of the two is live.

The old ledger is locked while it is copied. Its last entry, ``moved``, is the moment of the move: it names the one copy
that may go on, by a random token that this copy alone has. Before this entry is written, the old ledger is live and the
copy is not. Afterwards the old ledger never accepts a change again, and the copy accepts changes once it has the entry
``moved`` and its own first entry, ``arrived``. If a move is interrupted, before or after that moment, repeating the
call finishes it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from dp_operators.budget.ledger import PrivacyLedger
from dp_operators.budget.tables import audit
from dp_operators.budget.tables.database import Database
from dp_operators.budget.tables.queries import run
from dp_operators.budget.tables.schema import (
    account_tables,
    accounts,
    allotments,
    audit_head,
    audit_log,
    block_totals,
    charges,
    key_lists,
    run_keys,
    seal_secret,
    stream_steps,
)
from dp_operators.budget.transactions.verification import verify
from dp_operators.budget.values import AuditEntry, Head
from spark_jobs.contract.errors import InvalidRequest

_TABLES = (
    *(accounts, account_tables, key_lists, allotments, block_totals, charges, run_keys),
    *(stream_steps, audit_log, audit_head),
)
_GUARDED = ("charges", "stream_steps", "audit_log")
_CHUNK = 500
# the old ledger's transaction is idle while the new one is written; a client that is gone still loses it
_PATIENCE = "SET LOCAL idle_in_transaction_session_timeout = '15min'"
_GUARDS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN ('{}')"


def move(source: PrivacyLedger, target: PrivacyLedger, *, actor: str) -> Head:
    """Copy a ledger into an empty database, creating its tables if necessary; the old ledger is never live again.

    Nothing is charged while the ledger is copied; a call that tries to charge fails because the ledger is locked. A
    ledger that was frozen is still frozen after the move. Repeating the call finishes an interrupted move, and returns
    the head if the move is complete.

    Args:
        source: the ledger.
        target: an empty database.
        actor: who requests it, for both audit logs.

    Returns:
        The head of the new ledger's log.

    Raises:
        InvalidRequest: the old ledger fails its verification or was moved elsewhere, or the new one is not empty.
        LedgerUnavailable: one of the two ledgers cannot be reached.
    """
    if source.name == target.name:
        raise InvalidRequest("to", target.name, "must be another database", "name a new one")
    target.migrate()
    moved = _database(source).alone(lambda connection: _leave(connection, source, target, actor))
    return _database(target).alone(lambda connection: _arrive(connection, moved, source, target, actor))


def _database(ledger: PrivacyLedger) -> Database:
    return ledger._database


def _leave(connection: Connection, source: PrivacyLedger, target: PrivacyLedger, actor: str) -> AuditEntry:
    """Copy the ledger and log that it has moved; of a ledger that has moved, the entry that says so."""
    if audit.moved_to(connection):
        return _last_entry(connection)
    if connection.dialect.name == "postgresql":
        run(connection, _PATIENCE)
    verification = verify(connection)
    if not verification.ok:
        raise InvalidRequest(
            "ledger", source.name, f"must be sound: {verification.findings[0]}", "run `dp-budget verify`"
        )
    token, contents = secrets.token_hex(16), _read(connection)
    _database(target).alone(lambda copy: _write(copy, contents, token, source.name, target.name))
    if not target.verify():
        raise InvalidRequest(
            "to",
            target.name,
            "must pass verification after the copy, and does not",
            "drop the copy, and move the ledger again",
        )
    details = {"to": target.name, "copy": token, "frozen": contents[audit_head.name][0]["frozen"]}
    reason = f"moved to {target.name}"[:500]
    audit.append(
        connection, audit.NewEntry(actor=actor, action=audit.MOVED, account="", reason=reason, details=details)
    )
    return _last_entry(connection)


def _arrive(
    connection: Connection, moved: AuditEntry, source: PrivacyLedger, target: PrivacyLedger, actor: str
) -> Head:
    """Make the copy that the entry names the ledger; one that is the ledger already stays as it is."""
    there = audit.read_entry(connection, moved.seq)
    if there is not None and there.hash == moved.hash:
        return audit.read_head(connection)
    details = json.loads(moved.details)
    if moved.action != audit.MOVED or audit.moved_to(connection) != audit.copy_of(details["copy"]):
        where = audit.moved_elsewhere(details.get("to") or moved.reason.removeprefix("moved to "))
        raise InvalidRequest("ledger", source.name, where[0], where[1])
    with _unguarded(connection):
        connection.execute(insert(audit_log), vars(moved))
        connection.execute(update(audit_head).values(seq=moved.seq, previous=moved.previous, hash=moved.hash))
    reason = f"moved from {source.name}"[:500]
    known = {"frozen": details["frozen"]}
    audit.append(
        connection, audit.NewEntry(actor=actor, action=audit.ARRIVED, account="", reason=reason, details=known)
    )
    return audit.read_head(connection)


def _last_entry(connection: Connection) -> AuditEntry:
    entry = audit.read_entry(connection, audit.read_head(connection).seq)
    if entry is None:
        raise InvalidRequest("ledger", None, "must have its log's last entry", "run `dp-budget verify`")
    return entry


def _read(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    return {
        table.name: [dict(row._mapping) for row in connection.execute(select(table))]
        for table in (*_TABLES, seal_secret)
    }


def _write(
    connection: Connection, contents: dict[str, list[dict[str, Any]]], token: str, origin: str, name: str
) -> None:
    """Copy all rows; the copy accepts nothing. What an earlier copy of the same ledger left is replaced."""
    unfinished = audit.moved_to(connection).startswith(audit.copy_of(""))
    same = _secret(connection) == contents[seal_secret.name][0]["secret"]
    if audit.read_head(connection).seq and not (unfinished and same):
        raise InvalidRequest("to", name, "must be an empty ledger", "name a new database, or drop that one")
    # the copied rows already include the totals, keys and log entries that triggers would write
    with _unguarded(connection):
        for table in reversed(_TABLES[:-1]):
            connection.execute(delete(table))
        for table in _TABLES[:-1]:
            rows = contents[table.name]
            for start in range(0, len(rows), _CHUNK):
                connection.execute(insert(table), rows[start : start + _CHUNK])
    state = {"frozen": f"an unfinished copy of {origin}"[:500], "moved": audit.copy_of(token)}
    connection.execute(update(audit_head).values({**contents[audit_head.name][0], **state}))
    connection.execute(update(seal_secret).values(contents[seal_secret.name][0]))


def _secret(connection: Connection) -> str | None:
    return connection.execute(select(seal_secret.c.secret)).scalar()


@contextmanager
def _unguarded(connection: Connection) -> Iterator[None]:
    """Write what triggers would refuse or write themselves; they are back before the transaction ends."""
    if connection.dialect.name == "postgresql":
        run(connection, "; ".join(f"ALTER TABLE {name} DISABLE TRIGGER USER" for name in _GUARDED))
        yield
        run(connection, "; ".join(f"ALTER TABLE {name} ENABLE TRIGGER USER" for name in _GUARDED))
        return
    guards = connection.exec_driver_sql(_GUARDS.format("', '".join(_GUARDED))).all()
    for guard in guards:
        connection.exec_driver_sql(f"DROP TRIGGER {guard.name}")
    yield
    for guard in guards:
        connection.exec_driver_sql(guard.sql)
