"""What an account has left in the blocks of a charge."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from spark_jobs.contract.privacy import Budget

if TYPE_CHECKING:
    from dp_operators.budget.reader import LedgerReader
    from dp_operators.budget.values import Account


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
