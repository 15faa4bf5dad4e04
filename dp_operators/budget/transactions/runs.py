"""The runs of a charge: each start is logged before the application starts, each draw before it can be used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from dp_operators.budget.errors import ChargeConflict
from dp_operators.budget.tables import audit, rows
from dp_operators.budget.tables.sql_writes import change_unread, write_change
from dp_operators.budget.transactions.charges import require_thawed
from dp_operators.budget.values import Charge, ChargeState, Run
from spark_jobs.contract.errors import InvalidRequest


def start_run(connection: Connection, charge_id: str, *, actor: str) -> Run:
    """Log the start of an application for a charge; from now on, rows count as read for the charge.

    Raises:
        InvalidRequest: no such charge.
        ChargeConflict: the charge is burnt or void, so nothing may be drawn for it.
    """
    charge = _writable(connection, charge_id)
    if charge.state not in (ChargeState.RESERVED, ChargeState.COMMITTED):
        raise _already_ended(charge, "nothing can run for it")
    number = charge.runs + 1
    started = replace(charge, runs=number, open_runs=(*charge.open_runs, number))
    _write(connection, charge, started, audit.RUN_STARTED, {"run": number}, actor=actor)
    return Run(number=number, key=run_key(connection, charge_id))


def run_key(connection: Connection, charge_id: str) -> bytes:
    """The secret of a charge's runs.

    Raises:
        InvalidRequest: no such charge, or the database does not show the secret to this role.
    """
    secret = rows.run_key(connection, charge_id)
    if secret is None:
        charge = rows.get_charge(connection, charge_id)
        raise InvalidRequest(
            "charge", charge.id, "has no secret that this role can read", "use a role that may charge its account"
        )
    return bytes.fromhex(secret)


def end_run(connection: Connection, charge_id: str, number: int, *, actor: str) -> Charge:
    """Log that an application read no row; repeating the call changes nothing.

    Raises:
        InvalidRequest: no such charge, or no such run of it.
        ChargeConflict: the charge is committed, burnt or void.
    """
    charge = _writable(connection, charge_id)
    if not 1 <= number <= charge.runs:
        raise InvalidRequest("run", number, f"must be a run of charge {charge_id}", "name one that was started")
    if number not in charge.open_runs:
        return charge
    if charge.state is not ChargeState.RESERVED:
        raise _already_ended(charge, "its runs can no longer change")
    ended = replace(charge, open_runs=tuple(run for run in charge.open_runs if run != number))
    _write(connection, charge, ended, audit.RUN_ENDED, {"run": number}, actor=actor)
    return ended


def record_draw(connection: Connection, charge_id: str, draw_sha256: str, *, actor: str) -> Charge:
    """Log the hash of a charge's draw; repeating the call changes nothing.

    Raises:
        InvalidRequest: no such charge.
        ChargeConflict: another draw is recorded, or the charge ended without one.
    """
    undrawn = {"state": ChargeState.RESERVED.value, "draw_sha256": None}
    changes = {"draw_sha256": draw_sha256}
    changed = change_unread(connection, charge_id, changes, expected=undrawn, actor=actor, reason="")
    if changed is not None:
        return changed
    charge, _, frozen = rows.charge_in_context(connection, charge_id)
    if charge.draw_sha256 == draw_sha256:
        return charge
    if charge.draw_sha256 is not None:
        raise ChargeConflict(
            "draw",
            value=draw_sha256,
            requirement=f"is not the draw of charge {charge.id}, which is {charge.draw_sha256 or 'unknown'}",
            remedy="burn the charge if the recorded draw is gone: a charge pays for one draw",
        )
    require_thawed(frozen)
    if charge.state is not ChargeState.RESERVED:
        raise _already_ended(charge, "no draw can be recorded for it")
    drawn = replace(charge, draw_sha256=draw_sha256)
    _write(connection, charge, drawn, audit.DRAW_RECORDED, changes, actor=actor)
    return drawn


def _writable(connection: Connection, charge_id: str) -> Charge:
    charge, _, frozen = rows.charge_in_context(connection, charge_id)
    require_thawed(frozen)
    return charge


def _write(
    connection: Connection, before: Charge, changed: Charge, action: str, details: dict[str, Any], *, actor: str
) -> None:
    entry = audit.NewEntry(
        at=audit.now(), actor=actor, action=action, account=before.account, charge=before.id, details=details
    )
    write_change(connection, before, changed, entry)


def _already_ended(charge: Charge, what: str) -> ChargeConflict:
    return ChargeConflict(
        "charge",
        value=charge.id,
        requirement=f"is {charge.state}, and {what}",
        remedy=f"use release {charge.release} as it is",
    )
