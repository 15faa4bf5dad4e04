"""What changes the ledger: each function looks, decides, and writes only if what it saw still holds.

I3 rests on ``write_reservation``: between looking at a block's total and writing the next one nobody else writes it, or
nothing is written at all.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update

from dp_operators.budget import audit, rows
from dp_operators.budget.composition import added, fits, taken_off
from dp_operators.budget.errors import BudgetExceeded, ChargeConflict
from dp_operators.budget.schema import account_tables, accounts, block_totals, charges
from dp_operators.budget.values import ALL, Account, Charge, ChargeState, exact_budget
from dp_operators.budget.writes import write_reservation, write_settlement
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit

_RENEW = (
    update(charges)
    .where(charges.c.id == bindparam("charge_id"), charges.c.state == ChargeState.RESERVED.value)
    .values(renewed_at=bindparam("charge_renewed_at"))
)


@dataclass(frozen=True, kw_only=True)
class Order:
    """A charge that is asked for; what is None there is the account's."""

    account: str
    release: str
    cost: Budget
    blocks: tuple[str, ...]
    events: tuple[Any, ...]
    request_sha256: str
    neighbours: Neighbours | None
    unit: PrivacyUnit | None
    tables: tuple[str, ...]
    actor: str


def open_account(connection: Connection, wanted: Account) -> Account:
    """Open an account, or find it open as wanted.

    Raises:
        RequestRefused: it is open otherwise, or a table is bound to another account.
    """
    found = rows.find_account(connection, wanted.name)
    if found is not None:
        return _as_wanted(found, wanted)
    for table in wanted.tables:
        owner = rows.owner_of(connection, table)
        if owner is not None:
            raise RequestRefused(
                "table",
                given=table,
                bound=f"is bound to account {owner}, and a table belongs to one account",
                remedy="charge that account, or leave the table out",
            )
    entry = audit.Draft(
        at=wanted.opened_at,
        actor=wanted.opened_by,
        action=audit.OPENED,
        account=wanted.name,
        details=rows.account_details(wanted),
    )
    audit.append(connection, entry)
    connection.execute(insert(accounts), rows.account_row(wanted))
    if wanted.tables:
        bound = [{"identity": table, "account": wanted.name} for table in wanted.tables]
        connection.execute(insert(account_tables), bound)
    nothing = rows.amounts(exact_budget(Decimal(0)))
    connection.execute(insert(block_totals), {"account": wanted.name, "block": ALL, **nothing})
    return wanted


def reserve(connection: Connection, order: Order) -> Charge:
    """Charge an account, or find the charge that the same order made before.

    Raises:
        RequestRefused: no such account, table or block, or another relation or unit than the account's.
        ChargeConflict: the release key is charged for another request or cost.
        BudgetExceeded: a block cannot bear it.
    """
    ground = rows.standing(connection, order.account, order.release, order.blocks)
    _require_terms(connection, ground, order)
    before = ground.latest
    if before is not None and before.state is not ChargeState.VOID:
        return _same_charge(before, order)
    for block in order.blocks:
        if block not in ground.spent:
            raise rows.no_block(order.account, block)
        _require_room(order, block, ground.cap, ground.spent[block])
    at = audit.now()
    charge = Charge(
        id=secrets.token_hex(16),
        account=order.account,
        release=order.release,
        generation=1 if before is None else before.generation + 1,
        entry=0,  # given by the log
        state=ChargeState.RESERVED,
        cost=order.cost,
        blocks=order.blocks,
        events=order.events,
        neighbours=ground.neighbours,
        unit=ground.unit,
        request_sha256=order.request_sha256,
        manifest_sha256=None,
        actor=order.actor,
        reserved_at=at,
        renewed_at=at,
        settled_at=None,
    )
    entry = audit.Draft(
        at=at,
        actor=order.actor,
        action=ChargeState.RESERVED.value,
        account=order.account,
        charge=charge.id,
        details=rows.charge_details(charge),
    )
    totals = {block: added(spent, order.cost) for block, spent in ground.spent.items()}
    return replace(charge, entry=write_reservation(connection, charge, entry, totals, ground.cap))


