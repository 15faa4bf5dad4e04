"""What an administrator changes: accounts, caps, sub-budgets, and whether the ledger is frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, insert, update

from dp_operators.budget.composition import APPROXIMATE, PURE, ZCDP, cap_of, is_raise, zero_cost
from dp_operators.budget.tables import audit, mapping, rows
from dp_operators.budget.tables.queries import fetch
from dp_operators.budget.tables.schema import account_tables, accounts, allotments, block_totals
from dp_operators.budget.transactions.charges import require_thawed
from dp_operators.budget.transactions.overlaps import require_separate_outputs, require_separate_tables
from dp_operators.budget.values import ALL, Account, AuditEntry, SubBudget
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, plain

_FREEZE_FORGOTTEN = "SELECT freeze_forgotten(%(seq)s::integer, %(hash)s, %(seal)s, %(who)s, %(why)s)::text AS done"

_TERMS = ("composition", "cap", "slack", "neighbours", "unit", "tables", "blocks", "unit_stays")
_LATER_TERMS = ("bindings", "outputs", "requester_approves")


@dataclass(frozen=True, kw_only=True)
class CapRequest:
    """A new or higher cap of an account or of a sub-budget in it.

    Attributes:
        account: the account's name.
        sub_budget: the sub-budget's name; empty for the cap of the account itself.
        epsilon, delta, rho: the amounts of the cap; when a cap is raised, None keeps the present amount.
        actor: who is responsible for the change.
        reason: why it is made.
    """

    account: str
    sub_budget: str
    epsilon: Any
    delta: Any
    rho: Any
    actor: str
    reason: str


def open_account(connection: Connection, wanted: Account) -> Account:
    """Open an account, or return the one that is open with the same settings.

    Raises:
        InvalidRequest: the account is open with other settings, or its tables or folders overlap with others.
    """
    existing = rows.find_account(connection, wanted.name)
    if existing is not None:
        return _as_wanted(existing, wanted)
    require_thawed(rows.frozen(connection))
    require_separate_tables(connection, wanted.name, wanted.tables)
    require_separate_outputs(connection, wanted.name, wanted.outputs, wanted.tables)
    entry = audit.NewEntry(
        at=wanted.opened_at,
        actor=wanted.opened_by,
        action=audit.OPENED,
        account=wanted.name,
        details=mapping.account_details(wanted),
    )
    audit.append(connection, entry)
    connection.execute(insert(accounts), mapping.account_row(wanted))
    if wanted.tables:
        connection.execute(insert(account_tables), mapping.table_rows(wanted))
    spent = mapping.amounts(zero_cost(wanted.composition))
    connection.execute(insert(block_totals), {"account": wanted.name, "allotment": "", "block": ALL, **spent})
    return wanted


def raise_cap(connection: Connection, request: CapRequest) -> Account | SubBudget:
    """Raise a cap; a cap that already has these amounts is left as it is.

    Raises:
        InvalidRequest: there is no such account or sub-budget, or the cap would be lowered.
    """
    current, after = preview_raise(connection, request)
    if after == current:
        return current
    require_thawed(rows.frozen(connection))
    raised = {**mapping.amounts(after.cap), "slack": plain(after.slack)}
    entry = audit.NewEntry(
        actor=request.actor,
        action=audit.RAISED,
        account=request.account,
        reason=request.reason,
        details={**raised, "allotment": request.sub_budget},
    )
    audit.append(connection, entry)
    if isinstance(current, SubBudget):
        where = (allotments.c.account == current.account, allotments.c.name == current.name)
        connection.execute(update(allotments).where(*where).values(raised))
    else:
        connection.execute(update(accounts).where(accounts.c.name == current.name).values(raised))
    return after


def preview_raise(connection: Connection, request: CapRequest) -> tuple[Account | SubBudget, Account | SubBudget]:
    """The account or sub-budget before and after its cap is raised; nothing is changed.

    Raises:
        InvalidRequest: there is no such account or sub-budget, or the cap would be lowered.
    """
    account = rows.get_account(connection, request.account)
    current: Account | SubBudget = account
    if request.sub_budget:
        current = rows.get_sub_budget(connection, account.name, request.sub_budget)
    cap, slack = _raised_cap(account, current, request)
    if (cap, slack) != (current.cap, current.slack) and not is_raise(account.composition, current.cap, cap):
        raise InvalidRequest(
            "cap", _amounts_text(cap),
            f"must be at least {_amounts_text(current.cap)}, because a privacy loss cannot be undone",
            "to spend less, charge less",
        )  # fmt: skip
    return current, replace(current, cap=cap, slack=slack)


def allot(connection: Connection, request: CapRequest) -> SubBudget:
    """Create a sub-budget; one that exists with the same cap is returned.

    Raises:
        InvalidRequest: there is no such account, or the sub-budget exists with another cap.
    """
    account = rows.get_account(connection, request.account)
    # a zcdp sub-budget reports its epsilon at the account's delta; an approximate one has a delta of its own
    delta = account.cap.delta if account.composition == ZCDP and request.delta is None else request.delta or 0
    cap, slack = cap_of(account.composition, request.epsilon, delta, request.rho)
    sub_budget = SubBudget(account=account.name, name=request.sub_budget, cap=cap, slack=slack)
    existing = rows.find_sub_budget(connection, account.name, request.sub_budget)
    if existing is not None:
        if existing != sub_budget:
            raise InvalidRequest(
                "allotment", request.sub_budget, f"already exists, with a cap of {_amounts_text(existing.cap)}",
                "raise its cap: `dp-budget raise --allotment`",
            )  # fmt: skip
        return existing
    require_thawed(rows.frozen(connection))
    row = mapping.sub_budget_row(sub_budget)
    entry = audit.NewEntry(
        actor=request.actor,
        action=audit.ALLOTTED,
        account=account.name,
        reason=request.reason,
        details={name: value for name, value in row.items() if name != "account"},
    )
    audit.append(connection, entry)
    connection.execute(insert(allotments), row)
    return sub_budget


def freeze(connection: Connection, reason: str, *, actor: str) -> None:
    """Freeze the ledger: every later change except ``thaw`` is rejected."""
    if not rows.frozen(connection):
        _log(connection, audit.FROZEN, reason, actor=actor)


def seal(connection: Connection, entry: AuditEntry) -> str:
    """The server's seal of a log entry; empty for a SQLite file, whose readers could forge a seal."""
    if connection.dialect.name != "postgresql":
        return ""
    [row] = fetch(connection, "SELECT seal_entry(%(seq)s::integer, %(hash)s) AS seal", vars(entry))
    return str(row.seal or "")


