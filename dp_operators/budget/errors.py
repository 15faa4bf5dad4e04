"""The ledger's errors: rejected requests, and a ledger that is unavailable."""

from __future__ import annotations

from decimal import Decimal
from typing import Self

from dp_operators.budget.composition import Limits, room, zero_cost
from dp_operators.budget.values import ALL, Account, Charge
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, plain


class BudgetExceeded(InvalidRequest):
    """The cost does not fit into what a block of the account has left. Trying again does not help.

    Attributes:
        account, block: where the budget is exhausted.
        allotment: the name of the sub-budget that is exhausted in this block; empty for the account itself.
        currency: the exhausted amount: ``epsilon``, ``delta`` or ``rho``.
        requested: the requested amount.
        remaining: the amount that is left in this block.
        cap: the largest amount that can ever fit; a charge above it can never be paid.
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
        where = f"sub-budget {allotment} in {where}" if allotment else where
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
        """The error for a ``cost`` that does not fit beside ``spent``, in the first currency that is short."""
        kind = "approximate" if cost.epsilon > 0 else "gaussian"
        left, full = (room(limits, amount, kind) for amount in (spent, zero_cost(account.composition)))
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
        """Whether the cost is above the cap itself, so that waiting cannot help."""
        return self.requested > self.cap


class LedgerFrozen(InvalidRequest):
    """The ledger is frozen: it was restored from a backup and may lack charges made since, or it was moved."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "ledger",
            None,
            f"is frozen ({why}) and can only be read",
            "use the ledger to which it was moved"
            if why.startswith("moved to ")
            else "run `dp-budget reconcile` for every folder of releases, and then `dp-budget thaw`",
        )
        self.why = why


class NotAllowed(InvalidRequest):
    """The database does not let this role do what was requested. Trying again does not help.

    Args:
        ledger: the ledger's URL without its password.
        message: the database's message.
    """

    def __init__(self, ledger: str, message: str) -> None:
        super().__init__(
            "role",
            value=ledger,
            requirement=f"may not do this: {message}",
            remedy="have the ledger's owner grant it: `dp-budget grants`",
        )
        self.ledger = ledger
        self.message = message


class ChargeConflict(InvalidRequest):
    """A release key or a charge is already used in another way. Trying again does not help."""

    @classmethod
    def of_other_request(cls, charge: Charge) -> Self:
        """The error for a release key under which ``charge`` has already paid for another request."""
        return cls(
            "release",
            value=charge.release,
            requirement=f"is {charge.state} for another request, cost or blocks, by charge {charge.id}",
            remedy="a release key pays for one request: use another key",
        )


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
