"""Changes of charges: each function reads, decides, and writes only if what it read is still true.

Invariant I3, that charges never exceed a cap, rests on ``write_reservation``: if another call changes a block's total
between its read and its write here, nothing is written.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, bindparam, insert, update

from dp_operators.budget.composition import added, cost_in, fits, limits_of, subtracted, zero_cost
from dp_operators.budget.errors import BudgetExceeded, ChargeConflict, LedgerFrozen
from dp_operators.budget.tables import audit, mapping, rows
from dp_operators.budget.tables.schema import charges, run_keys
from dp_operators.budget.tables.sql_writes import change_unread, write_change, write_reservation
from dp_operators.budget.values import ALL, Account, Charge, ChargeState, SubBudget
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit

_RENEW = (
    update(charges)
    .where(charges.c.id == bindparam("charge_id"), charges.c.state == ChargeState.RESERVED.value)
    .values(renewed_at=bindparam("charge_renewed_at"))
)


_SECRET_BYTES = 32
_MAKE_KEY = insert(run_keys)


@dataclass(frozen=True, kw_only=True)
class Order:
    """A requested charge; ``neighbours`` and ``unit`` are the account's if they are None.

    A charge that is restored has its old id in ``restored`` and is written even while the ledger is frozen.
    """

    account: str
    release: str
    epsilon: Any
    delta: Any
    rho: Any = None
    blocks: tuple[str, ...]
    allotment: str
    events: tuple[Any, ...] = ()
    request_sha256: str
    neighbours: Neighbours | None = None
    unit: PrivacyUnit | None = None
    tables: tuple[str, ...] = ()
    actor: str
    restored: str = ""
    reason: str = ""


def reserve(connection: Connection, order: Order) -> Charge:
    """Charge an account, or return the charge that the same order created before.

    Raises:
        InvalidRequest: no such account, table or block, or a relation or unit that is not the account's.
        ChargeConflict: the release key is charged for another request or cost.
        BudgetExceeded: a block has no room for the cost.
    """
    context = rows.reservation_context(connection, order.account, order.release, {*order.blocks, ALL}, order.allotment)
    account = context.account
    _require_terms(connection, account, order)
    cost = cost_in(account.composition, order.epsilon, order.delta, order.rho)
    before = context.latest
    if before is not None and before.state is not ChargeState.VOID:
        return _same_charge(before, order, cost)
    if not order.restored:
        require_thawed(context.frozen)
    account.require_blocks(order.blocks)
    totals = totals_after(account, context.sub_budget, order.allotment, context.spent, order.blocks, cost)
    at = audit.now()
    charge = Charge(
        id=order.restored or secrets.token_hex(16),
        account=order.account,
        release=order.release,
        generation=1 if before is None else before.generation + 1,
        entry=0,  # given by the log
        state=ChargeState.RESERVED,
        cost=cost,
        blocks=order.blocks,
        allotment=order.allotment,
        events=order.events,
        neighbours=account.neighbours,
        unit=account.unit,
        request_sha256=order.request_sha256,
        manifest_sha256=None,
        actor=order.actor,
        reserved_at=at,
        renewed_at=at,
        settled_at=None,
        # a restored charge may have run
        runs=1 if order.restored else 0,
        open_runs=(1,) if order.restored else (),
    )
    entry = audit.NewEntry(
        at=at,
        actor=order.actor,
        action=ChargeState.RESERVED.value,
        account=order.account,
        charge=charge.id,
        reason=order.reason,
        details=mapping.charge_details(charge, account),
    )
    seq = write_reservation(
        connection,
        charge,
        entry,
        totals=totals,
        fresh=totals.keys() - context.spent.keys(),
    )
    if connection.dialect.name != "postgresql":  # there the server creates it
        connection.execute(_MAKE_KEY, {"charge": charge.id, "run_key": secrets.token_hex(_SECRET_BYTES)})
    return replace(charge, entry=seq)


def totals_after(
    account: Account,
    sub_budget: SubBudget | None,
    requested: str,
    spent: rows.Spent,
    blocks: tuple[str, ...],
    cost: Budget,
) -> rows.Spent:
    """The totals after ``cost`` of each block that pays, for the account and for the requested sub-budget.

    Raises:
        InvalidRequest: the requested sub-budget does not exist.
        BudgetExceeded: a block has no room for the cost.
    """
    if requested and sub_budget is None:
        raise rows.no_sub_budget(account.name, requested)
    totals = {}
    payers: list[Account | SubBudget] = [account] if sub_budget is None else [account, sub_budget]
    for payer in payers:
        limits = limits_of(account.composition, payer.cap, payer.slack)
        name = payer.name if isinstance(payer, SubBudget) else ""
        empty = zero_cost(account.composition)
        # blocks that were charged together have equal totals
        after: dict[tuple[Any, ...], Budget] = {}
        for block in account.paying(blocks):
            before = spent.get((name, block), empty)
            amounts = (before.epsilon, before.delta, before.rho)
            if amounts not in after:
                after[amounts] = added(before, cost)
                if not fits(limits, after[amounts]):
                    raise BudgetExceeded.of(account, name, block, limits=limits, spent=before, cost=cost)
            totals[name, block] = after[amounts]
    return totals


def end_reservation(
    connection: Connection,
    charge_id: str,
    state: ChargeState,
    *,
    manifest_sha256: str | None = None,
    events: tuple[Any, ...] | None = None,
    figures: tuple[Any, ...] | None = None,
    actor: str = "",
    reason: str = "",
    while_frozen: bool = False,
) -> Charge:
    """Move a reserved charge to its final state, or return the charge if it is in this state already.

    Raises:
        InvalidRequest: no such charge.
        ChargeConflict: the charge ended in another state or with another manifest; or it cannot be given back because
            rows may have been read for it; or it cannot be committed because no draw is recorded.
    """
    at = audit.now()
    if state is not ChargeState.VOID and not while_frozen:
        spent_on = {"state": state.value, "manifest_sha256": manifest_sha256, "settled_at": at}
        drawn = {"drawn_events": mapping.texts(events), "figures": mapping.texts(figures)}
        expected = {"state": ChargeState.RESERVED.value} | ({"drawn": True} if state is ChargeState.COMMITTED else {})
        changed = change_unread(connection, charge_id, spent_on | drawn, expected=expected, actor=actor, reason=reason)
        if changed is not None:
            return changed
    charge, unit_stays, frozen = rows.charge_in_context(connection, charge_id)
    if charge.state is not ChargeState.RESERVED:
        return _already(charge, state, manifest_sha256)
    if not while_frozen:
        require_thawed(frozen)
        _require_ready(charge, state)
    ended = replace(
        charge,
        state=state,
        manifest_sha256=manifest_sha256,
        settled_at=at,
        drawn_events=events,
        figures=figures,
        draw_sha256="" if while_frozen and charge.draw_sha256 is None else charge.draw_sha256,
    )
    entry = audit.NewEntry(
        at=at,
        actor=actor,
        action=state.value,
        account=charge.account,
        charge=charge.id,
        reason=reason,
        details=mapping.settlement_details(charge, ended),
    )
    totals = {}
    if state is ChargeState.VOID:
        paying = charge.blocks if unit_stays else (ALL,)
        spent = rows.spent_in(connection, charge.account, paying, charge.allotment)
        totals = {place: subtracted(total, charge.cost) for place, total in spent.items()}
    write_change(connection, charge, ended, entry, totals=totals)
    return ended


def _require_ready(charge: Charge, state: ChargeState) -> None:
    """Reject giving back a charge that may have a draw, and committing one without a recorded draw."""
    if state is ChargeState.VOID and charge.may_have_drawn:
        why = "its draw is recorded" if charge.draw_sha256 is not None else "an application was started for it"
        raise ChargeConflict(
            "charge",
            value=charge.id,
            requirement=f"can no longer be void: {why}, so rows may have been read",
            remedy="burn it, which leaves its cost spent",
        )
    if state is ChargeState.COMMITTED and charge.draw_sha256 is None:
        raise ChargeConflict(
            "charge",
            value=charge.id,
            requirement="must have a recorded draw to be committed",
            remedy="record the hash of its draw first",
        )


def renew(connection: Connection, charge_id: str) -> Charge:
    """Record a heartbeat of a reserved charge; heartbeats are not logged.

    Raises:
        InvalidRequest: no such charge.
    """
    connection.execute(_RENEW, {"charge_id": charge_id, "charge_renewed_at": audit.now()})
    return rows.get_charge(connection, charge_id)


def require_thawed(frozen: str) -> None:
    """Reject a change of a frozen ledger.

    Raises:
        LedgerFrozen: the ledger is frozen.
    """
    if frozen:
        raise LedgerFrozen(frozen)


def _require_terms(connection: Connection, account: Account, order: Order) -> None:
    if order.neighbours not in (None, account.neighbours):
        raise _other_terms("neighbours", str(order.neighbours), order.account, str(account.neighbours))
    if order.unit not in (None, account.unit):
        raise _other_terms("unit", str(order.unit), order.account, str(account.unit))
    bound = rows.tables_of(connection, order.account) if order.tables else ()
    for table in order.tables:
        if table not in bound:
            raise InvalidRequest(
                "table", table, f"is not bound to account {order.account}",
                "charge the account that the table is bound to",
            )  # fmt: skip


def _other_terms(what: str, requested: str, account: str, of_account: str) -> InvalidRequest:
    return InvalidRequest(
        what, requested, f"must be that of account {account}, which is {of_account}, because costs for different "
        f"values of {what} cannot be added up",
        f"use the account's {what}, or charge another account",
    )  # fmt: skip


def _same_charge(charge: Charge, order: Order, cost: Budget) -> Charge:
    before = (charge.request_sha256, charge.cost, charge.blocks, charge.allotment)
    if before == (order.request_sha256, cost, order.blocks, order.allotment):
        return charge
    raise ChargeConflict.of_other_request(charge)


def _already(charge: Charge, state: ChargeState, manifest_sha256: str | None) -> Charge:
    if charge.state is not state:
        bound = f"is {charge.state} and can no longer be {state}"
    elif charge.manifest_sha256 != manifest_sha256:
        bound = f"is committed with another manifest, {charge.manifest_sha256 or 'none'}"
    else:
        return charge
    raise ChargeConflict("charge", value=charge.id, requirement=bound, remedy=f"use release {charge.release} as it is")
