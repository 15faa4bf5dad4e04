"""The report of a stream, from its published files: ``python -m spark_jobs.application.streams.report FOLDER``.

It reads ``stream.json`` and the Parquet files of the steps in the stream's folder, and writes ``report.html`` beside
them, and for a stream with monitors ``alarms.parquet`` and ``alarms.json``. It needs neither Spark nor a ledger, and
its memory is bounded: the page shows at most ``MAX_NAMES`` counts. The values of these counts are kept in
``report.npz``, so that a step is read again only a limited number of times, however long the stream is. If
``report.npz`` is lost, the steps are read once more.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np

from spark_jobs.application.streams.alarms import write_alarms
from spark_jobs.application.streams.released import (
    first_step,
    history_with_total,
    published_segments,
    segment_history,
)
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.store.stream_objects import STREAM_NAME
from spark_jobs.contract.store.views import overwrite_view
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.diagnostics.count_stream.monitors import Raised
from spark_jobs.diagnostics.count_stream.summary import StreamHistory, joined
from spark_jobs.publishing.stream_report import StreamFacts, stream_html

NAME, KEPT = "report.html", "report.npz"
MAX_NAMES = 24
_MAX_VALUES = 1 << 22
_KEPT_AGAIN = 64
"""What was read is kept again when this share of its segments is new: one in so many."""


def write_report(store: ObjectStore, root: str) -> bool:
    """Write the report of the stream whose folder is ``root`` in place of the last one; False if it has no step yet.

    Raises:
        InvalidRequest: the folder holds no stream.
        OSError: the store failed.
    """
    description = store.read(f"{root}/{STREAM_NAME}")
    if description is None:
        raise InvalidRequest(
            "folder", root, "must be the folder of a stream, with stream.json in it",
            "name the folder below output that holds the stream's steps",
        )  # fmt: skip
    facts = StreamFacts.of(json.loads(description))
    segments = published_segments(store, root)
    if not segments:
        return False

    def read(name: str) -> bytes:
        content = store.read(f"{root}/{name}")
        if content is None:
            raise OSError("a published file cannot be read")
        return content

    request, kept = facts.request, ShownHistory.parse(store.read(f"{root}/{KEPT}") or b"", facts)
    if kept is None or not kept.is_of(segments, request):
        kept = ShownHistory.begun(segments, read, request)
    whole = kept.extended(segments, read, request)
    if whole.segments > kept.segments + kept.segments // _KEPT_AGAIN:
        overwrite_view(store, f"{root}/{KEPT}", whole.to_bytes(facts))
    raised = write_alarms(store, root, facts, segments, read) if request.monitors else ()
    page = report(facts, whole.history, segments=len(segments), raised=raised)
    overwrite_view(store, f"{root}/{NAME}", page)
    return True


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownHistory:
    """The history, up to some segment, of the counts that the page shows.

    Attributes:
        places: the positions, among the request's counts, of those that the page shows.
        selected_at: the number of the step at which these counts were selected.
        segments: the number of segments, from the first on.
        last: the name of the last of these segments.
        history: the history of the total, if there is one, and of the shown counts.
    """

    places: tuple[int, ...]
    selected_at: int
    segments: int
    last: str
    history: StreamHistory

    @classmethod
    def begun(cls, segments: Sequence[str], read: Callable[[str], bytes], request: StreamRequest) -> Self:
        """The history of the first segment; the newest segment decides which of many counts are shown."""
        shown = shown_names(request, segment_history(read(segments[-1]), request).estimates)
        first = _shown(segment_history(read(segments[0]), request), request, shown)
        return cls(places=shown, selected_at=first_step(segments[-1]), segments=1, last=segments[0], history=first)

    def is_of(self, segments: Sequence[str], request: StreamRequest) -> bool:
        """Whether this history is of the first of these segments, and its choice of counts is still good.

        Where there are many counts, the busiest are chosen again whenever the stream has doubled in length.
        """
        begins = self.segments <= len(segments) and segments[self.segments - 1] == self.last
        doubled = first_step(segments[-1]) > 2 * self.selected_at
        return begins and (len(self.places) == len(request.names) or not doubled)

    def extended(self, segments: Sequence[str], read: Callable[[str], bytes], request: StreamRequest) -> Self:
        """This history, extended by the new segments."""
        new = (segment_history(read(name), request) for name in segments[self.segments :])
        history = joined([self.history, *(_shown(one, request, self.places) for one in new)])
        return replace(self, segments=len(segments), last=segments[-1], history=history)

    def to_bytes(self, facts: StreamFacts) -> bytes:
        """The history as bytes, which ``parse`` reads."""
        columns = {name: value for name, value in vars(self.history).items() if value is not None}
        written = io.BytesIO()
        np.savez_compressed(
            written, stream=_identity(facts), places=self.places, chosen=self.selected_at, segments=self.segments,
            last=self.last, **columns,
        )  # fmt: skip
        return written.getvalue()

    @classmethod
    def parse(cls, content: bytes, facts: StreamFacts) -> Self | None:
        """The history of this stream that ``to_bytes`` wrote; None if the bytes are anything else."""
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as kept:
                fields = dict(kept)
            if str(fields.pop("stream")) != _identity(facts):
                return None
            return cls(
                places=tuple(fields.pop("places").tolist()),
                selected_at=int(fields.pop("chosen")),
                segments=int(fields.pop("segments")),
                last=str(fields.pop("last")),
                history=StreamHistory(
                    names=tuple(fields.pop("names").tolist()), **{"lower": None, "upper": None, **fields}
                ),
            )
        except (ValueError, KeyError, TypeError, OSError, EOFError, BadZipFile):
            return None


def _identity(facts: StreamFacts) -> str:
    return f"1 {facts.request.sha256} {facts.charge_id}"


def report(facts: StreamFacts, history: StreamHistory, *, segments: int, raised: Sequence[Raised] = ()) -> bytes:
    """The page of a stream, from the history that it shows and all alarms."""
    page: Any = import_module("spark_jobs.diagnostics.count_stream.page")
    return stream_html(facts, page.render(history, facts.request, raised), released=history.steps, segments=segments)


def shown_names(request: StreamRequest, estimates: FloatArray) -> tuple[int, ...]:
    """The positions of the counts on the page: all of them, or whole upper levels and the busiest of the next level."""
    room = max(min(MAX_NAMES, _MAX_VALUES // request.steps), 1)
    shown: list[int] = []
    first = 0
    for names in reversed(request.levels):
        own = range(first, first + len(names))
        first += len(names)
        left = room - len(shown)
        busiest = sorted(own, key=lambda place: -float(estimates[:, place].sum()))[: max(left, 0)]
        shown += sorted(busiest)
    return tuple(shown)


def _shown(history: StreamHistory, request: StreamRequest, places: Sequence[int]) -> StreamHistory:
    """What the page shows of a history; with the total of states that have no groups above them, as it is free."""
    if not request.has_total:
        return history.part(places=places)
    return history_with_total(history, request).part(places=[0, *(place + 1 for place in places)])


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report of the stream in a folder; the exit code is 2 for a folder without a stream."""
    given = list(sys.argv[1:] if argv is None else argv)
    if len(given) != 1:
        print("usage: python -m spark_jobs.application.streams.report FOLDER", file=sys.stderr)  # noqa: T201
        return 2
    root = given[0].rstrip("/")
    try:
        write_report(open_store(root, what="folder"), root)
    except InvalidRequest as refused:
        print(refused, file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
