"""Statements of an application's run about its end: that it read no row, or that another run was first."""

from __future__ import annotations

import json
from typing import Literal, Self

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.sealing import SealBroken
from spark_jobs.contract.values import Frozen


class NothingRead(Frozen):
    """States that a run read no row of the table, so that nothing it did can depend on a row.

    Attributes:
        run: the run's number, as the ledger gave it.
        refusal: why the request cannot be served, if that ended the run; None if something failed.
    """

    format: Literal[1] = 1
    kind: Literal["nothing read"] = "nothing read"
    run: int
    refusal: dict[str, str | None] | None = None

    @classmethod
    def of(cls, run: int, refused: InvalidRequest | None) -> Self:
        """The statement of a run whose request was rejected, or which failed."""
        return cls(run=run, refusal=None if refused is None else refused.to_dict())

    def to_json(self) -> bytes:
        """The statement's bytes."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, content: bytes, *, run: int) -> Self:
        """The statement of run ``run`` in the opened content of its seal.

        Raises:
            SealBroken: the content is not a statement, or is that of another run.
        """
        try:
            statement = cls.parse(json.loads(content))
        except ValueError:
            raise SealBroken("a run's statement is not a valid one") from None
        if statement.run != run:
            raise SealBroken("a run's statement is that of another run")
        return statement

    @property
    def refused(self) -> InvalidRequest | None:
        """The error for which the request was rejected, if it was."""
        return None if self.refusal is None else InvalidRequest.from_dict(self.refusal)


class OvertakenError(Exception):
    """Another run that follows the same stream was first to store a step; this run ends."""


class FollowedElsewhere(Frozen):
    """States that a run ended because another run follows its stream; rows may have been read.

    Attributes:
        run: the run's number.
    """

    format: Literal[1] = 1
    kind: Literal["followed elsewhere"] = "followed elsewhere"
    run: int

    def to_json(self) -> bytes:
        """The statement's bytes."""
        return json.dumps(self.model_dump(mode="json")).encode()

    @classmethod
    def is_stated(cls, content: bytes, *, run: int) -> bool:
        """Whether the opened content of a seal is this statement of run ``run``."""
        try:
            return cls.parse(json.loads(content)).run == run
        except ValueError:
            return False