def settle(
    connection: Connection,
    charge_id: str,
    state: ChargeState,
    *,
    manifest_sha256: str | None = None,
    actor: str = "",
    reason: str = "",
) -> Charge:
    """Move a reserved charge to its final state, or find it there.

    Raises:
        RequestRefused: no such charge.
        ChargeConflict: it is settled another way, or with another manifest.
    """
    charge = rows.get_charge(connection, charge_id)
    if charge.state is not ChargeState.RESERVED:
        return _already(charge, state, manifest_sha256)
    settled = replace(charge, state=state, manifest_sha256=manifest_sha256, settled_at=audit.now())
    entry = audit.Draft(
        at=str(settled.settled_at),
        actor=actor,
        action=state.value,
        account=charge.account,
        charge=charge.id,
        reason=reason,
        details={"manifest_sha256": manifest_sha256},
    )
    totals = {}
    if state is ChargeState.VOID:
        spent = rows.spent_in(connection, charge.account, charge.blocks)
        totals = {block: taken_off(total, charge.cost) for block, total in spent.items()}
    write_settlement(connection, settled, entry, totals)
    return settled


def renew(connection: Connection, charge_id: str) -> Charge:
    """Say that somebody still works on a reserved charge. A heartbeat is no change of the ledger: it is not logged.

    Raises:
        RequestRefused: no such charge.
    """
    connection.execute(_RENEW, {"charge_id": charge_id, "charge_renewed_at": audit.now()})
    return rows.get_charge(connection, charge_id)


def _as_wanted(found: Account, wanted: Account) -> Account:
    for field in ("composition", "cap", "neighbours", "unit", "tables"):
        if getattr(found, field) != getattr(wanted, field):
            raise RequestRefused(
                "account",
                given=found.name,
                bound=f"is open already, with another {field}",
                remedy="open an account of another name; `dp-budget show` tells how this one is set",
            )
    return found


def _require_terms(connection: Connection, ground: rows.Standing, order: Order) -> None:
    if order.neighbours not in (None, ground.neighbours):
        raise _other_terms("neighbours", str(order.neighbours), order.account, str(ground.neighbours))
    if order.unit not in (None, ground.unit):
        raise _other_terms("unit", str(order.unit), order.account, str(ground.unit))
    bound = rows.tables_of(connection, order.account) if order.tables else ()
    for table in order.tables:
        if table not in bound:
            raise RequestRefused(
                "table",
                given=table,
                bound=f"is not bound to account {order.account}",
                remedy="charge the account that the table is bound to",
            )


def _other_terms(what: str, asked: str, account: str, kept: str) -> RequestRefused:
    return RequestRefused(
        what,
        given=asked,
        bound=f"account {account} keeps {kept}, and costs about different ones cannot be added",
        remedy="ask for the account's, or charge another account",
    )


def _same_charge(charge: Charge, order: Order) -> Charge:
    before = (charge.request_sha256, charge.cost, charge.blocks)
    if before == (order.request_sha256, order.cost, order.blocks):
        return charge
    raise ChargeConflict(
        "release",
        given=charge.release,
        bound=f"is {charge.state} for another request, cost or blocks, by charge {charge.id}",
        remedy="a release key pays for one request: use another key",
    )


def _require_room(order: Order, block: str, cap: Budget, spent: Budget) -> None:
    if not fits(cap, added(spent, order.cost)):
        remaining = taken_off(cap, spent)
        raise BudgetExceeded(
            account=order.account,
            block=block,
            asked=order.cost.epsilon,
            remaining=remaining.epsilon,
            cap=cap.epsilon,
        )


def _already(charge: Charge, state: ChargeState, manifest_sha256: str | None) -> Charge:
    if charge.state is not state:
        bound = f"is {charge.state} and can no longer be {state}"
    elif charge.manifest_sha256 != manifest_sha256:
        bound = f"is committed with another manifest, {charge.manifest_sha256 or 'none'}"
    else:
        return charge
    raise ChargeConflict(
        "charge", given=charge.id, bound=bound, remedy=f"go on from what release {charge.release} has become"
    )
