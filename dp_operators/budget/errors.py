"""How the ledger says no, and how it says that it cannot be asked."""

from __future__ import annotations

from decimal import Decimal

from dp_operators.budget.composition import Limits, nothing, room
from dp_operators.budget.values import ALL, Account
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, plain


class BudgetExceeded(InvalidRequest):
    """A charge that some block of the account cannot bear. Trying again does not help.

    Attributes:
        account, block: where the budget ends.
        allotment: the allotment of the account whose budget ends there; empty for the account itself.
        currency: what there is not enough of: ``epsilon``, ``delta`` or ``rho``.
        asked: how much of it was asked for.
        remaining: how much of it is left there.
        cap: how much of it there can ever be; a charge above it can never fit.
    """

    def __init__(
        self,
        *,
        account: str,
        block: str,
        requested: Decimal,
        remaining: Decimal,
        cap: Decimal,
        currency: str = "epsilon",
        allotment: str = "",
    ) -> None:
        self.account = account
        self.block = block
        self.allotment = allotment
        self.currency = currency
        self.requested = requested
        self.remaining = remaining
        self.cap = cap
        where = f"account {account}" if block == ALL else f"block {block} of account {account}"
        where = f"allotment {allotment} in {where}" if allotment else where
        super().__init__(
            currency,
            value=plain(requested),
            requirement=f"{where} has {plain(remaining)} of {plain(cap)} left",
            remedy=f"request {'less' if requested <= cap else 'no more than the cap'}, or have the cap raised "
            f"(`dp-budget raise {account}`); `dp-budget show {account}` lists what is spent",
        )

    @classmethod
    def of(
        cls, account: Account, allotment: str, block: str, *, limits: Limits, spent: Budget, cost: Budget
    ) -> BudgetExceeded:
        """The refusal of ``cost`` where ``spent`` is spent, in the first currency that there is not enough of."""
        kind = "approximate" if cost.epsilon > 0 else "gaussian"
        left, full = (room(limits, amount, kind) for amount in (spent, nothing(account.composition)))
        short = [
            name for name in ("delta", "epsilon", "rho") if (getattr(cost, name) or 0) > (getattr(left, name) or 0)
        ]
        currency = short[0] if short else "epsilon"
        requested, remaining, cap = (getattr(amount, currency) or Decimal(0) for amount in (cost, left, full))
        return cls(
            account=account.name,
            block=block,
            requested=requested,
            remaining=remaining,
            cap=cap,
            currency=currency,
            allotment=allotment,
        )

    @property
    def never_fits(self) -> bool:
        """Whether the charge is above the cap itself, so that waiting is vain."""
        return self.requested > self.cap


class LedgerFrozen(InvalidRequest):
    """The ledger may be read and not written: it was restored from a backup, and does not know of every spend yet."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "ledger",
            requirement=f"is frozen ({why}) and may only be read",
            remedy="run `dp-budget reconcile` for every folder of releases, and then `dp-budget thaw`",
        )
        self.why = why


class NotAllowed(InvalidRequest):
    """The database does not let this role do what it asked for. Trying again does not help.

    Args:
        ledger: the ledger's URL without its password.
        said: what the database said.
    """

    def __init__(self, ledger: str, message: str) -> None:
        super().__init__(
            "role",
            value=ledger,
            requirement=f"may not do this: {message}",
            remedy="the ledger's owner grants it, see `dp-budget grants`",
        )
        self.ledger = ledger
        self.message = message


class ChargeConflict(InvalidRequest):
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
        return (LedgerUnavailable, (self.ledger, self.reason), vars(self))
