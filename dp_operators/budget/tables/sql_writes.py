"""Writes charges.

On SQLite the transaction has locked the file, so what the transaction has read still holds, and the rows are written.

On PostgreSQL each change is one call with its own guard: that every block has room, or that the charge is in the
expected state. The call takes its row locks, releases them, and waits for the disk before the client gets the result.
So no call waits for the network or processor of another, and a worker that is paused or killed holds no lock. Where a
guard fails, nothing is written, and the caller reads again. The server itself checks what is written
(``migrations/guards_of_charges``), updates the totals (``guards_of_totals``) and writes each change into the audit log
(``guards_of_log``), whose head is locked before the totals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update
from sqlalchemy.exc import DBAPIError

from dp_operators.budget.tables.audit import NewEntry, append, canonical
from dp_operators.budget.tables.database import Overtaken, on_disk
from dp_operators.budget.tables.mapping import amounts, charge_of, charge_row
from dp_operators.budget.tables.queries import fetch
from dp_operators.budget.tables.rows import Spent
from dp_operators.budget.tables.schema import block_totals, charges
from dp_operators.budget.values import Charge
from spark_jobs.contract.store.failpoints import failpoint

_MAKE = insert(charges)
# the columns that a change writes, and those that must still have the values that were read
_CHANGING = ("state", "manifest_sha256", "settled_at", "drawn_events", "figures", "runs", "open_runs", "draw_sha256")
_GUARDED = ("state", "runs", "open_runs", "draw_sha256")
_BY = ("changed_by", "change_reason")
_CHANGE = (
    update(charges)
    .where(charges.c.id == bindparam("of_charge"))
    .values({name: bindparam(name) for name in (*_CHANGING, *_BY)})
)
_SET_TOTAL = (
    update(block_totals)
    .where(
        block_totals.c.account == bindparam("of_account"),
        block_totals.c.allotment == bindparam("of_allotment"),
        block_totals.c.block == bindparam("of_block"),
    )
    .values({name: bindparam(name) for name in ("epsilon", "delta", "rho")})
)

# PostgreSQL, in psycopg's own notation; see ``migrations/writes_of_charges``
_RESERVE_AT_ONCE = "CALL reserve_at_once(%(charge)s)"
_CHANGE_AT_ONCE = "CALL change_at_once(%(charge)s, %(of_charge)s, %(expected)s)"
_NO_ROOM, _FROZEN = "DP001", "DP002"


def write_reservation(
    connection: Connection,
    charge: Charge,
    entry: NewEntry,
    *,
    totals: Spent,
    fresh: Collection[tuple[str, str]],
) -> int:
    """Write a new charge, the new totals of its blocks and its log entry; return the number of the entry.

    Args:
        connection: a connection in a change of the ledger.
        charge: the charge.
        entry: its log entry.
        totals: the new totals, by sub-budget and block.
        fresh: the keys of ``totals`` that have no row yet.

    Raises:
        Overtaken: another charge has meanwhile taken the room in a block.
    """
    blocks = canonical(entry.details["blocks"])
    row = {**charge_row(charge), "blocks": blocks, "changed_by": entry.actor, "change_reason": entry.reason}
    failpoint("ledger_before_write")
    if connection.dialect.name == "postgresql":
        return int(_at_once(connection, _RESERVE_AT_ONCE, {"charge": canonical(row)}))
    seq = append(connection, entry)
    connection.execute(_MAKE, {**row, "entry": seq})
    rows = [
        {"account": charge.account, "allotment": place[0], "block": place[1], **amounts(totals[place])}
        for place in fresh
    ]
    if rows:
        connection.execute(insert(block_totals), rows)
    _set_totals(connection, charge.account, {place: total for place, total in totals.items() if place not in fresh})
    return seq


def write_change(
    connection: Connection,
    before: Charge,
    changed: Charge,
    entry: NewEntry,
    *,
    totals: Spent | None = None,
) -> None:
    """Write a change of a charge, the new totals of its blocks if it is given back, and its log entry.

    Args:
        connection: a connection in a change of the ledger.
        before: the charge as it was read.
        changed: the charge after the change.
        entry: its log entry.
        totals: the new totals, by sub-budget and block, if the charge is given back.

    Raises:
        Overtaken: another call changed the charge meanwhile.
    """
    row, row_before = charge_row(changed), charge_row(before)
    values = {name: row[name] for name in _CHANGING} | {"changed_by": entry.actor, "change_reason": entry.reason}
    failpoint("ledger_before_write")
    if connection.dialect.name == "postgresql":
        expected = {name: row_before[name] for name in _GUARDED}
        if _changed_at_once(connection, changed.id, values, expected) is None:
            raise Overtaken
        return
    connection.execute(_CHANGE, {"of_charge": changed.id, **values})
    _set_totals(connection, changed.account, totals or {})
    append(connection, entry)


def change_unread(
    connection: Connection,
    charge_id: str,
    changes: Mapping[str, Any],
    *,
    expected: Mapping[str, Any],
    actor: str,
    reason: str,
) -> Charge | None:
    """On PostgreSQL, change a charge in one call, without reading it before.

    Args:
        connection: a connection in a change of the ledger.
        charge_id: the charge.
        changes: the columns that change, with their new values.
        expected: the values that some columns must have; the entry ``drawn`` says whether a draw must be recorded.
        actor: who requests it.
        reason: why.

    Returns:
        The charge after the change, or None if nothing was changed. On SQLite this function never changes anything; on
        PostgreSQL it changes nothing if the charge is unknown or not as ``expected``, or if the ledger is frozen. After
        None, the caller reads the charge.
    """
    if connection.dialect.name != "postgresql":
        return None
    failpoint("ledger_before_write")
    try:
        row = _changed_at_once(
            connection, charge_id, {**changes, "changed_by": actor, "change_reason": reason}, expected
        )
    except DBAPIError as error:
        if _code(error) == _FROZEN:
            return None
        raise
    return None if row is None else charge_of(SimpleNamespace(**row))


def _changed_at_once(
    connection: Connection, charge_id: str, changes: Mapping[str, Any], expected: Mapping[str, Any]
) -> dict[str, Any] | None:
    given = {"charge": canonical(changes), "of_charge": charge_id, "expected": canonical(expected)}
    row = _at_once(connection, _CHANGE_AT_ONCE, given)
    return row and {f"{table}_{name}": value for table, of in row.items() for name, value in of.items()}


def _at_once(connection: Connection, statement: str, given: Mapping[str, Any]) -> Any:
    try:
        [(result,)] = fetch(connection, statement, given)
    except DBAPIError as error:
        if _code(error) == _NO_ROOM:
            raise Overtaken from None
        raise
    on_disk(connection)
    return result


def _code(error: DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None)


def _set_totals(connection: Connection, account: str, totals: Spent) -> None:
    rows = [
        {"of_account": account, "of_allotment": allotment, "of_block": block, **amounts(total)}
        for (allotment, block), total in totals.items()
    ]
    if rows:
        connection.execute(_SET_TOTAL, rows)
