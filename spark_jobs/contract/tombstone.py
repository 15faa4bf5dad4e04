"""The tombstone: what lies at a draw's path once its reservation was given back."""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from spark_jobs.contract.values import Frozen


class Tombstone(Frozen):
    """An object at a draw's path that is no draw, so that no draw can ever lie there.

    Attributes:
        charge_id: the charge that was given back.
        reason: why, in a fixed text.
    """

    format: Literal[1]
    kind: Literal["tombstone"]
    charge_id: str
    reason: str

    @classmethod
    def of(cls, charge_id: str, *, reason: str) -> Self:
        """The tombstone of a charge."""
        return cls(format=1, kind="tombstone", charge_id=charge_id, reason=reason)

    def to_json(self) -> bytes:
        """The tombstone's bytes; the same tombstone always gives the same."""
        return (json.dumps(self.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """The tombstone in ``content``.

        Raises:
            RequestRefused: it is none.
        """
        try:
            data: Any = json.loads(content)
        except ValueError:
            data = None
        return cls.parse(data)


def is_tombstone(content: bytes) -> bool:
    """Whether ``content``, found at a draw's path, is a tombstone; whatever else it is counts as a draw."""
    try:
        Tombstone.from_json(content)
    except ValueError:
        return False
    return True
