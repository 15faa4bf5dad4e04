"""The report of a stream, from what was published of it: ``python -m spark_jobs.application.streams.report FOLDER``.

It reads ``stream.json`` and the Parquet files of the steps in the stream's folder, and writes ``report.html`` beside
them. It needs neither Spark nor a ledger, and its memory is bounded: the page shows at most ``MAX_NAMES`` counts. What
it has read of these is kept in ``report.npz``, so that a step is read again a limited number of times, however long the
stream is; whoever loses that file loses time.
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
import pyarrow.parquet as pq

from spark_jobs.application.streams.advance import hierarchy_of, mechanism
from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.streams import LocalLevelMethod
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.store.stream_objects import STEPS_FOLDER, STREAM_NAME
from spark_jobs.contract.store.views import overwrite_view
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.diagnostics.count_stream.summary import DEFAULT_CONFIDENCE, StreamHistory, joined, with_total
from spark_jobs.mechanisms.noise import laplace_scale
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.streams.hierarchy import HierarchyShape
from spark_jobs.mechanisms.streams.local_level import LocalLevelShape
from spark_jobs.publishing.stream_report import StreamFacts, stream_html

NAME, KEPT = "report.html", "report.npz"
MAX_NAMES = 24
TOTAL = "all states together"
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
            "folder", value=root, requirement="must be the folder of a stream, with stream.json in it",
            remedy="name the folder below output in which its steps are",
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
    overwrite_view(store, f"{root}/{NAME}", report(facts, whole.history, segments=len(segments)))
    return True


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownHistory:
    """What the page shows of the first segments.

    Attributes:
        places: of the counts of the request that it shows.
        selected_at: the number of the step at which they were selected.
        segments: how many segments.
        last: the name of the last of them.
        history: of the total, if there is one, and these counts.
    """

    places: tuple[int, ...]
    selected_at: int
    segments: int
    last: str
    history: StreamHistory

    @classmethod
    def begun(cls, segments: Sequence[str], read: Callable[[str], bytes], request: StreamRequest) -> Self:
        """That of the first segment; the newest one decides which of many counts are shown."""
        shown = shown_names(request, segment_history(read(segments[-1]), request).estimates)
        first = _shown(segment_history(read(segments[0]), request), request, shown)
        return cls(places=shown, selected_at=_first_step(segments[-1]), segments=1, last=segments[0], history=first)

    def is_of(self, segments: Sequence[str], request: StreamRequest) -> bool:
        """Whether it is a beginning of these segments, and what it shows is still a good choice.

        Of many counts the busiest are chosen again whenever the stream has doubled.
        """
        begins = self.segments <= len(segments) and segments[self.segments - 1] == self.last
        doubled = _first_step(segments[-1]) > 2 * self.selected_at
        return begins and (len(self.places) == len(request.names) or not doubled)

    def extended(self, segments: Sequence[str], read: Callable[[str], bytes], request: StreamRequest) -> Self:
        """The same with the segments that are new."""
        new = (segment_history(read(name), request) for name in segments[self.segments :])
        history = joined([self.history, *(_shown(one, request, self.places) for one in new)])
        return replace(self, segments=len(segments), last=segments[-1], history=history)

    def to_bytes(self, facts: StreamFacts) -> bytes:
        """What ``parse`` reads."""
        columns = {name: value for name, value in vars(self.history).items() if value is not None}
        written = io.BytesIO()
        np.savez_compressed(
            written, stream=_identity(facts), places=self.places, chosen=self.selected_at, segments=self.segments,
            last=self.last, **columns,
        )  # fmt: skip
        return written.getvalue()

    @classmethod
    def parse(cls, content: bytes, facts: StreamFacts) -> Self | None:
        """What was kept of this stream; None if these are no such bytes, whoever wrote them."""
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


def _first_step(segment: str) -> int:
    return int(segment.rpartition("/")[2].removesuffix(".parquet"))


def _identity(facts: StreamFacts) -> str:
    return f"1 {facts.request.sha256} {facts.charge_id}"


def published_segments(store: ObjectStore, root: str) -> tuple[str, ...]:
    """The names of the files of all visible segments, in order: of those with a manifest, and no gap before them."""
    names = {f"{STEPS_FOLDER}/{name.rpartition('/')[2]}" for name in store.names(f"{root}/{STEPS_FOLDER}")}
    return tuple(sorted(name for name in names if name.endswith(".parquet") and f"{name[:-8]}.json" in names))


def report(facts: StreamFacts, history: StreamHistory, *, segments: int) -> bytes:
    """The page of a stream, from what it shows of its steps, which come from so many segments."""
    page: Any = import_module("spark_jobs.diagnostics.count_stream.page")
    return stream_html(facts, page.render(history, facts.request), released=history.steps, segments=segments)


def segment_history(content: bytes, request: StreamRequest) -> StreamHistory:
    """What the file of a segment released, of all counts."""
    table = pq.read_table(io.BytesIO(content), columns=["noisy", "measured", "estimate", "lower", "upper"])
    shape = (-1, len(request.names))
    # a part that was not measured has no value, and had 0 in files of earlier versions
    filled = {name: table.column(name).fill_null(0) for name in ("noisy", "estimate")}
    columns = {name: filled.get(name, table.column(name)) for name in table.column_names}
    values = {name: column.to_numpy().reshape(shape) for name, column in columns.items()}
    banded = isinstance(mechanism(request), LocalLevelShape)
    measured = values["measured"].astype(np.bool_)
    return StreamHistory(
        names=request.names,
        noisy=values["noisy"].astype(np.int64),
        estimates=values["estimate"].astype(np.float64),
        lower=values["lower"] if banded else None,
        upper=values["upper"] if banded else None,
        measured=measured,
        scales=noise_scales(request, measured),
        terms=noise_terms(request),
    )


def noise_terms(request: StreamRequest) -> Int64Array:
    """Of how many variables the noise of each count is the sum: with ``local_level``, those of all states below it."""
    hierarchy = hierarchy_of(request) if isinstance(request.method, LocalLevelMethod) else None
    return np.ones(len(request.names), dtype=np.int64) if hierarchy is None else hierarchy.cells_below


def noise_scales(request: StreamRequest, measured: BoolArray) -> FloatArray:
    """The scale of the noise of each count, which is public: it depends on the request and on what was measured.

    A node of a hierarchy whose parts were not measured has the budget of all levels below it
    (``mechanisms.streams.hierarchy``).
    """
    shape, rows = mechanism(request), rows_changed(request.neighbours)
    if not isinstance(shape, HierarchyShape):
        epsilon = shape.counting if isinstance(shape, LocalLevelShape) else shape.perturbing
        return np.full(measured.shape, laplace_scale(epsilon, rows))
    levels = len(shape.sizes)
    by_levels = np.array([laplace_scale(shape.perturbing(max(paid, 1)), rows) for paid in range(levels + 1)])
    paid = np.ones(measured.shape, dtype=np.int64)
    starts = [0, *shape.cuts.tolist()]
    for depth, children in enumerate(reversed(shape.hierarchy.children)):
        sizes = np.asarray(children)
        first = starts[depth + 1] + np.cumsum(sizes) - sizes
        own = slice(starts[depth], starts[depth] + sizes.size)
        paid[:, own] = np.where(measured[:, first], 1, levels - depth)
    return by_levels[paid]


def shown_names(request: StreamRequest, estimates: FloatArray) -> tuple[int, ...]:
    """The places of the counts on the page: all of them, or whole upper levels and the busiest of the next one."""
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
    if len(request.names) == 1 or len(request.levels) > 1:
        return _only(history, places)
    method = request.method
    confidence = method.confidence if isinstance(method, LocalLevelMethod) else DEFAULT_CONFIDENCE
    total = with_total(history, name=TOTAL, confidence=confidence)
    return _only(total, [0, *(place + 1 for place in places)])


def _only(history: StreamHistory, places: Sequence[int]) -> StreamHistory:
    at = list(places)

    def part(values: Any) -> Any:
        return None if values is None else values[:, at]

    return StreamHistory(
        names=tuple(history.names[place] for place in at),
        noisy=part(history.noisy),
        estimates=part(history.estimates),
        lower=part(history.lower),
        upper=part(history.upper),
        measured=part(history.measured),
        scales=part(history.scales),
        terms=history.terms[at],
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report of the stream in a folder; the exit code is 2 for a folder without one."""
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
