"""What a person needs to know who decides about a higher cap."""

from __future__ import annotations

from dataclasses import dataclass

from dp_operators.budget.composition import APPROXIMATE, ZCDP, fraction_spent, limits_of, room, zero_cost
from dp_operators.budget.plain_words import meaning
from dp_operators.budget.values import ALL, Account, SubBudget
from spark_jobs.contract.privacy import Budget, plain


@dataclass(frozen=True, kw_only=True)
class CapDecision:
    """A cap that may be raised.

    Attributes:
        account: the account.
        before, after: the account, or its sub-budget, with the cap that it has and with the one that is asked for.
        block: the block with the least left.
        spent: what is spent there.
    """

    account: Account
    before: Account | SubBudget
    after: Account | SubBudget
    block: str
    spent: Budget

    @classmethod
    def of(
        cls, account: Account, before: Account | SubBudget, after: Account | SubBudget, spent: dict[str, Budget]
    ) -> CapDecision:
        """The decision, given what each charged block has spent."""
        totals = spent or {ALL: zero_cost(account.composition)}
        limits = limits_of(account.composition, before.cap, before.slack)
        block = max(totals, key=lambda name: (fraction_spent(limits, totals[name]), name))
        return cls(account=account, before=before, after=after, block=block, spent=totals[block])

    def facts(self) -> dict[str, str]:
        """The caps, what is spent and left, and what both caps promise, in words."""
        where = "" if self.block == ALL else f" in block {self.block}, which has the least left"
        return {
            "cap now": self._amount(self.before.cap),
            "cap asked for": self._amount(self.after.cap),
            f"spent{where}": self._amount(self.spent),
            "left now": self._amount(self._left(self.before)),
            "left after": self._amount(self._left(self.after)),
            "what the cap promises now": self._meaning(self.before.cap),
            "what it would promise": self._meaning(self.after.cap),
        }

    def _left(self, holder: Account | SubBudget) -> Budget:
        kind = APPROXIMATE if self.account.composition == APPROXIMATE else "pure"
        return room(limits_of(self.account.composition, holder.cap, holder.slack), self.spent, kind)

    def _meaning(self, cap: Budget) -> str:
        return meaning(cap, self.account.neighbours, self.account.unit)

    def _amount(self, budget: Budget) -> str:
        if self.account.composition == ZCDP:
            return f"rho {plain(budget.rho or zero_cost(ZCDP).epsilon)}"
        shown = f"epsilon {plain(budget.epsilon)}"
        return shown if not budget.delta else f"{shown}, delta {plain(budget.delta)}"
