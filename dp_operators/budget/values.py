"""What the ledger answers with: frozen values, free of any database."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit

ALL = "all"
"""The one block of an account without a block expression: every row of its tables."""


class ChargeState(StrEnum):
    """What became of a charge: ``reserved -> committed | burnt | void``.

    ``RESERVED`` counts as spent. ``COMMITTED`` paid for a published release, ``BURNT`` for a draw that is never
    published. ``VOID`` was given back: no draw of it can ever exist.
    """

    RESERVED = "reserved"
    COMMITTED = "committed"
    BURNT = "burnt"
    VOID = "void"


@dataclass(frozen=True, kw_only=True)
class Account:
    """A dataset and what may be learnt from it.

    Attributes:
        name: the account's name.
        cap: what the charges of any one block may add up to.
        composition: how charges add up; ``pure``: exact sums of epsilon.
        neighbours: the relation that its guarantee, and so every charge's, is about.
        unit: whom the guarantee protects.
        tables: identities of the tables bound to it, sorted.
        opened_at: UTC, ISO 8601.
        opened_by: who opened it.
    """

    name: str
    cap: Budget
    composition: str
    neighbours: Neighbours
    unit: PrivacyUnit
    tables: tuple[str, ...]
    opened_at: str
    opened_by: str


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What one release costs an account.

    Attributes:
        id: names the charge, and the place of its one draw.
        account: the account that pays.
        release: the release key.
        generation: 1, and one more for each charge of this key that was given back before.
        entry: number of the audit log's entry that reserved it; charges are listed in this order.
        state: what became of it.
        cost: exact.
        blocks: the blocks that pay, sorted.
        events: the mechanisms' events, as they were reported.
        neighbours, unit: the account's.
        request_sha256: hash of the request it pays for.
        manifest_sha256: hash of the one manifest it may publish; None until it is committed with one.
        actor: who reserved it.
        reserved_at, renewed_at, settled_at: UTC, ISO 8601; None where it has not happened.
    """

    id: str
    account: str
    release: str
    generation: int
    entry: int
    state: ChargeState
    cost: Budget
    blocks: tuple[str, ...]
    events: tuple[Any, ...]
    neighbours: Neighbours
    unit: PrivacyUnit
    request_sha256: str
    manifest_sha256: str | None
    actor: str
    reserved_at: str
    renewed_at: str
    settled_at: str | None


@dataclass(frozen=True, kw_only=True)
class Head:
    """The end of the audit log: how many entries it has, and the hash of the last."""

    seq: int
    hash: str


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One change of the ledger.

    Attributes:
        seq: 1, 2, 3, ...
        at: when, UTC, ISO 8601.
        actor: who.
        action: what: ``opened``, ``reserved``, ``committed``, ``burnt`` or ``void``.
        account: the account it happened to.
        charge: the charge it happened to; empty for an account's own changes.
        reason: why, where a reason was given.
        details: canonical JSON of everything else that changed.
        previous: hash of the entry before, 64 zeros for the first.
        hash: SHA-256 of all of the above; see ``dp_operators.budget.audit.entry_hash``.
    """

    seq: int
    at: str
    actor: str
    action: str
    account: str
    charge: str
    reason: str
    details: str
    previous: str
    hash: str


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What a ledger looks like beside its audit log.

    Attributes:
        head: where the log ended.
        findings: every difference, in words; none in a sound ledger.
    """

    head: Head
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not self.findings


def exact_budget(epsilon: Decimal, delta: Decimal = Decimal(0), rho: Decimal | None = None) -> Budget:
    """A budget of sums, which may have more digits than a single cost may be given with."""
    return Budget.model_construct(epsilon=epsilon, delta=delta, rho=rho)
