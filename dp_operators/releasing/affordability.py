"""Whether an account could pay for a release now, in figures that are its own and public; nothing is reserved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dp_operators.budget.errors import BudgetExceeded
from dp_operators.budget.values import ALL, ChargeState
from spark_jobs.contract.privacy import Budget, plain

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Whether an account can pay.

    Attributes:
        pays: it can, now.
        never: it never can, because the cost is above the cap.
        reason: why or why not, in one line.
    """

    pays: bool
    never: bool = False
    reason: str


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a sensor asks.

    Attributes:
        account, epsilon, delta, blocks, allotment: as for ``PrivacyLedger.reserve``.
        key: key of the release that would be paid for; one that has its charge is paid for. Empty for none.
    """

    account: str
    epsilon: Any
    delta: Any = 0
    blocks: Sequence[str] = (ALL,)
    allotment: str | None = None
    key: str = ""

    def ask(self, ledger: LedgerReader) -> Standing:
        """Ask the ledger once; it is only read.

        Raises:
            InvalidRequest: no such account, block or allotment, or a cost that it cannot count.
            LedgerUnavailable: the ledger cannot be asked.
        """
        cost = Budget(epsilon=self.epsilon, delta=self.delta).require_positive()
        if self.key and self._is_charged(ledger, cost):
            return Standing(pays=True, reason="it has its charge already")
        try:
            ledger.affordable(
                self.account,
                epsilon=cost.epsilon,
                delta=cost.delta,
                blocks=self.blocks,
                allotment=self.allotment,
            )
        except BudgetExceeded as exceeded:
            return judge(exceeded)
        return Standing(pays=True, reason=f"account {self.account} can pay epsilon {plain(cost.epsilon)}")

    def _is_charged(self, ledger: LedgerReader, cost: Budget) -> bool:
        charge = ledger.find_charge(self.account, self.key)
        return (
            charge is not None
            and (charge.cost.epsilon, charge.cost.delta) == (cost.epsilon, cost.delta)
            and charge.state in (ChargeState.RESERVED, ChargeState.COMMITTED)
        )


def judge(exceeded: BudgetExceeded) -> Standing:
    """What an exceeded budget means for somebody who could wait, and the line that says so."""
    account = f"account {exceeded.account}"
    if exceeded.allotment:
        account = f"allotment {exceeded.allotment} of {account}"
    asked, cap = f"{exceeded.currency} {plain(exceeded.asked)}", plain(exceeded.cap)
    if exceeded.never_fits:
        reason = f"{asked} is above the cap {cap} of {account} and can never be paid"
        return Standing(pays=False, never=True, reason=reason)
    where = account if exceeded.block == ALL else f"block {exceeded.block} of {account}"
    left = f"{exceeded.currency} {plain(exceeded.remaining)}"
    return Standing(pays=False, reason=f"{where} has {left} of {cap} left, and {plain(exceeded.asked)} is asked")
