"""The state of a stream between two steps, and its form as bytes.

The state is private: groups of steps that are still open hold exact counts, and the record of the rows used of each
unit is exact too. As bytes, the state is a line with its version and then an uncompressed ``npz`` file, with one array
for each field of all states together. Numbers have 64 bits each, so that the length of an encrypted object does not
depend on the digits of an exact count.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.mechanisms.streams.level_filter import LocalLevelState
from spark_jobs.papers.streams.open_groups import PegasusState
from spark_jobs.statistics.unit_use import UnitUse

_FORM = b"dp-diagnostics stream state 5\n"
_FORMS = (_FORM, b"dp-diagnostics stream state 4\n")
"""The forms that are read; the older one has no version, nothing of units, and nothing of what was read."""
_KINDS: tuple[type[LocalLevelState | PegasusState], ...] = (LocalLevelState, PegasusState)
_COLUMN = "counts."


@dataclass(frozen=True, kw_only=True, repr=False)
class OpenCounts:
    """Exact counts of the steps of a followed stream that are not closed yet, and the last counted micro-batch.

    Attributes:
        source: the identity of the query whose micro-batches were counted; empty before the first.
        batch: the number of the last counted micro-batch; -1 before the first.
        read: the hash of all that was planned up to this micro-batch (``SourceLog.history``); empty before the first,
            or if an earlier version wrote it.
        cells: the counts of the steps from the next one on, as 64-bit numbers.
    """

    source: str = ""
    batch: int = -1
    read: str = ""
    cells: bytes = b""

    @classmethod
    def of(cls, counts: Int64Array, *, source: str, batch: int, read: str) -> Self:
        """The open counts in an array of shape (steps, states)."""
        return cls(source=source, batch=batch, read=read, cells=counts.astype("<i8").tobytes())

    def counts(self, steps: int, states: int) -> Int64Array:
        """The counts of the first ``steps`` open steps, shape (steps, states); 0 for a step that is not open yet."""
        kept = np.frombuffer(self.cells, dtype="<i8").reshape(-1, states)[:steps]
        counts = np.zeros((steps, states), dtype=np.int64)
        counts[: len(kept)] = kept
        return counts


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CountStreamState:
    """The state of a stream between two steps; private, so its ``repr`` shows no counts.

    Attributes:
        step: the number of steps so far.
        guarantee: stamp of the noise of all steps so far; empty before the first.
        counts: the state of each count, in the order of ``StreamRequest.names``: what the method keeps of released
            counts, or groups that hold exact counts.
        open: the open steps of a stream that is followed; None for any other.
        use: the rows used of each unit so far; None for a stream that does not keep them.
        salt_check: a value derived from the stream's salt, to detect another salt; empty if the stream uses none, or an
            earlier version wrote the state.
        version: the name of the version of the table that was read last; empty if it is not known.
    """

    step: int
    guarantee: str
    counts: LocalLevelState | PegasusState
    open: OpenCounts | None = None
    use: UnitUse | None = None
    salt_check: str = ""
    version: str = ""

    def to_bytes(self, request_sha256: str) -> bytes:
        """The state as bytes, to be encrypted, with the hash that the stream's charge is tied to."""
        fields: dict[str, Any] = {
            "request": request_sha256,
            "kind": type(self.counts).__name__,
            "step": self.step,
            "guarantee": self.guarantee,
            "version": self.version,
            "salt": self.salt_check,
            **({} if self.use is None else {"units": self.use.to_records()}),
            **{f"{_COLUMN}{name}": column for name, column in vars(self.counts).items()},
        }
        if self.open is not None:
            cells = np.frombuffer(self.open.cells, dtype="<i8")
            fields |= {"source": self.open.source, "batch": self.open.batch, "read": self.open.read, "cells": cells}
        written = io.BytesIO()
        np.savez(written, **fields)
        return _FORM + written.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, request_sha256: str) -> CountStreamState:
        """The state that ``to_bytes`` wrote.

        Raises:
            InvalidRequest: another version wrote it, or it is the state of another stream; the error quotes nothing.
        """
        form = next((form for form in _FORMS if content.startswith(form)), None)
        if form is None:
            raise InvalidRequest(
                "state", None, "must have been written by this version of the package, because it cannot read the "
                "states of others",
                "use the version that wrote the state, or begin a new stream under another key",
            )  # fmt: skip
        with np.load(io.BytesIO(content.removeprefix(form)), allow_pickle=False) as kept:
            fields = {name: array if array.ndim else array.item() for name, array in kept.items()}
        if fields["request"] != request_sha256:
            raise InvalidRequest(
                "state",
                None,
                "must be the state of a stream with this request",
                "use the request with which the stream began",
            )
        [kind] = (one for one in _KINDS if one.__name__ == fields["kind"])
        columns = {name.removeprefix(_COLUMN): one for name, one in fields.items() if name.startswith(_COLUMN)}
        left_open = None
        if "cells" in fields:
            named = {name: fields[name] for name in ("source", "batch", "read") if name in fields}
            left_open = OpenCounts(**named, cells=fields["cells"].tobytes())
        return cls(
            step=fields["step"],
            guarantee=fields["guarantee"],
            counts=kind(**columns),
            open=left_open,
            use=UnitUse.from_records(fields["units"]) if "units" in fields else None,
            salt_check=fields.get("salt", ""),
            version=fields.get("version", ""),
        )
