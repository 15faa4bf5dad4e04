"""How charges are written.

On SQLite the transaction has the file to itself: what was looked at still holds, and the rows are simply written.

On PostgreSQL each change is one statement that carries its own guard: room in every block, or a charge that is still
reserved. It takes its row locks, the audit log's head last, and gives them back before any client hears of it. So
nobody waits for another's network or processor, and a worker that is paused or killed holds nothing. Where a guard
fails, nothing is written, and the caller looks again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update

from dp_operators.budget.audit import Draft, append
from dp_operators.budget.composition import Limits
from dp_operators.budget.database import Overtaken
from dp_operators.budget.rows import Spent, amounts, charge_row
from dp_operators.budget.schema import block_totals, charges
from dp_operators.budget.statements import fetch
from dp_operators.budget.values import Charge
from spark_jobs.contract.failpoints import failpoint
from spark_jobs.contract.privacy import plain

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
# Amounts are text in the rows and numeric, which is exact, in between.
_LOGGED = """
head AS (
    UPDATE audit_head
    SET seq = seq + 1, previous = hash,
        hash = encode(sha256(convert_to(%(before)s || hash || %(between)s || (seq + 1) || %(after)s, 'UTF8')), 'hex')
    WHERE EXISTS (SELECT FROM {guard})
    RETURNING seq, previous, hash, 1 / (frozen = '' OR %(restoring)s::boolean)::integer AS may_be_written
), logged AS (
    INSERT INTO audit_log (seq, at, actor, action, account, charge, reason, details, previous, hash)
    SELECT seq, %(at)s, %(actor)s, %(action)s, %(account)s, %(charge)s, %(reason)s, %(details)s, previous, hash
    FROM head
)"""
_ROOM = """
room AS (
    SELECT allotment, block, epsilon::numeric AS e, delta::numeric AS d, rho::numeric AS r FROM block_totals
    WHERE account = %(account)s AND block = ANY(%(names)s) AND allotment = ANY(%(purses)s)
    ORDER BY allotment, block FOR UPDATE
)"""
# a limit that is NULL admits nothing; NULL or true is true
_FITS = """
d + %(delta)s::text::numeric <= %(most_{0}delta)s::text::numeric AND (
    e + %(epsilon)s::text::numeric <= %(most_{0}epsilon)s::text::numeric
    OR r + %(rho)s::text::numeric <= %(most_{0}rho)s::text::numeric)"""
_MOVED = """
moved AS (
    UPDATE block_totals AS total SET
        epsilon = trim_scale(e {sign} %(epsilon)s::text::numeric)::text,
        delta = trim_scale(d {sign} %(delta)s::text::numeric)::text,
        rho = trim_scale(r {sign} %(rho)s::text::numeric)::text
    FROM {source}
    WHERE total.account = %(account)s AND total.allotment = room.allotment AND total.block = room.block {guard}
    RETURNING total.block
)"""
_ENSURE_AT_ONCE = """
INSERT INTO block_totals (account, allotment, block, epsilon, delta, rho)
SELECT %(account)s, purse, name, '0', '0', %(zero)s FROM unnest(%(purses)s::text[], %(names)s::text[]) AS t(purse, name)
ON CONFLICT DO NOTHING RETURNING block
"""
_SETTLED = """
settled AS (
    UPDATE charges SET state = %(action)s, manifest_sha256 = %(manifest_sha256)s, settled_at = %(at)s,
        drawn_events = %(drawn_events)s
    WHERE id = %(charge)s AND state = 'reserved' RETURNING id
)"""
_ENOUGH = f"""
AND %(wanted)s::integer = (SELECT count(*) FROM room WHERE CASE allotment
    WHEN '' THEN {_FITS.format("")} ELSE {_FITS.format("allotted_")} END)"""  # noqa: S608
_RESERVE_AT_ONCE = f"""
WITH {_ROOM}, {_MOVED.format(sign="+", source="room", guard=_ENOUGH)}, {_LOGGED.format(guard="moved")}
INSERT INTO charges ({", ".join(_COLUMNS)})
SELECT {", ".join("seq" if name == "entry" else f"%({name})s" for name in _COLUMNS)} FROM head
RETURNING entry
"""  # noqa: S608 - the schema's own names
_SPEND_AT_ONCE = f"WITH {_SETTLED}, {_LOGGED.format(guard='settled')} SELECT seq AS entry FROM head"  # noqa: S608
_GIVE_BACK_AT_ONCE = f"""
WITH {_SETTLED}, {_ROOM}, {_MOVED.format(sign="-", source="room, settled", guard="")}, {_LOGGED.format(guard="moved")}
SELECT seq AS entry FROM head
"""  # noqa: S608


def write_reservation(
    connection: Connection,
    charge: Charge,
    entry: Draft,
    *,
    totals: Spent,
    fresh: Collection[tuple[str, str]],
    limits: Limits,
    allotted: Limits | None,
    restoring: bool = False,
) -> int:
    """Write a new charge, the blocks' totals after it, and its entry in the log; the entry's number.

    Args:
        connection: in a change of the ledger.
        charge: the charge.
        entry: its entry.
        totals: what is spent in each block that pays, by the account and the allotment, once the charge is.
        fresh: those of them in which nothing was charged before.
        limits: the account's.
        allotted: the allotment's, if it has one.
        restoring: even while the ledger is frozen.

    Raises:
        Overtaken: another charge took the room meanwhile.
    """
    row = charge_row(charge)
    if connection.dialect.name == "postgresql":
        if fresh:
            _ensure(connection, charge, fresh)
        failpoint("ledger_before_write")
        most = {**_limits("most_", limits), **_limits("most_allotted_", allotted or limits)}
        given = {**row, **entry.parameters(), **_places(totals), "wanted": len(totals), "restoring": restoring, **most}
        return _at_once(connection, _RESERVE_AT_ONCE, given)
    failpoint("ledger_before_write")
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
        if not totals:
            return _at_once(connection, _SPEND_AT_ONCE, given)
        return _at_once(connection, _GIVE_BACK_AT_ONCE, {**given, **_places(totals), **amounts(charge.cost)})
    connection.execute(_SETTLE, {"of_charge": charge.id, **_settling(charge, *_SETTLING)})
    _set_totals(connection, charge.account, totals)
    return append(connection, entry)


def _settling(charge: Charge, *columns: str) -> dict[str, Any]:
    row = charge_row(charge)
    return {name: row[name] for name in columns}


def _ensure(connection: Connection, charge: Charge, fresh: Collection[tuple[str, str]]) -> None:
    """Make rows of nothing for blocks that are charged for the first time: the guarded statement locks rows."""
    places = sorted(fresh)
    given = {
        "account": charge.account,
        "purses": [purse for purse, _ in places],
        "names": [name for _, name in places],
        "zero": None if charge.cost.rho is None else "0",
    }
    fetch(connection, _ENSURE_AT_ONCE, given)


def _places(totals: Spent) -> dict[str, list[str]]:
    return {"purses": sorted({purse for purse, _ in totals}), "names": sorted({name for _, name in totals})}


def _limits(prefix: str, limits: Limits) -> dict[str, str | None]:
    return {f"{prefix}{name}": None if most is None else plain(most) for name, most in vars(limits).items()}


def _at_once(connection: Connection, statement: str, given: Mapping[str, Any]) -> int:
    rows = fetch(connection, statement, given)
    if not rows:
        raise Overtaken
    return int(rows[0].entry)


def _set_totals(connection: Connection, account: str, totals: Spent) -> None:
    for (allotment, block), total in totals.items():
        place = {"of_account": account, "of_allotment": allotment, "of_block": block}
        connection.execute(_SET_TOTAL, {**place, **amounts(total)})
