"""The figures of a ledger account at the moment a release was reserved, as the report shows them."""

from __future__ import annotations

import base64
import json
from typing import Literal, Self

from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.store.sealing import Seal, SealBroken
from spark_jobs.contract.values import Frozen

_NAME = "account.json"

Composition = Literal["pure", "zcdp", "approximate"]
"""How the costs of an account's charges are composed."""


class AccountState(Frozen):
    """An account's figures at the moment of a reservation; all attempts at one release get the same figures.

    Attributes:
        name: the account's name.
        composition: how the costs of its charges are composed.
        block: the block that the figures describe: of the charged blocks, the one with the smallest remainder.
        cap: the most that the block may ever spend.
        spent_before: what the block had reserved, committed or burnt before this release.
        charged: what this release reserved; at least what its mechanisms spend.
        remaining: what is left of the cap after this charge.
        allotment: the sub-budget that was charged as well; empty if none was.
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
        """The content of ``account.json``, with the figures sealed so that nobody else can write a report's figures.

        The sub-budget's name stays readable: a ledger that is restored from a backup older than the charge needs the
        name, but no longer has the secret that opens the figures.
        """
        figures = base64.b64encode(seal.close(_NAME, self.model_dump_json().encode())).decode()
        return json.dumps({"format": 1, "allotment": self.allotment, "figures": figures}).encode()

    @classmethod
    def opened(cls, content: bytes, seal: Seal) -> Self:
        """Read back what ``sealed`` returned.

        Raises:
            SealBroken: ``content`` was not made by ``sealed`` under this seal.
        """
        try:
            figures = base64.b64decode(json.loads(content)["figures"], validate=True)
        except (ValueError, KeyError, TypeError):
            raise SealBroken(f"{_NAME} holds no figures") from None
        return cls.parse(json.loads(seal.open(_NAME, figures)))
