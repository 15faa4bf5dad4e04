"""The values that the ledger returns: frozen and independent of any database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.account import Composition
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import ALL, BlockExpression
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit, replaced_within

if TYPE_CHECKING:
    from spark_jobs.contract.options.lookups import Lookup

__all__ = [
    "ALL",
    "Account",
    "AuditEntry",
    "Charge",
    "ChargeState",
    "Head",
    "KeyList",
    "RecordedSteps",
    "RegisteredLookup",
    "Run",
    "StreamHead",
    "SubBudget",
    "Verification",
    "exact_budget",
]


class ChargeState(StrEnum):
    """The state of a charge: ``reserved -> committed | burnt | void``.

    ``RESERVED`` counts as spent. ``COMMITTED`` paid for a published release, ``BURNT`` for a draw that is never
    published. ``VOID`` was given back: it can never have a draw.
    """

    RESERVED = "reserved"
    COMMITTED = "committed"
    BURNT = "burnt"
    VOID = "void"


@dataclass(frozen=True, kw_only=True)
class Account:
    """The privacy budget of a dataset.

    Attributes:
        name: the account's name.
        cap: the limit on the charges of any one block. A ``zcdp`` account is limited by rho; the epsilon is what this
            rho implies at delta. In an ``approximate`` account, rho is the limit on the sum of epsilon^2/2.
        composition: how charges add up; see ``dp_operators.budget.composition``.
        slack: the part of the cap's delta that charges cannot use, because it pays for the sum of squares.
        neighbours: the neighbour relation of the guarantee, and so of every charge.
        unit: the privacy unit that the guarantee protects.
        tables: the identities of its bound tables, sorted.
        bindings: the bindings of these tables by identity, in plain JSON types, without tables that are not described
            yet.
        outputs: the canonical URIs of the folders that its releases may be written to, sorted.
        blocks: the expression that assigns the tables' rows to blocks; None if ``all`` is the only block.
        unit_stays: whether each privacy unit stays in one block, so that each block pays for itself; otherwise every
            charge is added to ``all``, whatever blocks it reads.
        public_sizes: a declaration from before tables had public columns; it has no effect any more.
        requester_approves: whether a person may approve the higher cap that they asked for themselves.
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
    requester_approves: bool = False
    opened_at: str
    opened_by: str

    @property
    def replaced_within(self) -> str:
        """What the replacement of a unit leaves unchanged, in words; empty if nothing (``privacy.replaced_within``)."""
        return replaced_within(self.neighbours, self.blocks)

    def require_blocks(self, blocks: tuple[str, ...]) -> None:
        """Reject names that are not blocks of this account.

        Raises:
            InvalidRequest: a name is not a block.
        """
        if blocks == (ALL,) and (self.blocks is None or not self.unit_stays):
            return
        if self.blocks is None:
            first = next(name for name in blocks if name != ALL)
            raise InvalidRequest("blocks", first, f"must be a block of account {self.name}", f"name {ALL!r}")
        if ALL in blocks:
            raise InvalidRequest(
                "blocks", ALL, f"is not a block of account {self.name}, which pays for each block of {self.blocks}",
                "name the blocks that are read",
            )  # fmt: skip
        self.blocks.require(blocks)

    def compacted(self, blocks: tuple[str, ...]) -> tuple[str, ...]:
        """``blocks`` with consecutive blocks by time written as one range."""
        return blocks if self.blocks is None else self.blocks.compact(blocks)

    def paying(self, blocks: tuple[str, ...]) -> tuple[str, ...]:
        """The blocks that pay for reading ``blocks``."""
        return blocks if self.unit_stays else (ALL,)


@dataclass(frozen=True, kw_only=True)
class SubBudget:
    """A cap within an account for a team or a DAG: a charge to it must fit in both, the sub-budget and the account.

    The parameter ``allotment`` and the option ``--allotment`` name it.

    Attributes:
        account: the account's name.
        name: the sub-budget's name in the account.
        cap: the limit on its charges in any one block.
        slack: as for the account.
    """

    account: str
    name: str
    cap: Budget
    slack: Decimal = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class Charge:
    """The cost of one release to an account.

    Attributes:
        id: identifies the charge and the location of its draw.
        account: the account that pays.
        release: the release key.
        generation: 1 plus the number of earlier charges of this key, all of which are void.
        entry: number of the log entry of its reservation; charges are listed in this order.
        state: the state that the charge is in.
        cost: the exact cost.
        blocks: the blocks that are read, sorted.
        allotment: the name of the sub-budget that pays with the account; empty for none.
        events: the planned mechanism events, from its reservation.
        drawn_events: the mechanism events of its draw, from its end; None if they are unknown.
        figures: the headline figures of its release, from its commit, as ``HeadlineFigure.to_dict`` has them; None if
            they are unknown.
        neighbours, unit: the account's.
        request_sha256: hash of the request that it pays for.
        manifest_sha256: hash of the one manifest that may be published for it; None before its commit.
        actor: who reserved it.
        runs: the number of applications that were started for it.
        open_runs: the numbers of those runs that have not stated that they read no row.
        draw_sha256: hash of its draw, once recorded; empty for a restored charge, whose draw the ledger has lost.
        reserved_at, renewed_at, settled_at: when it was reserved, last renewed and ended; UTC, ISO 8601, or None.
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
    figures: tuple[Any, ...] | None = None
    runs: int = 0
    open_runs: tuple[int, ...] = ()
    draw_sha256: str | None = None

    @property
    def counts(self) -> bool:
        """Whether its cost counts as spent: in every state except void."""
        return self.state is not ChargeState.VOID

    @property
    def may_have_drawn(self) -> bool:
        """Whether rows may have been read for it, so that it cannot be given back."""
        return bool(self.open_runs) or self.draw_sha256 is not None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One start of an application for a charge.

    Attributes:
        number: 1 for the charge's first run.
        key: the charge's secret of 32 bytes, the same for all its runs, which seals what an application writes.
    """

    number: int
    key: bytes = field(repr=False)


