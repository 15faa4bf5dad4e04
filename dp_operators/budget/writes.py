"""How charges are written.

On SQLite the transaction has the file to itself: what was looked at still holds, and the rows are simply written.

On PostgreSQL each change is one statement that carries its own guard: room in every block, or a charge that is still
reserved. It takes its row locks, the audit log's head last, and gives them back before any client hears of it. So
nobody waits for another's network or processor, and a worker that is paused or killed holds nothing. Where a guard
fails, nothing is written, and the caller looks again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update

from dp_operators.budget.audit import Draft, append
from dp_operators.budget.database import Overtaken
from dp_operators.budget.rows import amounts, charge_row
from dp_operators.budget.schema import block_totals, charges
from dp_operators.budget.statements import fetch
from dp_operators.budget.values import Charge
from spark_jobs.contract.failpoints import failpoint
from spark_jobs.contract.privacy import Budget, plain

_MAKE = insert(charges)
_SETTLE = (
    update(charges)
    .where(charges.c.id == bindparam("of_charge"))
    .values({name: bindparam(name) for name in ("state", "manifest_sha256", "settled_at")})
)
_SET_TOTAL = (
    update(block_totals)
    .where(block_totals.c.account == bindparam("of_account"), block_totals.c.block == bindparam("of_block"))
    .values({name: bindparam(name) for name in ("epsilon", "delta", "rho")})
)

_COLUMNS = [column.name for column in charges.columns]

# PostgreSQL, in psycopg's own notation. Amounts are text in the rows and numeric, which is exact, in between.
_LOGGED = """
head AS (
    UPDATE audit_head
    SET seq = seq + 1, previous = hash,
        hash = encode(sha256(convert_to(%(before)s || hash || %(between)s || (seq + 1) || %(after)s, 'UTF8')), 'hex')
    WHERE EXISTS (SELECT FROM {guard})
    RETURNING seq, previous, hash
), logged AS (
    INSERT INTO audit_log (seq, at, actor, action, account, charge, reason, details, previous, hash)
    SELECT seq, %(at)s, %(actor)s, %(action)s, %(account)s, %(charge)s, %(reason)s, %(details)s, previous, hash
    FROM head
)"""
_ROOM = """
room AS (
    SELECT block, epsilon::numeric AS spent FROM block_totals
    WHERE account = %(account)s AND block = ANY(%(names)s) ORDER BY block FOR UPDATE
)"""
_SETTLED = """
settled AS (
    UPDATE charges SET state = %(action)s, manifest_sha256 = %(manifest_sha256)s, settled_at = %(at)s
    WHERE id = %(charge)s AND state = 'reserved' RETURNING id
)"""
_RESERVE_AT_ONCE = f"""
WITH {_ROOM}, moved AS (
    UPDATE block_totals AS total SET epsilon = trim_scale(spent + %(epsilon)s::text::numeric)::text FROM room
    WHERE total.account = %(account)s AND total.block = room.block AND %(wanted)s::integer = (
        SELECT count(*) FROM room WHERE spent + %(epsilon)s::text::numeric <= %(cap)s::text::numeric)
    RETURNING total.block
), {_LOGGED.format(guard="moved")}
INSERT INTO charges ({", ".join(_COLUMNS)})
SELECT {", ".join("seq" if name == "entry" else f"%({name})s" for name in _COLUMNS)} FROM head
RETURNING entry
"""  # noqa: S608 - the schema's own names
_SPEND_AT_ONCE = f"WITH {_SETTLED}, {_LOGGED.format(guard='settled')} SELECT seq AS entry FROM head"  # noqa: S608
_GIVE_BACK_AT_ONCE = f"""
WITH {_SETTLED}, {_ROOM}, moved AS (
    UPDATE block_totals AS total SET epsilon = trim_scale(spent - %(epsilon)s::text::numeric)::text FROM room, settled
    WHERE total.account = %(account)s AND total.block = room.block RETURNING total.block
), {_LOGGED.format(guard="moved")}
SELECT seq AS entry FROM head
"""  # noqa: S608


def write_reservation(
    connection: Connection, charge: Charge, entry: Draft, totals: Mapping[str, Budget], cap: Budget
) -> int:
    """Write a new charge, the blocks' totals after it, and its entry in the log; the entry's number.

    Raises:
        Overtaken: another charge took the room meanwhile.
    """
    failpoint("ledger_before_write")
    row = charge_row(charge)
    if connection.dialect.name == "postgresql":
        room = {"names": list(charge.blocks), "wanted": len(charge.blocks), "cap": plain(cap.epsilon)}
        return _at_once(connection, _RESERVE_AT_ONCE, {**row, **entry.parameters(), **room})
    seq = append(connection, entry)
    connection.execute(_MAKE, {**row, "entry": seq})
    _set_totals(connection, charge.account, totals)
    return seq


def write_settlement(connection: Connection, charge: Charge, entry: Draft, totals: Mapping[str, Budget]) -> int:
    """Write a charge's final state, the blocks' totals if it was given back, and its entry in the log; its number.

    Raises:
        Overtaken: another call settled the charge meanwhile.
    """
    failpoint("ledger_before_write")
    if connection.dialect.name == "postgresql":
        given = {**entry.parameters(), "manifest_sha256": charge.manifest_sha256}
        if not totals:
            return _at_once(connection, _SPEND_AT_ONCE, given)
        room = {"names": list(charge.blocks), "epsilon": plain(charge.cost.epsilon)}
        return _at_once(connection, _GIVE_BACK_AT_ONCE, {**given, **room})
    row = charge_row(charge)
    settled = {name: row[name] for name in ("state", "manifest_sha256", "settled_at")}
    connection.execute(_SETTLE, {"of_charge": charge.id, **settled})
    _set_totals(connection, charge.account, totals)
    return append(connection, entry)


def _at_once(connection: Connection, statement: str, given: Mapping[str, Any]) -> int:
    rows = fetch(connection, statement, given)
    if not rows:
        raise Overtaken
    return int(rows[0].entry)


def _set_totals(connection: Connection, account: str, totals: Mapping[str, Budget]) -> None:
    for block, total in totals.items():
        connection.execute(_SET_TOTAL, {"of_account": account, "of_block": block, **amounts(total)})
