"""What a ledger account held when a release was reserved, as the report shows it."""

from __future__ import annotations

import base64
import json
from typing import Literal, Self

from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.store.sealing import Seal, SealBroken
from spark_jobs.contract.values import Frozen

_NAME = "account.json"

Composition = Literal["pure", "zcdp", "approximate"]
"""How the charges of an account add up."""


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
    composition: Composition = "pure"
    block: str = "all"
    cap: Budget
    spent_before: Budget
    charged: Budget
    remaining: Budget
    allotment: str = ""

    def sealed(self, seal: Seal) -> bytes:
        """The object beside a charged request: the figures, sealed, so that nobody else can write a report's figures.

        The allotment is readable: a ledger that was restored without the charge, and so without its secret, needs it.
        """
        figures = base64.b64encode(seal.close(_NAME, self.model_dump_json().encode())).decode()
        return json.dumps({"format": 1, "allotment": self.allotment, "figures": figures}).encode()

    @classmethod
    def opened(cls, content: bytes, seal: Seal) -> Self:
        """The figures in what ``sealed`` gave.

        Raises:
            SealBroken: it did not.
        """
        try:
            figures = base64.b64decode(json.loads(content)["figures"], validate=True)
        except (ValueError, KeyError, TypeError):
            raise SealBroken(f"{_NAME} holds no figures") from None
        return cls.parse(json.loads(seal.open(_NAME, figures)))
