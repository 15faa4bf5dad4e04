"""The state of a stream between two steps, and its form as bytes; private, because open groups hold exact counts."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.streams.local_level import LocalLevelState
from spark_jobs.mechanisms.streams.pegasus import PegasusState

_FORM = b"dp-diagnostics stream state 1\n"
_CHARACTERS = 25
"""The most characters of a number: of a float or of 64 bits."""


@dataclass(frozen=True, kw_only=True, repr=False)
class LocalLevelCounts:
    """The state of each count, filtered by a local level model: a function of released counts."""

    streams: tuple[LocalLevelState, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupedCounts:
    """The state of each count, smoothed over groups of steps: the open groups hold exact counts."""

    streams: tuple[PegasusState, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class OpenCounts:
    """Exact counts of the steps of a followed stream that are not closed yet, and which micro-batches they contain.

    Attributes:
        source: the identity of the query whose micro-batches were counted; empty before the first.
        batch: the number of the last one; -1 before the first.
        cells: the counts of the steps from the next one on, as base64 of 64-bit numbers, so that their length does not
            depend on them.
    """

    source: str = ""
    batch: int = -1
    cells: str = ""

    @classmethod
    def of(cls, counts: Int64Array, *, source: str, batch: int) -> Self:
        """The open counts in an array of shape (steps, states)."""
        return cls(source=source, batch=batch, cells=base64.b64encode(counts.astype("<i8").tobytes()).decode())

    def counts(self, steps: int, states: int) -> Int64Array:
        """The counts of the first ``steps`` open steps, shape (steps, states); those that it does not have are 0."""
        kept = np.frombuffer(base64.b64decode(self.cells), dtype="<i8").reshape(-1, states)[:steps]
        counts = np.zeros((steps, states), dtype=np.int64)
        counts[: len(kept)] = kept
        return counts


@dataclass(frozen=True, kw_only=True, repr=False)
class CountStreamState:
    """The state of a stream between two steps; private, so its ``repr`` shows no counts.

    Attributes:
        step: the number of steps so far.
        guarantee: stamp of the noise of all steps so far; empty before the first.
        counts: the state of each count, in the order of ``StreamRequest.names``.
        open: the open steps of a stream that is followed; None for any other.
    """

    step: int
    guarantee: str
    counts: LocalLevelCounts | GroupedCounts
    open: OpenCounts | None = None

    def to_bytes(self, request: StreamRequest) -> bytes:
        """The state of the stream of ``request`` as bytes, to be encrypted."""
        # open counts lie beside the rest: the state of a stream that is not followed has no such field
        state = codec.encode(self)
        kept = state.pop("open")
        fields = {"request": request.charged_sha256, "state": state, **({} if kept is None else {"open": kept})}
        # the length of an encrypted object is readable, and must not depend on the digits of an exact count
        blank, numbers = _blank(fields)
        length = len(_text(blank)) + _CHARACTERS * numbers
        return _FORM + _text(fields).ljust(length).encode()

    @classmethod
    def from_bytes(cls, content: bytes, request: StreamRequest) -> CountStreamState:
        """The state that ``to_bytes`` wrote.

        Raises:
            InvalidRequest: another version wrote it, or it is the state of another stream; the error quotes nothing.
        """
        if not content.startswith(_FORM):
            raise InvalidRequest(
                "state", requirement="was written by another version of this package, and cannot be read",
                remedy="use that version, or begin a new stream under another key",
            )  # fmt: skip
        fields = json.loads(content.removeprefix(_FORM))
        if fields["request"] != request.charged_sha256:
            raise InvalidRequest(
                "state", requirement="is that of a stream with another request",
                remedy="use the request that the stream began with",
            )  # fmt: skip
        return codec.decode(cls, {**fields["state"], "open": fields.get("open")})


def _text(fields: Any) -> str:
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


def _blank(data: Any) -> tuple[Any, int]:
    """``data`` with 0 in place of every number, and how many numbers there are; decided by the structure alone."""
    if isinstance(data, str):
        return data, 0
    if isinstance(data, dict):
        blank, counts = zip(*map(_blank, data.values()), strict=True) if data else ((), ())
        return dict(zip(data, blank, strict=True)), sum(counts)
    if isinstance(data, list):
        blank, counts = zip(*map(_blank, data), strict=True) if data else ((), ())
        return list(blank), sum(counts)
    return 0, 1
