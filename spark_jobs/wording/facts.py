"""The public facts that a publication states beside the released values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from spark_jobs.contract.account import AccountState
from spark_jobs.contract.grids import ROUNDING
from spark_jobs.contract.left_out import LeftOut
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.release import PublishedSizes, ReleasePart
from spark_jobs.contract.request import ReleaseRequest


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts:
    """The public facts of one release, the same for every attempt at it.

    Attributes:
        request: the request.
        key: the release key; None for a draft outside the ledger.
        charge_id: the ledger's charge; None for a draft outside the ledger.
        cost: cost of the mechanisms; at most the request's budget.
        rules: public rules that were applied to each row, one sentence each.
        assumptions: assumptions behind the guarantee or its interpretation, one sentence each.
        drawn_at: when the noise was drawn (UTC, ISO 8601), as stored with the draw.
        versions: versions of the programs that made the release.
        rounding: the rule by which the draw compared values and thresholds on public grids.
        parts: what each part of the cost bought; empty if the parts are not known.
        class_sizes: the noisy sizes of both classes that the results state; None if none of them does.
        account: the account's figures when the cost was reserved; None for a draft.
        left_out: noisy numbers of rows that did not count, by cause; None for an older draw.
    """

    request: ReleaseRequest
    key: str | None
    charge_id: str | None
    cost: Budget
    rules: tuple[str, ...]
    assumptions: tuple[str, ...]
    drawn_at: str
    versions: Mapping[str, str]
    rounding: str = ROUNDING
    parts: tuple[ReleasePart, ...] = ()
    class_sizes: PublishedSizes | None = None
    account: AccountState | None = None
    left_out: LeftOut | None = None

    def __post_init__(self) -> None:
        if (self.key is None) != (self.charge_id is None):
            raise ValueError("key and charge_id go together: a release has both, a draft has neither")
        budget = self.request.budget
        if not self.cost.is_within(budget):
            raise ValueError("cost must not exceed the request's budget")

    @property
    def status(self) -> Literal["CHARGED", "UNCHARGED"]:
        """``CHARGED`` if a charge in a ledger pays for the release, else ``UNCHARGED``."""
        return "UNCHARGED" if self.charge_id is None else "CHARGED"
