"""What a ledger account held when a release was reserved, as the report shows it."""

from __future__ import annotations

from typing import Literal

from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.values import Frozen


class AccountState(Frozen):
    """The account's figures at the moment of the reservation; every attempt of one release is given the same.

    Attributes:
        name: the account.
        composition: how its charges add up.
        block: the block the figures are about: of the charged blocks the one with the least left.
        cap: what the block may ever spend.
        spent_before: what was reserved, committed or burnt before this release.
        charged: what this release reserved; never less than what its mechanisms spend.
        remaining: what was left after it.
        allotment: the allotment that was charged as well; empty for none.
    """

    name: str
    composition: Literal["pure", "zcdp", "approximate"] = "pure"
    block: str = "all"
    cap: Budget
    spent_before: Budget
    charged: Budget
    remaining: Budget
    allotment: str = ""
