"""Whether an account could pay for a release now; nothing is reserved, and the reason shows public figures only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from dp_operators.budget.errors import BudgetExceeded
from dp_operators.budget.values import ALL, ChargeState
from spark_jobs.contract.privacy import Budget, exact_sum, plain
from spark_jobs.contract.rho_budget import with_epsilon
from spark_jobs.contract.row_choice import choice_key

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader


@dataclass(frozen=True, kw_only=True)
class Affordability:
    """Whether an account can pay for a release.

    Attributes:
        pays: whether it can pay now.
        never: whether it can never pay, because the cost is above the cap.
        reason: why or why not, in one line.
    """

    pays: bool
    never: bool = False
    reason: str

    @classmethod
    def of_exceeded(cls, exceeded: BudgetExceeded) -> Self:
        """The answer for an exceeded budget: the release can pay later, or never."""
        account = f"account {exceeded.account}"
        if exceeded.allotment:
            account = f"sub-budget {exceeded.allotment} of {account}"
        cost, cap = f"{exceeded.currency} {plain(exceeded.requested)}", plain(exceeded.cap)
        if exceeded.never_fits:
            reason = f"{cost} is above the cap {cap} of {account} and can never be paid"
            return cls(pays=False, never=True, reason=reason)
        where = account if exceeded.block == ALL else f"block {exceeded.block} of {account}"
        left = f"{exceeded.currency} {plain(exceeded.remaining)}"
        return cls(pays=False, reason=f"{where} has {left} of {cap} left, and {plain(exceeded.requested)} is needed")


@dataclass(frozen=True, kw_only=True)
class AffordabilityCheck:
    """The cost of a release, to be compared with what its account has left.

    Attributes:
        account, epsilon, delta, rho, blocks, allotment: as for ``PrivacyLedger.reserve``.
        key: the release's key; a release that is charged already is affordable. Empty to ignore existing charges.
    """

    account: str
    epsilon: Any = None
    delta: Any = 0
    rho: Any = None
    blocks: Sequence[str] = (ALL,)
    allotment: str | None = None
    key: str = ""

    @property
    def cost(self) -> Budget:
        """What would be charged.

        Raises:
            InvalidRequest: it is no cost.
        """
        if self.rho is None:
            return Budget(epsilon=self.epsilon, delta=self.delta).require_positive()
        # a stored check has an epsilon of 0
        given = None if self.epsilon in (None, "0") else self.epsilon
        return Budget(**with_epsilon({"epsilon": given, "delta": self.delta, "rho": self.rho})).charged

    def run(self, ledger: LedgerReader) -> Affordability:
        """Compare once; the ledger is only read.

        Raises:
            InvalidRequest: there is no such account, block or sub-budget, or the account cannot count this cost.
            LedgerUnavailable: the ledger cannot be reached.
        """
        cost = self.cost
        if self.key and self._is_charged(ledger, cost):
            return Affordability(pays=True, reason="it has its charge already")
        try:
            ledger.affordable(
                self.account,
                epsilon=cost.epsilon,
                delta=cost.delta,
                rho=cost.rho,
                blocks=self.blocks,
                allotment=self.allotment,
            )
        except BudgetExceeded as exceeded:
            return Affordability.of_exceeded(exceeded)
        return Affordability(pays=True, reason=f"account {self.account} can pay {cost.amount}")

    def _is_charged(self, ledger: LedgerReader, cost: Budget) -> bool:
        charge = ledger.find_charge(self.account, self.key)
        if charge is None:
            return False
        # a table whose bound on rows was chosen first has two charges
        choice = ledger.find_charge(self.account, choice_key(self.key))
        parts = [one for one in (charge, choice) if one is not None]
        paid = Budget(
            epsilon=exact_sum(*(one.cost.epsilon for one in parts)),
            delta=exact_sum(*(one.cost.delta for one in parts)),
        )
        in_rho = charge.cost.rho if cost.currency == "rho" else None
        return (paid.epsilon, paid.delta, in_rho) == (cost.epsilon, cost.delta, cost.rho) and all(
            one.state in (ChargeState.RESERVED, ChargeState.COMMITTED) for one in parts
        )
