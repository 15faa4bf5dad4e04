"""What an account has left in the blocks of a charge, and what it would have left after several charges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from spark_jobs.contract.privacy import Budget

if TYPE_CHECKING:
    from dp_operators.budget.reader import LedgerReader
    from dp_operators.budget.values import Account, SubBudget


def left_in(account: Account, blocks: tuple[str, ...], ledger: LedgerReader) -> tuple[Budget, Decimal]:
    """The largest charge that still fits in the block with the least left, and the share of the cap that this is."""
    from dp_operators.budget.composition import APPROXIMATE, fraction_spent, limits_of, room, zero_cost

    limits = limits_of(account.composition, account.cap, account.slack)
    spent, nothing = ledger.blocks(account.name), zero_cost(account.composition)
    tightest = max(
        (spent.get(block, nothing) for block in account.paying(blocks)),
        key=lambda total: fraction_spent(limits, total),
    )
    left = room(limits, tightest, "approximate" if account.composition == APPROXIMATE else "pure")
    return left, 1 - fraction_spent(limits, tightest)


@dataclass(frozen=True, kw_only=True)
class LeftAfter:
    """What several charges to a block would leave of an account or of one of its sub-budgets.

    Attributes:
        before: the largest charge that fits before them.
        after: the largest that fits after them; 0 if they do not fit.
        enough: whether all of them fit.
    """

    before: Budget
    after: Budget
    enough: bool


def left_after(
    account: Account, block: str, costs: Sequence[Budget], ledger: LedgerReader, *, allotment: str | None = None
) -> LeftAfter:
    """What charges of these costs together would leave in a paying block, by the account's composition.

    Raises:
        InvalidRequest: there is no such sub-budget, or the account cannot add up such costs.
        LedgerUnavailable: the ledger cannot be reached.
    """
    from dp_operators.budget.composition import (
        APPROXIMATE,
        added,
        cost_in,
        fits,
        limits_of,
        minimum,
        room,
        zero_cost,
    )

    kind = "approximate" if account.composition == APPROXIMATE else "pure"
    holders: dict[str | None, Account | SubBudget] = {None: account}
    if allotment:
        holders |= {one.name: one for one in ledger.sub_budgets(account.name) if one.name == allotment}
    before, after, enough = [], [], True
    for payer, holder in holders.items():
        limits = limits_of(account.composition, holder.cap, holder.slack)
        spent = ledger.blocks(account.name, allotment=payer).get(block, zero_cost(account.composition))
        charged = spent
        for cost in costs:
            charged = added(charged, cost_in(account.composition, cost.epsilon, cost.delta, cost.rho))
        before.append(room(limits, spent, kind))
        after.append(room(limits, charged, kind))
        enough = enough and fits(limits, charged)
    return LeftAfter(before=minimum(before), after=minimum(after), enough=enough)
