"""What changes the ledger. Each function runs inside one transaction that has locked the audit log's head beforehand.

That one lock keeps I3: between looking at a total and writing the next one, nobody else writes. SQLite knows no other
way; on PostgreSQL it costs nothing more than the log does, whose every entry needs the hash of the one before.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update

from dp_operators.budget import audit, rows
from dp_operators.budget.composition import added, fits, taken_off
from dp_operators.budget.database import Write, apply
from dp_operators.budget.errors import BudgetExceeded, ChargeConflict
from dp_operators.budget.schema import account_tables, accounts, block_totals, charges
from dp_operators.budget.values import ALL, Account, Charge, ChargeState, exact_budget
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit

_MAKE_CHARGE = insert(charges).values({column: bindparam(f"charge_{column.name}") for column in charges.columns})
_SETTLE = (
    update(charges)
    .where(charges.c.id == bindparam("charge_id"), charges.c.state == ChargeState.RESERVED.value)
    .values(
        {name: bindparam(f"charge_{name}") for name in ("state", "manifest_sha256", "settled_at")},
    )
)
_RENEW = (
    update(charges)
    .where(charges.c.id == bindparam("charge_id"), charges.c.state == ChargeState.RESERVED.value)
    .values(renewed_at=bindparam("charge_renewed_at"))
)
_SET_TOTAL = (
    update(block_totals)
    .where(block_totals.c.account == bindparam("total_account"), block_totals.c.block == bindparam("total_block"))
    .values({name: bindparam(f"total_{name}") for name in ("epsilon", "delta", "rho")})
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
    entry = audit.next_entry(
        audit.read_head(connection),
        at=wanted.opened_at,
        actor=wanted.opened_by,
        action=audit.OPENED,
        account=wanted.name,
        details=rows.account_details(wanted),
    )
    connection.execute(insert(accounts), rows.account_row(wanted))
    if wanted.tables:
        bound = [{"identity": table, "account": wanted.name} for table in wanted.tables]
        connection.execute(insert(account_tables), bound)
    nothing = rows.amounts(exact_budget(Decimal(0)))
    connection.execute(insert(block_totals), {"account": wanted.name, "block": ALL, **nothing})
    apply(connection, *audit.appending(entry))
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
        entry=ground.head.seq + 1,
        state=ChargeState.RESERVED,
        cost=order.cost,
        blocks=order.blocks,
        spent_before=ground.spent,
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
    entry = audit.next_entry(
        ground.head,
        at=at,
        actor=order.actor,
        action=ChargeState.RESERVED.value,
        account=order.account,
        charge=charge.id,
        details=rows.charge_details(charge),
    )
    made = (_MAKE_CHARGE, {f"charge_{name}": value for name, value in rows.charge_row(charge).items()})
    totals = {block: added(spent, order.cost) for block, spent in ground.spent.items()}
    apply(connection, made, *_new_totals(connection, order.account, totals), *audit.appending(entry))
    return charge


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
    charge, head = rows.charge_and_head(connection, charge_id)
    if charge.state is not ChargeState.RESERVED:
        return _already(charge, state, manifest_sha256)
    settled = replace(charge, state=state, manifest_sha256=manifest_sha256, settled_at=audit.now())
    entry = audit.next_entry(
        head,
        at=str(settled.settled_at),
        actor=actor,
        action=state.value,
        account=charge.account,
        charge=charge.id,
        reason=reason,
        details={"manifest_sha256": manifest_sha256},
    )
    change = {"charge_id": charge.id, "charge_state": state.value, "charge_manifest_sha256": manifest_sha256}
    writes: list[Write] = [(_SETTLE, {**change, "charge_settled_at": settled.settled_at})]
    if state is ChargeState.VOID:
        spent = rows.spent_in(connection, charge.account, charge.blocks)
        totals = {block: taken_off(total, charge.cost) for block, total in spent.items()}
        writes += _new_totals(connection, charge.account, totals)
    apply(connection, *writes, *audit.appending(entry))
    return settled


def renew(connection: Connection, charge_id: str) -> Charge:
    """Say that somebody still works on a reserved charge. A heartbeat is no change of the ledger: it is not logged.

    Raises:
        RequestRefused: no such charge.
    """
    connection.execute(_RENEW, {"charge_id": charge_id, "charge_renewed_at": audit.now()})
    charge = rows.find_charge(connection, charge_id)
    if charge is None:
        raise rows.no_charge(charge_id)
    return charge


def _new_totals(connection: Connection, account: str, totals: Mapping[str, Budget]) -> list[Write]:
    """The write that sets a block's total; several blocks are written at once, here and now."""
    values = [
        {
            "total_account": account,
            "total_block": block,
            **{f"total_{name}": value for name, value in rows.amounts(total).items()},
        }
        for block, total in totals.items()
    ]
    if len(values) == 1:
        return [(_SET_TOTAL, values[0])]
    connection.execute(_SET_TOTAL, values)
    return []


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
    for what, asked, kept in (
        ("neighbours", order.neighbours, ground.neighbours),
        ("unit", order.unit, ground.unit),
    ):
        if asked is not None and asked != kept:
            raise RequestRefused(
                what,
                given=asked,
                bound=f"account {order.account} keeps {kept}, and costs about different ones cannot be added",
                remedy="ask for the account's, or charge another account",
            )
    for table in sorted(
        set(order.tables).difference(rows.tables_of(connection, order.account) if order.tables else ())
    ):
        raise RequestRefused(
            "table",
            given=table,
            bound=f"is not bound to account {order.account}",
            remedy="charge the account that the table is bound to",
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
