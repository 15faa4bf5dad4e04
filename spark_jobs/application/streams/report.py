"""The report of a stream, from what was published of it: ``python -m spark_jobs.application.streams.report FOLDER``.

It reads ``stream.json`` and the Parquet files of the steps in the stream's folder, and writes ``report.html`` beside
them. It needs neither Spark nor a ledger, and its memory is bounded: the page shows at most ``MAX_NAMES`` counts.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from spark_jobs.application.streams.advance import mechanism
from spark_jobs.arrays import BoolArray, FloatArray
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

NAME = "report.html"
MAX_NAMES = 24
TOTAL = "all states together"
_MAX_VALUES = 1 << 22


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

    page = report(facts, map(read, segments), newest=read(segments[-1]), segments=len(segments))
    overwrite_view(store, f"{root}/{NAME}", page)
    return True


def published_segments(store: ObjectStore, root: str) -> tuple[str, ...]:
    """The names of the files of all visible segments, in order: of those with a manifest, and no gap before them."""
    names = {f"{STEPS_FOLDER}/{name.rpartition('/')[2]}" for name in store.names(f"{root}/{STEPS_FOLDER}")}
    return tuple(sorted(name for name in names if name.endswith(".parquet") and f"{name[:-8]}.json" in names))


def report(facts: StreamFacts, contents: Iterable[bytes], *, newest: bytes, segments: int) -> bytes:
    """The page of a stream, from the Parquet files of its steps.

    Args:
        facts: the public facts of the stream.
        contents: the files, in order; read one after the other.
        newest: the last of them, which decides what is shown of many counts.
        segments: how many they are.
    """
    request = facts.request
    shown = shown_names(request, segment_history(newest, request).estimates)
    history = joined([_shown(segment_history(content, request), request, shown) for content in contents])
    page: Any = import_module("spark_jobs.diagnostics.count_stream.page")
    return stream_html(facts, page.render(history, request), released=history.steps, segments=segments)


def segment_history(content: bytes, request: StreamRequest) -> StreamHistory:
    """What the file of a segment released, of all counts."""
    table = pq.read_table(io.BytesIO(content), columns=["noisy", "measured", "estimate", "lower", "upper"])
    shape = (-1, len(request.names))
    values = {name: table.column(name).to_numpy().reshape(shape) for name in table.column_names}
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
        terms=np.ones(len(request.names), dtype=np.int64),
    )


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
