"""The state of a stream between two steps, as bytes, in one version and one canonical form.

The form is the line ``count-stream 1 <SHA-256 of the rest>`` and a line of JSON. The hash detects accidental damage; it
does not protect against somebody who can write the bytes. They contain exact counts, so no error quotes them.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, exact_decimal, plain
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.mechanisms.streams.grouping import GroupState
from spark_jobs.mechanisms.streams.pegasus import MAX_COUNT, PegasusShape, PegasusState
from spark_jobs.mechanisms.streams.smoothing import Smoother

_FORM = b"count-stream 1 "

Whole = Annotated[int, Field(ge=0, lt=1 << 63)]
Signed = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


class Saved(BaseModel):
    """A stream between two steps: its public options, its stamp, and its private state.

    Attributes:
        epsilon, neighbours, group_share, threshold, max_group, smoothing: as in ``CountStream``.
        guarantee: stamp of all steps so far.
        step, start, open, level, counts: as in ``GroupState``.
        noisy: as in ``PegasusState``.
    """

    # not the contract's base class, whose errors quote the given value
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    epsilon: str
    neighbours: Neighbours
    group_share: str
    threshold: Annotated[float, Field(allow_inf_nan=False)]
    max_group: int
    smoothing: Smoother
    guarantee: str
    step: Whole
    start: Whole
    open: bool
    level: Signed = Field(repr=False)
    counts: tuple[Count, ...] = Field(repr=False)
    noisy: tuple[Signed, ...] = Field(repr=False)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        size = self.step - self.start if self.open else 0
        fits = (
            self.start < self.step if self.step else self.start == 0 and not self.open,
            len(self.counts) == len(self.noisy) == size,
            self.open or self.level == 0,
            size < self.max_group,
            all(one <= other for one, other in pairwise(self.counts)),
            self.guarantee in (PRIVATE, NOT_PRIVATE),
        )
        if not all(fits):
            raise ValueError("no stream can reach this state")
        return self

    @classmethod
    def of(cls, shape: PegasusShape, state: PegasusState, guarantee: str) -> Saved:
        """The saved form of a stream."""
        group = state.group
        return cls.model_validate(
            {
                "epsilon": plain(exact_decimal(shape.epsilon)),
                "neighbours": shape.neighbours,
                "group_share": plain(exact_decimal(shape.group_share)),
                "threshold": float(shape.threshold),
                "max_group": int(shape.max_group),
                "smoothing": shape.smoother,
                "guarantee": guarantee,
                "step": group.step,
                "start": group.start,
                "open": group.open,
                "level": group.level,
                "counts": group.counts,
                "noisy": state.noisy,
            }
        )

    @property
    def shape(self) -> PegasusShape:
        """The public facts of the stream."""
        return PegasusShape(
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            group_share=self.group_share,
            threshold=self.threshold,
            max_group=self.max_group,
            smoother=self.smoothing,
        )

    @property
    def state(self) -> PegasusState:
        """The private state of the stream."""
        group = GroupState(step=self.step, start=self.start, open=self.open, level=self.level, counts=self.counts)
        return PegasusState(group=group, noisy=self.noisy)

    def to_bytes(self) -> bytes:
        """The canonical form, as bytes."""
        body = self.model_dump_json().encode()
        return _FORM + hashlib.sha256(body).hexdigest().encode() + b"\n" + body

    @classmethod
    def from_bytes(cls, state: bytes) -> Saved:
        """The saved stream in the bytes of ``to_bytes``.

        Raises:
            InvalidRequest: ``to_bytes`` did not write these bytes; the error quotes none of them.
        """
        head, _, body = bytes(state).partition(b"\n") if isinstance(state, (bytes, bytearray)) else (b"", b"", b"")
        try:
            if head != _FORM + hashlib.sha256(body).hexdigest().encode():
                raise ValueError("another form, or damaged bytes")
            saved = cls.model_validate_json(body)
            if cls.of(saved.shape, saved.state, saved.guarantee).to_bytes() != state:
                raise ValueError("not the canonical form")
        except (ValidationError, ValueError):
            raise InvalidRequest(
                "state",
                requirement="must be undamaged bytes from CountStream.state(), of this version",
                remedy="restore an older copy if nothing was released since, or begin a new stream and pay for it",
            ) from None
        return saved
