"""The steps of a stream: a hash chain per charge, of objects recorded before their steps are published.

An object is recorded only if it continues the chain's head: the number of the next step and the hash of the last
object. So of two objects for one step only one is ever recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, insert, literal_column, select
from sqlalchemy.exc import DBAPIError

from dp_operators.budget.errors import ChargeConflict
from dp_operators.budget.tables import audit, rows
from dp_operators.budget.tables.database import Overtaken
from dp_operators.budget.tables.queries import Query, fetch
from dp_operators.budget.tables.schema import stream_steps
from dp_operators.budget.transactions.charges import require_thawed
from dp_operators.budget.values import ChargeState, RecordedSteps, StreamHead
from spark_jobs.contract.store.failpoints import failpoint

_OF_CHARGE = stream_steps.c.charge == bindparam("charge")
_ALL = Query(lambda _: select(stream_steps).where(_OF_CHARGE).order_by(stream_steps.c.first))
_LAST = Query(
    lambda _: select(stream_steps).where(_OF_CHARGE).order_by(stream_steps.c.first.desc()).limit(literal_column("1"))
)
_ONE = Query(lambda _: select(stream_steps).where(_OF_CHARGE, stream_steps.c.first == bindparam("first")))
_NOT_THE_NEXT = "DP001"
_TAKEN = "23505"


def recorded_steps(connection: Connection, charge_id: str) -> tuple[RecordedSteps, ...]:
    """All recorded objects of a charge's stream, in order."""
    return tuple(_steps_of(row) for row in fetch(connection, _ALL, {"charge": charge_id}))


def stream_head(connection: Connection, charge_id: str) -> StreamHead:
    """The end of the chain of a charge's stream."""
    last = next(iter(fetch(connection, _LAST, {"charge": charge_id})), None)
    return StreamHead() if last is None else StreamHead.after(_steps_of(last))


def record_steps(
    connection: Connection, recorded: RecordedSteps, *, restored: bool = False, actor: str, reason: str = ""
) -> StreamHead:
    """Log the object with the next steps of a stream; repeating the call changes nothing.

    Args:
        connection: a connection in a change of the ledger.
        recorded: the object.
        restored: whether the store has the object but a restored ledger lacks it; the object may then be entered even
            while the ledger is frozen.
        actor: who requests it.
        reason: why, if it is restored.

    Raises:
        InvalidRequest: no such charge.
        ChargeConflict: another object is recorded for these steps, the steps do not follow the last recorded ones, or
            the charge is burnt or void.
    """
    charge, _, frozen = rows.charge_in_context(connection, recorded.charge)
    head = stream_head(connection, charge.id)
    if recorded.first < head.steps:
        same = fetch(connection, _ONE, {"charge": charge.id, "first": recorded.first})
        if same and _steps_of(same[0]) == recorded:
            return head
        raise _conflict(recorded, f"are recorded already, with another object; the stream is at step {head.steps}")
    if (recorded.first, recorded.previous_sha256) != (head.steps, head.sha256):
        raise _conflict(recorded, f"do not follow the last ones: the stream is at step {head.steps}")
    if not restored:
        require_thawed(frozen)
    if charge.state not in (ChargeState.RESERVED, ChargeState.COMMITTED):
        raise _conflict(recorded, f"cannot be recorded: charge {charge.id} is {charge.state}")
    row = {**vars(recorded), "restored": int(restored), "recorded_at": audit.now(), "recorded_by": actor}
    _write(connection, {**row, "reason": reason}, account=charge.account)
    return StreamHead.after(recorded)


def _write(connection: Connection, row: Mapping[str, Any], *, account: str) -> None:
    failpoint("ledger_before_write")
    try:
        connection.execute(insert(stream_steps), dict(row))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in (_NOT_THE_NEXT, _TAKEN):
            raise Overtaken from None
        raise
    if connection.dialect.name == "postgresql":
        return  # the server has logged it
    details = ("first", "steps", "object_sha256", "previous_sha256", "restored")
    entry = audit.NewEntry(
        at=str(row["recorded_at"]),
        actor=str(row["recorded_by"]),
        action=audit.STEPS_RECORDED,
        account=account,
        charge=str(row["charge"]),
        reason=str(row["reason"]),
        details={name: row[name] for name in details},
    )
    audit.append(connection, entry)


def _steps_of(row: Any) -> RecordedSteps:
    return RecordedSteps(
        charge=row.stream_steps_charge,
        first=row.stream_steps_first,
        steps=row.stream_steps_steps,
        object_sha256=row.stream_steps_object_sha256,
        previous_sha256=row.stream_steps_previous_sha256,
    )


def _conflict(recorded: RecordedSteps, requirement: str) -> ChargeConflict:
    return ChargeConflict(
        "steps",
        value=f"{recorded.first} to {recorded.first + recorded.steps - 1}",
        requirement=requirement,
        remedy="run the stream again: it continues from what the ledger has",
    )
