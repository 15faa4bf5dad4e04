"""What the ledger answers with: frozen values, free of any database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

from spark_jobs.contract.account import Composition
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import ALL, BlockExpression
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit

__all__ = [
    "ALL",
    "Account",
    "AuditEntry",
    "Charge",
    "ChargeState",
    "Head",
    "KeyList",
    "Run",
    "SubBudget",
    "Verification",
    "exact_budget",
]


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
        cap: what the charges of any one block may add up to; of an account that composes as ``zcdp``, its rho, and
            the epsilon that is at delta; of an ``approximate`` one, rho is what the squares may add up to.
        composition: how charges add up; see ``dp_operators.budget.composition``.
        slack: the part of the cap's delta that charges may not use, because it pays for adding up squares.
        neighbours: the relation that its guarantee, and so every charge's, is about.
        unit: whom the guarantee protects.
        tables: identities of the tables bound to it, sorted.
        bindings: what each of them is, by identity, in plain JSON types; those that nobody has described are left out.
        outputs: canonical URIs of the folders that its releases may go to, sorted.
        blocks: how the tables' rows fall into blocks; None if ``all`` is the only one.
        unit_stays: whether each privacy unit lies in one block for ever, so that blocks are paid for one by one;
            otherwise each charge is added to ``all``, whatever blocks it reads.
        public_sizes: what was declared before tables had public columns; it allows nothing any more.
        opened_at: UTC, ISO 8601.
        opened_by: who opened it.
    """

    name: str
    cap: Budget
    composition: Composition
    slack: Decimal = Decimal(0)
    neighbours: Neighbours
    unit: PrivacyUnit
    tables: tuple[str, ...]
    blocks: BlockExpression | None = None
    unit_stays: bool = True
    public_sizes: bool = False
    bindings: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    opened_at: str
    opened_by: str

    def require_blocks(self, blocks: tuple[str, ...]) -> None:
        """Refuse names that are no blocks of this account.

        Raises:
            InvalidRequest: one is none.
        """
        if blocks == (ALL,) and (self.blocks is None or not self.unit_stays):
            return
        if self.blocks is None:
            first = next(name for name in blocks if name != ALL)
            raise InvalidRequest(
                "blocks", value=first, requirement=f"must be a block of account {self.name}", remedy=f"name {ALL!r}"
            )
        if ALL in blocks:
            raise InvalidRequest(
                "blocks",
                value=ALL,
                requirement=f"is no block of account {self.name}, which pays for each block of {self.blocks}",
                remedy="name the blocks that are read",
            )
        self.blocks.require(blocks)

    def written(self, blocks: tuple[str, ...]) -> tuple[str, ...]:
        """``blocks``, those by time that follow each other as one range."""
        return blocks if self.blocks is None else self.blocks.compact(blocks)

    def paying(self, blocks: tuple[str, ...]) -> tuple[str, ...]:
        """The blocks that pay for reading ``blocks``."""
        return blocks if self.unit_stays else (ALL,)


@dataclass(frozen=True, kw_only=True)
class SubBudget:
    """A part of an account, for a team or a DAG: a charge to it must fit its cap in each block, and the account's.

    Attributes:
        account: the account.
        name: the allotment's name in it.
        cap: what its charges may add up to in any one block.
        slack: as the account's.
    """

    account: str
    name: str
    cap: Budget
    slack: Decimal = Decimal(0)


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
        blocks: the blocks that are read, sorted.
        allotment: the allotment that pays with the account; empty for none.
        events: the mechanisms' events, as they were planned when the charge was reserved.
        drawn_events: what they spent, as it was told at the commit; None where nobody has told.
        neighbours, unit: the account's.
        request_sha256: hash of the request it pays for.
        manifest_sha256: hash of the one manifest it may publish; None until it is committed with one.
        actor: who reserved it.
        runs: how many times an application was started for it.
        open_runs: the numbers of those that have not stated that they read no row.
        draw_sha256: hash of its one draw, once the ledger knows it; empty for a restored charge, whose draw it forgot.
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
    allotment: str = ""
    events: tuple[Any, ...]
    neighbours: Neighbours
    unit: PrivacyUnit
    request_sha256: str
    manifest_sha256: str | None
    actor: str
    reserved_at: str
    renewed_at: str
    settled_at: str | None
    drawn_events: tuple[Any, ...] | None = None
    runs: int = 0
    open_runs: tuple[int, ...] = ()
    draw_sha256: str | None = None

    @property
    def may_have_drawn(self) -> bool:
        """Whether rows may have been read for it, so that it can no longer be given back."""
        return bool(self.open_runs) or self.draw_sha256 is not None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One start of an application for a charge.

    Attributes:
        number: 1 for the charge's first.
        key: the charge's secret of 32 bytes, the same for all its runs: what an application leaves is sealed with it.
    """

    number: int
    key: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class KeyList:
    """A list of keys that an administrator registered for an account's requests.

    Attributes:
        account: the account.
        name: the list's name in it.
        sha256: hash of the keys' canonical JSON.
        keys: the keys, each once, in the order they were given.
        registered_at: UTC, ISO 8601.
        registered_by: who registered them.
    """

    account: str
    name: str
    sha256: str
    keys: tuple[Any, ...]
    registered_at: str
    registered_by: str


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
        action: what: ``opened``, ``raised``, ``allotted``, ``table bound``, ``outputs bound``, ``keys registered``,
            ``reserved``, ``run started``, ``run ended``, ``draw recorded``, ``committed``, ``burnt``, ``void``,
            ``frozen`` or ``thawed``.
        account: the account it happened to; empty for what happened to the whole ledger.
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
