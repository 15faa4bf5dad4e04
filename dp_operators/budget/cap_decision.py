"""What a person who decides about a higher cap needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from dp_operators.budget.composition import APPROXIMATE, ZCDP, fraction_spent, limits_of, room, zero_cost
from dp_operators.budget.plain_words import certainty, observer
from dp_operators.budget.values import ALL, Account, SubBudget
from spark_jobs.contract.privacy import Budget, plain


@dataclass(frozen=True, kw_only=True)
class CapDecision:
    """A cap that somebody asks to raise.

    Attributes:
        account: the account.
        before, after: the account, or its sub-budget, with its present cap and with the requested one.
        block: the block with the least left.
        spent: what is spent in that block.
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

    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """Rows that compare the present cap with the new one: the amount, what is spent and left, the guarantee."""
        where = "" if self.block == ALL else f" in block {self.block}, which has the least left"
        spent = self._amount(self.spent)
        return (
            ("cap", self._amount(self.before.cap), self._amount(self.after.cap)),
            (f"spent{where}", spent, spent),
            ("left", self._amount(self._left(self.before)), self._amount(self._left(self.after))),
            ("how sure an observer can become", certainty(self.before.cap), certainty(self.after.cap)),
        )

    def observer(self) -> str:
        """The observer whom the guarantee in the last row is about, in one sentence."""
        knows = observer(self.account)
        return f"An observer {knows}, and sees all that a block's cap pays for."

    def _left(self, holder: Account | SubBudget) -> Budget:
        kind = APPROXIMATE if self.account.composition == APPROXIMATE else "pure"
        return room(limits_of(self.account.composition, holder.cap, holder.slack), self.spent, kind)

    def _amount(self, budget: Budget) -> str:
        if self.account.composition == ZCDP:
            return f"rho {plain(budget.rho or zero_cost(ZCDP).epsilon)}"
        shown = f"epsilon {plain(budget.epsilon)}"
        return shown if not budget.delta else f"{shown}, delta {plain(budget.delta)}"
