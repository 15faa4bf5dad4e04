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
from dp_operators.budget.mapping import amounts, charge_row
from dp_operators.budget.rows import Spent
from dp_operators.budget.schema import block_totals, charges
from dp_operators.budget.statements import fetch
from dp_operators.budget.values import Charge
from spark_jobs.contract.failpoints import failpoint

_MAKE = insert(charges)
# what becomes of a charge; and what of it must be as it was seen, or else somebody else was faster
_CHANGING = ("state", "manifest_sha256", "settled_at", "drawn_events", "runs", "open_runs", "draw_sha256")
_SEEN = ("state", "runs", "open_runs", "draw_sha256")
_CHANGE = (
    update(charges).where(charges.c.id == bindparam("of_charge")).values({name: bindparam(name) for name in _CHANGING})
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
_CHANGED = f"""
changed AS (
    UPDATE charges SET {", ".join(f"{name} = %({name})s" for name in _CHANGING)}
    WHERE id = %(charge)s AND {" AND ".join(f"{name} IS NOT DISTINCT FROM %(seen_{name})s" for name in _SEEN)}
    RETURNING id
)"""  # noqa: S608 - the schema's own names
_RESERVE_AT_ONCE = f"""
WITH {_LOGGED.format(guard="")}
INSERT INTO charges ({", ".join(_COLUMNS)})
SELECT {", ".join("seq" if name == "entry" else f"%({name})s" for name in _COLUMNS)} FROM head
RETURNING entry
"""  # noqa: S608 - the schema's own names
_CHANGE_AT_ONCE = f"""
WITH {_CHANGED}, {_LOGGED.format(guard="WHERE EXISTS (SELECT FROM changed)")} SELECT seq AS entry FROM head
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


def write_change(
    connection: Connection,
    seen: Charge,
    changed: Charge,
    entry: Draft,
    *,
    totals: Spent | None = None,
    restoring: bool = False,
) -> int:
    """Write what becomes of a charge, the blocks' totals if it was given back, and its entry in the log; its number.

    Args:
        connection: in a change of the ledger.
        seen: the charge, as it was looked at.
        changed: as it is from here on.
        entry: the log's entry.
        totals: what is spent in each block that paid, where the charge is given back.
        restoring: even while the ledger is frozen.

    Raises:
        Overtaken: another call changed the charge meanwhile.
    """
    row, before = charge_row(changed), charge_row(seen)
    values = {name: row[name] for name in _CHANGING}
    failpoint("ledger_before_write")
    if connection.dialect.name == "postgresql":
        guards = {f"seen_{name}": before[name] for name in _SEEN}
        return _at_once(connection, _CHANGE_AT_ONCE, {**entry.parameters(), **values, **guards, "restoring": restoring})
    connection.execute(_CHANGE, {"of_charge": changed.id, **values})
    _set_totals(connection, changed.account, totals or {})
    return append(connection, entry)


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
