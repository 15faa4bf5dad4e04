"""The small documents beside a release that both sides read: tombstones and the account's numbers."""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.values import Frozen


class _Document(Frozen):
    format: Literal[1] = 1

    def to_json(self) -> bytes:
        """The document's bytes; the same document always gives the same."""
        return (json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """The document in ``content``.

        Raises:
            RequestRefused: it is none of this kind.
        """
        try:
            data: Any = json.loads(content)
        except ValueError:
            data = None
        return cls.parse(data)


class Tombstone(_Document):
    """What lies at a draw's path once its reservation was given back: no draw can ever lie there.

    Attributes:
        charge_id: the charge that was given back.
        reason: why, in a fixed text.
    """

    kind: Literal["tombstone"] = "tombstone"
    charge_id: str
    reason: str


class BlockState(Frozen):
    """One block of an account, as it was when a release was charged to it.

    Attributes:
        block: the block's name.
        spent_before: what other charges had taken; reserved counts as spent.
        remaining_after: what the block could still bear.
    """

    block: str
    spent_before: Budget
    remaining_after: Budget


class AccountState(_Document):
    """An account's numbers when a release was charged to it: the same for every attempt, so that all make equal bytes.

    Attributes:
        account: the account's name.
        cap: what each of its blocks may bear in all.
        cost: what this release was charged.
        blocks: the blocks it was charged to.
    """

    account: str
    cap: Budget
    cost: Budget
    blocks: tuple[BlockState, ...]

    @property
    def scarcest(self) -> BlockState:
        """The block with the least epsilon left, which decides what the account can still pay."""
        return min(self.blocks, key=lambda state: (state.remaining_after.epsilon, state.block))


def is_tombstone(content: bytes) -> bool:
    """Whether ``content``, found at a draw's path, is a tombstone; whatever else it is counts as a draw."""
    try:
        Tombstone.from_json(content)
    except ValueError:
        return False
    return True
