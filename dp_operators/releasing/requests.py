"""What a release would cost, and whether its account could be charged for it at all; never looks at data."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from dp_operators.budget import BudgetExceeded
from spark_jobs.contract.account import AccountState
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from dp_operators.budget import Account, Charge, PrivacyLedger

_SHOWN = Decimal("1e-15")


def price(request: ReleaseRequest) -> Budget:
    """What the ledger is asked to reserve for ``request``, in each of its blocks: its whole budget."""
    return request.budget


def check_request(request: ReleaseRequest, ledger: PrivacyLedger) -> Account:
    """The account that would pay for ``request``.

    Raises:
        RequestRefused: the request names no account or no output, its account does not exist, its table is bound to
            no account or to another, or its relation or unit is not the account's.
        LedgerUnavailable: the ledger cannot be asked.
    """
    name, _ = require_charged(request)
    account = ledger.account(name)
    identity = request.table.identity
    bound_to = ledger.account_for_table(identity)
    if bound_to.name != account.name:
        raise RequestRefused(
            "account",
            given=name,
            bound=f"table {identity} is bound to account {bound_to.name}",
            remedy="name that account, or another table",
        )
    if request.neighbours is not account.neighbours:
        raise RequestRefused(
            "neighbours",
            given=request.neighbours.value,
            bound=f"account {name} counts in {account.neighbours.value}",
            remedy="ask for the account's relation: costs in different relations do not add up",
        )
    if request.unit != account.unit:
        raise RequestRefused(
            "unit",
            given=request.unit.describe(),
            bound=f"account {name} protects {account.unit.describe()}",
            remedy="ask for the account's unit: costs for different units do not add up",
        )
    return account


def check_budget(request: ReleaseRequest, ledger: PrivacyLedger) -> dict[str, Budget]:
    """What each block of ``request`` has left, if all of them could bear it now; no reservation.

    Raises:
        BudgetExceeded: one could not.
        RequestRefused: no such block.
        LedgerUnavailable: the ledger cannot be asked.
    """
    name, _ = require_charged(request)
    account, cost = ledger.account(name), price(request).epsilon
    left = {block: ledger.remaining(name, block) for block in request.blocks}
    for block, budget in left.items():
        if cost > budget.epsilon:
            raise BudgetExceeded(
                account=name, block=block, asked=cost, remaining=budget.epsilon, cap=account.cap.epsilon
            )
    return left


def require_charged(request: ReleaseRequest) -> tuple[str, str]:
    """The account and the output of a request that is to be charged.

    Raises:
        RequestRefused: it lacks one of them.
    """
    if request.account is None:
        raise RequestRefused("account", bound="is required", remedy="name the ledger account that pays")
    if request.output is None:
        raise RequestRefused("output", bound="is required", remedy="name the folder that holds releases")
    return request.account, request.output


def account_state(ledger: PrivacyLedger, charge: Charge) -> AccountState:
    """The figures of the charged block that has the least left, as a report shows them: to 15 decimals.

    Raises:
        LedgerUnavailable: the ledger cannot be asked.
    """
    account = ledger.account(charge.account)
    left = {block: ledger.remaining(account.name, block) for block in charge.blocks}
    block = min(left, key=lambda name: (left[name].epsilon, name))
    return AccountState(
        name=account.name,
        composition=account.composition,
        block=block,
        cap=_shown(account.cap),
        spent_before=_shown(account.cap, left[block], charge.cost),
        charged=_shown(charge.cost),
        remaining=_shown(left[block]),
    )


def _shown(total: Budget, *less: Budget) -> Budget:
    """``total`` less the others, for reading; the ledger itself never rounds.

    Not below 0: where a charge is given back while its figures are read, they are those of no release.
    """
    with localcontext(prec=200):
        epsilon = total.epsilon - sum(budget.epsilon for budget in less)
        delta = total.delta - sum(budget.delta for budget in less)
        return Budget(epsilon=max(epsilon, Decimal(0)).quantize(_SHOWN), delta=max(delta, Decimal(0)).quantize(_SHOWN))
