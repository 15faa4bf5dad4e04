"""The state of a stream between two steps, as bytes, in one canonical form for each method.

The form is a line with ``count-stream``, a version number and the SHA-256 of the rest, and a line of JSON. The hash
detects accidental damage; it does not protect against somebody who can write the bytes. The state of PeGaSus contains
exact counts, so no error quotes it.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, exact_decimal, plain
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.mechanisms.streams.level_filter import SEASON_MEMORIES, LocalLevelState
from spark_jobs.mechanisms.streams.local_level import LocalLevelShape
from spark_jobs.mechanisms.streams.parameters import MAX_COUNT
from spark_jobs.mechanisms.streams.predictions import MEMORIES
from spark_jobs.papers.streams.open_groups import PegasusState
from spark_jobs.papers.streams.pegasus import PegasusShape
from spark_jobs.papers.streams.smoothing import Smoother

Shape = LocalLevelShape | PegasusShape
State = LocalLevelState | PegasusState

Whole = Annotated[int, Field(ge=0, lt=1 << 63)]
Signed = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Square = Annotated[float, Field(ge=0, allow_inf_nan=False)]


Stamp = Annotated[str, Field(pattern=f"^({PRIVATE}|{NOT_PRIVATE})$")]


class _Kept(BaseModel):
    # not the contract's base class, whose errors quote the given value
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class SavedLocalLevel(_Kept):
    """The state of a filtered stream, a function of released counts.

    Attributes:
        epsilon, neighbours, season, confidence: as in ``CountStream``.
        guarantee: stamp of all steps so far.
        step, levels, squares, places, season_squares: as in ``LocalLevelState``; ``places`` has one tuple for each
            memory.
    """

    epsilon: str
    neighbours: Neighbours
    season: Whole
    confidence: Finite
    guarantee: Stamp
    step: Whole
    levels: Annotated[tuple[Finite, ...], Field(min_length=len(MEMORIES), max_length=len(MEMORIES))]
    squares: Annotated[tuple[Square, ...], Field(min_length=len(MEMORIES), max_length=len(MEMORIES))]
    places: Annotated[
        tuple[tuple[Finite, ...], ...], Field(min_length=len(SEASON_MEMORIES), max_length=len(SEASON_MEMORIES))
    ]
    season_squares: Annotated[
        tuple[Square, ...], Field(min_length=len(SEASON_MEMORIES) + 1, max_length=len(SEASON_MEMORIES) + 1)
    ]

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if {len(of_memory) for of_memory in self.places} != {min(self.step, self.season)}:
            raise ValueError("no stream can reach this state")
        return self

    @classmethod
    def of(cls, shape: LocalLevelShape, state: LocalLevelState, guarantee: str) -> SavedLocalLevel:
        """The saved form of a stream."""
        return cls(
            epsilon=plain(exact_decimal(shape.epsilon)),
            neighbours=shape.neighbours,
            guarantee=guarantee,
            step=state.step,
            season=int(shape.season),
            confidence=float(shape.confidence),
            levels=tuple(state.levels[:, 0].tolist()),
            squares=tuple(state.squares[:, 0].tolist()),
            places=tuple(map(tuple, state.places[:, :, 0].tolist())),
            season_squares=tuple(state.season_squares[:, 0].tolist()),
        )

    @property
    def shape(self) -> LocalLevelShape:
        """The public facts of the stream."""
        return LocalLevelShape(
            epsilon=self.epsilon, neighbours=self.neighbours, season=self.season, confidence=self.confidence
        )

    @property
    def state(self) -> LocalLevelState:
        """The state of the filter."""

        def column(values: Any) -> FloatArray:
            return np.array(values, dtype=np.float64)[..., np.newaxis]

        return LocalLevelState(
            step=self.step,
            levels=column(self.levels),
            squares=column(self.squares),
            places=column(self.places),
            season_squares=column(self.season_squares),
        )


class SavedPegasus(_Kept):
    """The state of a stream with PeGaSus; private, because it has the exact counts of the open group.

    Attributes:
        epsilon, neighbours, group_share, threshold, max_group, smoothing: as in ``CountStream``.
        guarantee: stamp of all steps so far.
        step, start, open, level: as in ``PegasusState``.
        counts, noisy: the exact and the noisy counts of the open group, both ascending.
    """

    epsilon: str
    neighbours: Neighbours
    group_share: str
    threshold: Finite
    max_group: int
    smoothing: Smoother
    guarantee: Stamp
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
            all(one <= other for kept in (self.counts, self.noisy) for one, other in pairwise(kept)),
        )
        if not all(fits):
            raise ValueError("no stream can reach this state")
        return self

    @classmethod
    def of(cls, shape: PegasusShape, state: PegasusState, guarantee: str) -> SavedPegasus:
        """The saved form of a stream."""
        return cls(
            epsilon=plain(exact_decimal(shape.epsilon)),
            neighbours=shape.neighbours,
            group_share=plain(exact_decimal(shape.group_share)),
            threshold=float(shape.threshold),
            max_group=int(shape.max_group),
            smoothing=shape.smoother,
            guarantee=guarantee,
            step=int(state.step[0]),
            start=int(state.start[0]),
            open=bool(state.open[0]),
            level=int(state.level[0]),
            counts=tuple(sorted(state.counts.tolist())),
            noisy=tuple(state.noisy.tolist()),
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

        def column(*values: int) -> Int64Array:
            return np.array(values, dtype=np.int64)

        return PegasusState(
            step=column(self.step),
            start=column(self.start),
            open=np.array([self.open]),
            level=column(self.level),
            counts=column(*self.counts),
            noisy=column(*self.noisy),
        )


Saved = SavedLocalLevel | SavedPegasus
_FORMS: dict[bytes, type[SavedLocalLevel] | type[SavedPegasus]] = {
    b"count-stream 2 ": SavedLocalLevel,
    b"count-stream 3 ": SavedPegasus,
}


def saved(shape: Shape, state: State, guarantee: str) -> Saved:
    """The saved form of a stream with either method."""
    if isinstance(shape, LocalLevelShape) and isinstance(state, LocalLevelState):
        return SavedLocalLevel.of(shape, state, guarantee)
    if isinstance(shape, PegasusShape) and isinstance(state, PegasusState):
        return SavedPegasus.of(shape, state, guarantee)
    raise TypeError("a state of another method")


def to_bytes(kept: Saved) -> bytes:
    """The canonical form, as bytes."""
    body = kept.model_dump_json().encode()
    form = next(form for form, kind in _FORMS.items() if type(kept) is kind)
    return form + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def from_bytes(state: bytes) -> Saved:
    """The saved stream in the bytes of ``to_bytes``.

    Raises:
        InvalidRequest: ``to_bytes`` did not write these bytes; the error quotes none of them.
    """
    head, _, body = bytes(state).partition(b"\n") if isinstance(state, (bytes, bytearray)) else (b"", b"", b"")
    digest = hashlib.sha256(body).hexdigest().encode()
    try:
        kind = next((kind for form, kind in _FORMS.items() if head == form + digest), None)
        if kind is None:
            raise ValueError("another form, or damaged bytes")
        kept = kind.model_validate_json(body)
        if to_bytes(saved(kept.shape, kept.state, kept.guarantee)) != state:
            raise ValueError("not the canonical form")
    except (ValidationError, ValueError):
        raise InvalidRequest(
            "state", None, "must be the undamaged bytes that CountStream.state() of this version returned",
            "restore an older copy if nothing was released since, or begin a new stream and pay for it",
        ) from None  # fmt: skip
    return kept
