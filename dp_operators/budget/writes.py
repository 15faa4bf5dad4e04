"""How charges are written.

On SQLite the transaction has the file to itself: what was looked at still holds, and the rows are simply written.

On PostgreSQL each change is one statement that carries its own guard: room in every block, or a charge that is still
reserved. It takes its row locks, and gives them back before any client hears of it. So nobody waits for another's
network or processor, and a worker that is paused or killed holds nothing. Where a guard fails, nothing is written, and
the caller looks again. Room is guarded by the server itself, which moves the totals with each charge that is written
(``migrations/versions/0004``); the head of the audit log is locked before them, by everybody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update
from sqlalchemy.exc import DBAPIError

from dp_operators.budget.audit import Draft, append
from dp_operators.budget.database import Overtaken
from dp_operators.budget.rows import Spent, amounts, charge_row
from dp_operators.budget.schema import block_totals, charges
from dp_operators.budget.statements import fetch
from dp_operators.budget.values import Charge
from spark_jobs.contract.failpoints import failpoint

_MAKE = insert(charges)
_SETTLING = ("state", "manifest_sha256", "settled_at", "drawn_events")
_SETTLE = (
    update(charges).where(charges.c.id == bindparam("of_charge")).values({name: bindparam(name) for name in _SETTLING})
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

_COLUMNS = [column.name for column in charges.columns]

# PostgreSQL, in psycopg's own notation. A ledger that was frozen meanwhile divides by zero: nothing is written at all.
_LOGGED = """
head AS (
    UPDATE audit_head
    SET seq = seq + 1, previous = hash,
        hash = encode(sha256(convert_to(%(before)s || hash || %(between)s || (seq + 1) || %(after)s, 'UTF8')), 'hex')
    {guard}
    RETURNING seq, previous, hash, 1 / (frozen = '' OR %(restoring)s::boolean)::integer AS may_be_written
), logged AS (
    INSERT INTO audit_log (seq, at, actor, action, account, charge, reason, details, previous, hash)
    SELECT seq, %(at)s, %(actor)s, %(action)s, %(account)s, %(charge)s, %(reason)s, %(details)s, previous, hash
    FROM head
)"""
_SETTLED = """
settled AS (
    UPDATE charges SET state = %(action)s, manifest_sha256 = %(manifest_sha256)s, settled_at = %(at)s,
        drawn_events = %(drawn_events)s
    WHERE id = %(charge)s AND state = 'reserved' RETURNING id
)"""
_RESERVE_AT_ONCE = f"""
WITH {_LOGGED.format(guard="")}
INSERT INTO charges ({", ".join(_COLUMNS)})
SELECT {", ".join("seq" if name == "entry" else f"%({name})s" for name in _COLUMNS)} FROM head
RETURNING entry
"""  # noqa: S608 - the schema's own names
_SETTLE_AT_ONCE = f"""
WITH {_SETTLED}, {_LOGGED.format(guard="WHERE EXISTS (SELECT FROM settled)")} SELECT seq AS entry FROM head
"""  # noqa: S608
_NO_ROOM = "DP001"


def write_reservation(
    connection: Connection,
    charge: Charge,
    entry: Draft,
    *,
    totals: Spent,
    fresh: Collection[tuple[str, str]],
    restoring: bool = False,
) -> int:
    """Write a new charge, the blocks' totals after it, and its entry in the log; the entry's number.

    Args:
        connection: in a change of the ledger.
        charge: the charge.
        entry: its entry.
        totals: what is spent in each block that pays, by the account and the allotment, once the charge is.
        fresh: those of them in which nothing was charged before.
        restoring: even while the ledger is frozen.

    Raises:
        Overtaken: another charge took the room meanwhile.
    """
    row = charge_row(charge)
    failpoint("ledger_before_write")
    if connection.dialect.name == "postgresql":
        return _at_once(connection, _RESERVE_AT_ONCE, {**row, **entry.parameters(), "restoring": restoring})
    seq = append(connection, entry)
    connection.execute(_MAKE, {**row, "entry": seq})
    for place in fresh:
        empty = {"account": charge.account, "allotment": place[0], "block": place[1]}
        connection.execute(insert(block_totals), {**empty, **amounts(totals[place])})
    _set_totals(connection, charge.account, {place: total for place, total in totals.items() if place not in fresh})
    return seq


def write_settlement(
    connection: Connection, charge: Charge, entry: Draft, totals: Spent, *, restoring: bool = False
) -> int:
    """Write a charge's final state, the blocks' totals if it was given back, and its entry in the log; its number.

    Raises:
        Overtaken: another call settled the charge meanwhile.
    """
    failpoint("ledger_before_write")
    if connection.dialect.name == "postgresql":
        given = {**entry.parameters(), **_settling(charge, "manifest_sha256", "drawn_events"), "restoring": restoring}
        return _at_once(connection, _SETTLE_AT_ONCE, given)
    connection.execute(_SETTLE, {"of_charge": charge.id, **_settling(charge, *_SETTLING)})
    _set_totals(connection, charge.account, totals)
    return append(connection, entry)


def _settling(charge: Charge, *columns: str) -> dict[str, Any]:
    row = charge_row(charge)
    return {name: row[name] for name in columns}


def _at_once(connection: Connection, statement: str, given: Mapping[str, Any]) -> int:
    try:
        rows = fetch(connection, statement, given)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _NO_ROOM:
            raise Overtaken from None
        raise
    if not rows:
        raise Overtaken
    return int(rows[0].entry)


def _set_totals(connection: Connection, account: str, totals: Spent) -> None:
    for (allotment, block), total in totals.items():
        place = {"of_account": account, "of_allotment": allotment, "of_block": block}
        connection.execute(_SET_TOTAL, {**place, **amounts(total)})
