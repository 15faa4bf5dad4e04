"""What an administrator changes: caps, allotments, and whether the ledger may be written at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, insert, update

from dp_operators.budget import audit, mapping, rows
from dp_operators.budget.composition import APPROXIMATE, PURE, ZCDP, cap_of, is_raise
from dp_operators.budget.queries import fetch
from dp_operators.budget.schema import accounts, allotments
from dp_operators.budget.transactions import require_thawed
from dp_operators.budget.values import Account, Allotment, AuditEntry
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, plain

_FREEZE_FORGOTTEN = "SELECT freeze_forgotten(%(seq)s::integer, %(hash)s, %(seal)s, %(who)s, %(why)s)::text AS done"


@dataclass(frozen=True, kw_only=True)
class Raise:
    """A higher cap for an account, or for an allotment in it; amounts that are None stay."""

    account: str
    allotment: str
    epsilon: Any
    delta: Any
    rho: Any
    actor: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Allot:
    """A new allotment."""

    account: str
    name: str
    epsilon: Any
    delta: Any
    rho: Any
    actor: str
    reason: str


def raise_cap(connection: Connection, wanted: Raise) -> Account | Allotment:
    """Raise a cap, or find it that high.

    Raises:
        InvalidRequest: no such account or allotment, or the cap would be lower.
    """
    account = _account(connection, wanted.account)
    held: Account | Allotment = account if not wanted.allotment else _allotment(connection, account, wanted.allotment)
    cap, slack = _cap(account, held, wanted)
    if (cap, slack) == (held.cap, held.slack):
        return held
    if not is_raise(account.composition, held.cap, cap):
        raise InvalidRequest(
            "cap",
            value=_shown(cap),
            requirement=f"must be at least {_shown(held.cap)}: what may have been told cannot be taken back",
            remedy="to spend less, charge less",
        )
    require_thawed(rows.frozen(connection))
    raised = {**mapping.amounts(cap), "slack": plain(slack)}
    entry = audit.Draft(
        at=audit.now(),
        actor=wanted.actor,
        action=audit.RAISED,
        account=account.name,
        reason=wanted.reason,
        details={**raised, "allotment": wanted.allotment},
    )
    audit.append(connection, entry)
    if isinstance(held, Allotment):
        where = (allotments.c.account == account.name, allotments.c.name == held.name)
        connection.execute(update(allotments).where(*where).values(raised))
    else:
        connection.execute(update(accounts).where(accounts.c.name == account.name).values(raised))
    return replace(held, cap=cap, slack=slack)


def allot(connection: Connection, wanted: Allot) -> Allotment:
    """Make an allotment, or find it made.

    Raises:
        InvalidRequest: no such account, or the allotment has another cap.
    """
    account = _account(connection, wanted.account)
    # the account's delta is where epsilon is told; an approximate allotment has its own
    delta = account.cap.delta if account.composition == ZCDP and wanted.delta is None else wanted.delta or 0
    cap, slack = cap_of(account.composition, wanted.epsilon, delta, wanted.rho)
    made = Allotment(account=account.name, name=wanted.name, cap=cap, slack=slack)
    found = next((each for each in rows.allotments_of(connection, account.name) if each.name == wanted.name), None)
    if found is not None:
        if found != made:
            raise InvalidRequest(
                "allotment",
                value=wanted.name,
                requirement=f"is there already, with a cap of {_shown(found.cap)}",
                remedy="raise its cap: `dp-budget raise --allotment`",
            )
        return found
    require_thawed(rows.frozen(connection))
    row = mapping.allotment_row(made)
    entry = audit.Draft(
        at=audit.now(),
        actor=wanted.actor,
        action=audit.ALLOTTED,
        account=account.name,
        reason=wanted.reason,
        details={name: value for name, value in row.items() if name != "account"},
    )
    audit.append(connection, entry)
    connection.execute(insert(allotments), row)
    return made


def freeze(connection: Connection, reason: str, *, actor: str) -> None:
    """Let nothing but ``thaw`` be written from here on."""
    if not rows.frozen(connection):
        _log(connection, audit.FROZEN, reason, actor=actor)


def seal(connection: Connection, entry: AuditEntry) -> str:
    """The server's seal of an entry that its log holds; empty for a file, whose readers could write it as well."""
    if connection.dialect.name != "postgresql":
        return ""
    [row] = fetch(connection, "SELECT seal_entry(%(seq)s::integer, %(hash)s) AS seal", vars(entry))
    return str(row.seal or "")


def freeze_forgotten(connection: Connection, forgotten: tuple[int, str, str], reason: str, *, actor: str) -> None:
    """Freeze a ledger that does not hold an entry it once had: its number, its hash and the server's seal of it.

    Raises:
        InvalidRequest: it holds that entry.
    """
    seq, digest, sealed = forgotten
    if connection.dialect.name == "postgresql":
        given = {"seq": seq, "hash": digest, "seal": sealed, "who": actor, "why": reason}
        fetch(connection, _FREEZE_FORGOTTEN, given)
        return
    entry = audit.read_entry(connection, seq)
    if entry is not None and entry.hash == digest:
        raise InvalidRequest(
            "entry", value=seq, requirement="must be one that the log no longer holds", remedy="nothing was forgotten"
        )
    freeze(connection, reason, actor=actor)


def thaw(connection: Connection, reason: str, *, actor: str) -> None:
    """Let everything be written again."""
    if rows.frozen(connection):
        _log(connection, audit.THAWED, reason, actor=actor)


def _log(connection: Connection, action: str, reason: str, *, actor: str) -> None:
    entry = audit.Draft(at=audit.now(), actor=actor, action=action, account="", reason=reason, details={})
    audit.append(connection, entry)


def _account(connection: Connection, name: str) -> Account:
    found = rows.find_account(connection, name)
    if found is None:
        raise rows.no_account(name)
    return found


def _allotment(connection: Connection, account: Account, name: str) -> Allotment:
    found = next((each for each in rows.allotments_of(connection, account.name) if each.name == name), None)
    if found is None:
        raise rows.no_allotment(account.name, name)
    return found


def _cap(account: Account, held: Account | Allotment, wanted: Raise) -> tuple[Budget, Decimal]:
    """The cap that ``held`` is to have."""
    cap = held.cap
    delta = cap.delta if wanted.delta is None else wanted.delta
    if account.composition == ZCDP:
        if wanted.rho is None and wanted.epsilon is None:
            return cap_of(ZCDP, None, delta, cap.rho)
        return cap_of(ZCDP, wanted.epsilon, delta, wanted.rho)
    epsilon = cap.epsilon if wanted.epsilon is None else wanted.epsilon
    slack = held.slack if account.composition == APPROXIMATE else None
    return cap_of(
        account.composition, epsilon, delta if account.composition != PURE else wanted.delta or 0, wanted.rho, slack
    )


def _shown(cap: Budget) -> str:
    told = {"epsilon": cap.epsilon, "delta": cap.delta, "rho": cap.rho}
    return ", ".join(f"{name} {plain(amount)}" for name, amount in told.items() if amount)