STREAM_END = "f" * 64
"""What is recorded in place of an object's hash to end a stream: no object has this hash, so nothing follows it."""


@dataclass(frozen=True, kw_only=True)
class RecordedSteps:
    """The object with some consecutive steps of a stream, or the stream's end (``STREAM_END``) in place of a step.

    Attributes:
        charge: the id of the charge that pays for the stream.
        first: the number of its first step, counted from 0.
        steps: how many steps the object has.
        object_sha256: hash of the encrypted object.
        previous_sha256: hash of the object before; 64 zeros for the first.
    """

    charge: str
    first: int
    steps: int
    object_sha256: str
    previous_sha256: str


@dataclass(frozen=True, kw_only=True)
class StreamHead:
    """The end of a stream's chain.

    Attributes:
        steps: the number of recorded steps, which is the number of the next one.
        sha256: hash of the last object; 64 zeros before the first.
        first: the number of the first step of the last object; 0 before the first.
    """

    steps: int = 0
    sha256: str = "0" * 64
    first: int = 0

    @classmethod
    def after(cls, last: RecordedSteps) -> StreamHead:
        """The head of the chain once ``last`` is its last object."""
        return cls(steps=last.first + last.steps, sha256=last.object_sha256, first=last.first)

    @property
    def ended(self) -> bool:
        """Whether the stream was ended."""
        return self.sha256 == STREAM_END

    @property
    def released(self) -> int:
        """The number of released steps.

        The record of the stream's end takes the place of a step, and is not counted.
        """
        return self.first if self.ended else self.steps


@dataclass(frozen=True, kw_only=True)
class KeyList:
    """A public list of keys that an administrator registered for an account's requests.

    Attributes:
        account: the account's name.
        name: the list's name in the account.
        sha256: hash of the keys' canonical JSON.
        keys: the distinct keys, in the order they were given.
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
class RegisteredLookup:
    """A public lookup that an administrator registered for an account's requests.

    Attributes:
        account: the account's name.
        lookup: its name in the account, its content and the hash of the content.
        registered_at: UTC, ISO 8601.
        registered_by: who registered it.
    """

    account: str
    lookup: Lookup
    registered_at: str
    registered_by: str


@dataclass(frozen=True, kw_only=True)
class Head:
    """The end of the audit log: the number and the hash of its last entry."""

    seq: int
    hash: str


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One change of the ledger.

    Attributes:
        seq: 1, 2, 3, ...
        at: the time of the change; UTC, ISO 8601.
        actor: who made it.
        action: ``opened``, ``raised``, ``allotted``, ``table bound``, ``domains changed``, ``outputs bound``,
            ``keys registered``, ``approvals set``, ``reserved``, ``run started``, ``run ended``, ``draw recorded``,
            ``steps recorded``, ``committed``, ``burnt``, ``void``, ``frozen``, ``thawed``, ``moved`` or ``arrived``.
        account: the account that was changed; empty for a change of the whole ledger.
        charge: the charge that was changed; empty for a change of the account itself.
        reason: why, if a reason was given.
        details: canonical JSON of everything else that changed.
        previous: hash of the entry before; 64 zeros for the first entry.
        hash: SHA-256 of all fields above; see ``dp_operators.budget.tables.audit.entry_hash``.
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
    """The comparison of a ledger with its audit log.

    Attributes:
        head: the end of the log.
        findings: a description of every difference; empty for a sound ledger.
    """

    head: Head
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no difference."""
        return not self.findings


def exact_budget(epsilon: Decimal, delta: Decimal = Decimal(0), rho: Decimal | None = None) -> Budget:
    """A budget of exact sums, which may have more digits than the cost of a single charge."""
    return Budget.model_construct(epsilon=epsilon, delta=delta, rho=rho)
