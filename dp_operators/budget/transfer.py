"""Moves a ledger with its audit log to another database, so that no spend is lost or counted twice."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert, select, update

from dp_operators.budget.audit import read_head
from dp_operators.budget.database import Database
from dp_operators.budget.ledger import PrivacyLedger
from dp_operators.budget.queries import run
from dp_operators.budget.schema import (
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
from dp_operators.budget.values import Head
from spark_jobs.contract.errors import InvalidRequest

_TABLES = (
    *(accounts, account_tables, key_lists, allotments, block_totals, charges, run_keys),
    *(stream_steps, audit_log, audit_head),
)
_GUARDED = ("charges", "stream_steps", "audit_log")
_CHUNK = 500


def move(source: PrivacyLedger, target: PrivacyLedger, *, actor: str) -> Head:
    """Copy a ledger into an empty database, creating its tables if necessary; the old ledger stays frozen.

    The old ledger is frozen before it is read, so no charge can be missing from the new one. After a failure the move
    can be repeated: all rows are copied in one transaction.

    Args:
        source: the ledger.
        target: an empty database.
        actor: who requests it, for both audit logs.

    Returns:
        The head of the new ledger's log.

    Raises:
        InvalidRequest: the old ledger fails its verification, or the new one is not empty.
        LedgerUnavailable: one of them cannot be reached.
    """
    if source.name == target.name:
        raise InvalidRequest("to", value=target.name, requirement="must be another database", remedy="name a new one")
    target.migrate()
    if target.head().seq:
        raise InvalidRequest(
            "to",
            value=target.name,
            requirement="must be an empty ledger",
            remedy="name a new database, or drop that one",
        )
    verification = source.verification()
    if not verification.ok:
        raise InvalidRequest(
            "ledger",
            value=source.name,
            requirement=f"must be sound: {verification.findings[0]}",
            remedy="run `dp-budget verify`",
        )
    reason = f"moved to {target.name}"[:500]
    source.freeze(actor=actor, reason=reason)
    contents = _database(source).snapshot(_read)
    _database(target).alone(lambda connection: _write(connection, contents, target.name))
    target.thaw(actor=actor, reason=f"moved from {source.name}"[:500])
    if not target.verify():
        raise InvalidRequest(
            "to",
            value=target.name,
            requirement="must verify after the copy, and does not",
            remedy="drop it and move again",
        )
    return target.head()


def _database(ledger: PrivacyLedger) -> Database:
    return ledger._database


def _read(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    return {
        table.name: [dict(row._mapping) for row in connection.execute(select(table))]
        for table in (*_TABLES, seal_secret)
    }


def _write(connection: Connection, contents: dict[str, list[dict[str, Any]]], name: str) -> None:
    if read_head(connection).seq:
        raise InvalidRequest("to", value=name, requirement="must be an empty ledger", remedy="name a new database")
    on_server = connection.dialect.name == "postgresql"
    if on_server:  # the copied rows already include the totals, keys and log entries that triggers would write
        run(connection, "; ".join(f"ALTER TABLE {name} DISABLE TRIGGER USER" for name in _GUARDED))
    for table in _TABLES[:-1]:
        rows = contents[table.name]
        for start in range(0, len(rows), _CHUNK):
            connection.execute(insert(table), rows[start : start + _CHUNK])
    if on_server:
        run(connection, "; ".join(f"ALTER TABLE {name} ENABLE TRIGGER USER" for name in _GUARDED))
    for single in (audit_head, seal_secret):
        connection.execute(update(single).values(contents[single.name][0]))
