"""The state of a stream between two steps, and its form as bytes; private, because open groups hold exact counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

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
class CountStreamState:
    """The state of a stream between two steps; private, so its ``repr`` shows no counts.

    Attributes:
        step: the number of steps so far.
        guarantee: stamp of the noise of all steps so far; empty before the first.
        counts: the state of each count, in the order of ``StreamRequest.names``.
    """

    step: int
    guarantee: str
    counts: LocalLevelCounts | GroupedCounts

    def to_bytes(self, request: StreamRequest) -> bytes:
        """The state of the stream of ``request`` as bytes, to be encrypted."""
        fields = {"request": request.charged_sha256, "state": codec.encode(self)}
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
        return codec.decode(cls, fields["state"])


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