def freeze_forgotten(connection: Connection, forgotten: tuple[int, str, str], reason: str, *, actor: str) -> None:
    """Freeze a ledger whose log has lost an entry, given by its number, its hash and the server's seal of it.

    Raises:
        InvalidRequest: the log still has that entry.
    """
    seq, digest, sealed = forgotten
    if connection.dialect.name == "postgresql":
        given = {"seq": seq, "hash": digest, "seal": sealed, "who": actor, "why": reason}
        fetch(connection, _FREEZE_FORGOTTEN, given)
        return
    entry = audit.read_entry(connection, seq)
    if entry is not None and entry.hash == digest:
        raise InvalidRequest("entry", seq, "must be missing from the log", "do not freeze a complete log")
    freeze(connection, reason, actor=actor)


def thaw(connection: Connection, reason: str, *, actor: str) -> None:
    """End a freeze.

    Raises:
        InvalidRequest: the ledger was moved, or is the copy of one that is being moved.
    """
    moved = audit.moved_to(connection)
    if moved.startswith(audit.copy_of("")):
        raise InvalidRequest(
            "ledger",
            None,
            f"must be live, but it is {rows.frozen(connection)}",
            "repeat `dp-budget move` from the ledger that is moved",
        )
    if moved:
        requirement, remedy = audit.moved_elsewhere(moved)
        raise InvalidRequest("ledger", None, requirement, remedy)
    if rows.frozen(connection):
        _log(connection, audit.THAWED, reason, actor=actor)


def _log(connection: Connection, action: str, reason: str, *, actor: str) -> None:
    entry = audit.NewEntry(actor=actor, action=action, account="", reason=reason, details={})
    audit.append(connection, entry)


def _as_wanted(existing: Account, wanted: Account) -> Account:
    # what is bound after the account was opened may differ
    terms = (*_TERMS, *(field for field in _LATER_TERMS if getattr(wanted, field)))
    for field in terms:
        if getattr(existing, field) != getattr(wanted, field):
            raise InvalidRequest(
                "account", existing.name, f"is already open with another {field}",
                "open an account with another name; `dp-budget show` prints the settings of this one",
            )  # fmt: skip
    return existing


def _raised_cap(account: Account, current: Account | SubBudget, request: CapRequest) -> tuple[Budget, Decimal]:
    """The cap and the slack after the raise."""
    cap = current.cap
    delta = cap.delta if request.delta is None else request.delta
    if account.composition == ZCDP:
        if request.rho is None and request.epsilon is None:
            return cap_of(ZCDP, None, delta, cap.rho)
        return cap_of(ZCDP, request.epsilon, delta, request.rho)
    epsilon = cap.epsilon if request.epsilon is None else request.epsilon
    slack = current.slack if account.composition == APPROXIMATE else None
    return cap_of(
        account.composition, epsilon, delta if account.composition != PURE else request.delta or 0, request.rho, slack
    )


def _amounts_text(cap: Budget) -> str:
    amounts = {"epsilon": cap.epsilon, "delta": cap.delta, "rho": cap.rho}
    return ", ".join(f"{name} {plain(amount)}" for name, amount in amounts.items() if amount)
