"""How the ledger says no, and how it says that it cannot be asked."""

from __future__ import annotations

from decimal import Decimal

from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import plain


class BudgetExceeded(RequestRefused):
    """A charge that some block of the account cannot bear. Trying again does not help.

    Attributes:
        account, block: where the budget ends.
        asked: the epsilon that was asked for.
        remaining: the epsilon that is left there.
        cap: the account's own cap; a charge above it can never fit.
    """

    def __init__(self, *, account: str, block: str, asked: Decimal, remaining: Decimal, cap: Decimal) -> None:
        self.account = account
        self.block = block
        self.asked = asked
        self.remaining = remaining
        self.cap = cap
        where = f"account {account}" if block == "all" else f"block {block} of account {account}"
        super().__init__(
            "epsilon",
            given=plain(asked),
            bound=f"{where} has {plain(remaining)} of {plain(cap)} left",
            remedy="ask for less, or for a higher cap" if asked <= cap else "ask for no more than the cap",
        )

    @property
    def never_fits(self) -> bool:
        """Whether the charge is above the cap itself, so that waiting is vain."""
        return self.asked > self.cap

    def __reduce__(self) -> tuple[object, ...]:
        names = ("account", "block", "asked", "remaining", "cap")
        return (_budget_exceeded, tuple(getattr(self, name) for name in names))


class ChargeConflict(RequestRefused):
    """A release key or a charge that is already settled another way. Trying again does not help."""


class LedgerUnavailable(Exception):
    """The ledger cannot be reached or is locked; nothing may be released until it answers. Trying again may help.

    Args:
        ledger: the ledger's URL without its password.
        reason: what went wrong, in one line.
    """

    def __init__(self, ledger: str, reason: str) -> None:
        self.ledger = ledger
        self.reason = reason
        super().__init__(f"the ledger {ledger} cannot be used: {reason}; nothing is released until it answers")

    def __reduce__(self) -> tuple[object, ...]:
        return (LedgerUnavailable, (self.ledger, self.reason))


def _budget_exceeded(account: str, block: str, asked: Decimal, remaining: Decimal, cap: Decimal) -> BudgetExceeded:
    return BudgetExceeded(account=account, block=block, asked=asked, remaining=remaining, cap=cap)
