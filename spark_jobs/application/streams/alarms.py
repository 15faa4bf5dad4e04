"""The alarms of all monitors of a stream over every count that it releases: ``alarms.parquet`` and ``alarms.json``.

Alarms are evaluated in the runs that advance steps, from published files alone, and so at no cost. The report shows
some of the counts; the monitors watch all of them, and the total of states without groups. For each monitor, with
probability ``confidence`` no alarm is false at any step and count of the stream
(``diagnostics.count_stream.monitors``).

Both files follow from published files. If they are lost, the next run writes them again. Only new steps are evaluated,
with as many steps before them as the longest window needs.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.application.streams.released import (
    confidence_of,
    first_step,
    history_with_total,
    segment_history,
)
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.stream_alarms import MAX_LISTED, SUMMARY, ListedAlarm, StreamAlarms
from spark_jobs.contract.store.views import overwrite_view
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.diagnostics.count_stream.monitors import Raised, certain_steps, runs
from spark_jobs.diagnostics.count_stream.summary import StreamHistory, joined
from spark_jobs.publishing.data_files import parquet_bytes
from spark_jobs.publishing.rendering import Column
from spark_jobs.publishing.stream_report import StreamFacts

ALARMS = "alarms.parquet"
_BLOCK = 1 << 21
"""The most counts that are looked at together; a block has whole columns of counts."""
_COLUMNS = ("monitor", "name", "first", "last", "figure")


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The alarms up to a step.

    Attributes:
        steps: the number of steps that were evaluated.
        raised: all alarms, by monitor, count and first step.
    """

    steps: int = 0
    raised: tuple[Raised, ...] = ()


def write_alarms(
    store: ObjectStore, root: str, facts: StreamFacts, segments: Sequence[str], read: Callable[[str], bytes]
) -> tuple[Raised, ...]:
    """Evaluate the new steps, and write both files in place of the earlier ones; return all alarms.

    Args:
        store: holds the stream's folder ``root``.
        root: URI of the stream's folder.
        facts: the stream's facts.
        segments: the names of the stream's published files, in order.
        read: reads one of these files.

    Raises:
        OSError: the store failed.
    """
    known = parse_alarms(store.read(f"{root}/{ALARMS}") or b"", facts)
    watched = watch(known, segments, read, facts.request)
    overwrite_view(store, f"{root}/{ALARMS}", alarms_bytes(watched, facts))
    overwrite_view(store, f"{root}/{SUMMARY}", summary(watched, facts.request).to_json())
    return watched.raised


def watch(known: Watched, segments: Sequence[str], read: Callable[[str], bytes], request: StreamRequest) -> Watched:
    """The alarms after the steps of all segments.

    Args:
        known: the alarms up to an earlier step of the stream.
        segments: the names of all published files, in order.
        read: reads one of these files.
        request: the stream's request.
    """
    needed = max(monitor.steps_needed for monitor in request.monitors) - 1
    steps, raised = known.steps, list(known.raised)
    newest = {(one.monitor, one.name): place for place, one in enumerate(raised)}
    context: StreamHistory | None = None
    begins = 0
    for begins, history in _histories(segments, read, request, start=max(0, steps - needed)):
        whole = history if context is None else joined([context, history])
        offset = begins + history.steps - whole.steps
        if begins + history.steps > steps:
            for one in _new(whole, request, offset=offset, after=steps):
                _add(raised, newest, one)
            steps = begins + history.steps
        context = whole.part(steps=slice(-needed, None)) if needed else None
    order = sorted(raised, key=lambda one: (one.monitor, one.name, one.first))
    return Watched(steps=steps, raised=tuple(order))


def _histories(
    segments: Sequence[str], read: Callable[[str], bytes], request: StreamRequest, *, start: int
) -> Iterator[tuple[int, StreamHistory]]:
    """The first step and the history of each segment that has a step from ``start`` on."""
    firsts = [first_step(name) for name in segments]
    ends = [after for _, after in pairwise(firsts)] + [request.steps]
    for name, first, end in zip(segments, firsts, ends, strict=True):
        if end > start:
            yield first, history_with_total(segment_history(read(name), request), request)


def _new(history: StreamHistory, request: StreamRequest, *, offset: int, after: int) -> Iterator[Raised]:
    """The alarms at steps from ``after`` on; the history begins at the step ``offset``."""
    comparisons = request.steps * len(history.names)
    width = max(1, _BLOCK // max(history.steps, 1))
    for start in range(0, len(history.names), width):
        block = history.part(places=slice(start, start + width))
        for number, monitor in enumerate(request.monitors):
            steps, holds, figures = certain_steps(
                block, monitor, confidence=confidence_of(request), comparisons=comparisons
            )
            new = steps + offset >= after
            for alarm in reversed(runs(steps[new] + offset, holds[new], figures[new])):
                yield Raised(
                    monitor=number, name=alarm.name + start, first=alarm.first, last=alarm.last, figure=alarm.figure
                )


def _add(raised: list[Raised], newest: dict[tuple[int, int], int], one: Raised) -> None:
    """Add an alarm, or lengthen the one that lasted until the step before; alarms of a count come in order."""
    place = newest.get((one.monitor, one.name))
    if place is not None and raised[place].last == one.first - 1:
        raised[place] = replace(raised[place], last=one.last, figure=one.figure)
        return
    newest[one.monitor, one.name] = len(raised)
    raised.append(one)


def alarms_bytes(watched: Watched, facts: StreamFacts) -> bytes:
    """``alarms.parquet``: one row for each alarm; the schema's metadata name the stream and the number of steps."""
    request, names = facts.request, facts.request.watched_names
    whole = {name: np.array([getattr(one, name) for one in watched.raised], dtype=np.int64) for name in _COLUMNS}
    monitors = [request.monitors[one.monitor] for one in watched.raised]
    start, length = np.datetime64(request.start.removesuffix("Z"), "us"), np.timedelta64(request.step_length)
    columns = {
        "monitor": Column(values=whole["monitor"], meaning="its place in the request, from 0"),
        "condition": Column(values=_texts(one.describe() for one in monitors), meaning="in words"),
        "state": Column(values=_texts(names[one.name] for one in watched.raised), meaning="the count"),
        "first": Column(values=whole["first"], meaning="the number of the first step at which it holds"),
        "last": Column(values=whole["last"], meaning="the number of the last one"),
        "begins": Column(values=start + whole["first"] * length, meaning="the first instant of the first step, in UTC"),
        "ends": Column(values=start + (whole["last"] + 1) * length, meaning="the instant at which the last step ends"),
        "figure": Column(values=whole["figure"], meaning="the noisy sum or change at the last step"),
        "in_force": Column(values=whole["last"] == watched.steps - 1, meaning="whether the last step is the newest"),
    }
    return parquet_bytes(columns, metadata={"stream": _identity(facts), "steps": str(watched.steps)})


def parse_alarms(content: bytes, facts: StreamFacts) -> Watched:
    """The alarms that ``alarms_bytes`` wrote for this stream; of no step if the bytes are anything else."""
    names, monitors = facts.request.watched_names, len(facts.request.monitors)
    try:
        table = pq.read_table(io.BytesIO(content))
        metadata = table.schema.metadata or {}
        if metadata[b"stream"].decode() != _identity(facts):
            return Watched()
        places = {name: place for place, name in enumerate(names)}
        rows = table.select(["monitor", "state", "first", "last", "figure"]).to_pylist()
        raised = tuple(
            Raised(
                monitor=int(row["monitor"]), name=places[row["state"]], first=int(row["first"]),
                last=int(row["last"]), figure=int(row["figure"]),
            )
            for row in rows
        )  # fmt: skip
        steps = int(metadata[b"steps"])
    except (pa.ArrowException, ValueError, KeyError, TypeError, OSError):
        return Watched()
    sound = all(one.monitor < monitors and 0 <= one.first <= one.last < steps for one in raised)
    return Watched(steps=steps, raised=raised) if sound and 0 <= steps <= facts.request.steps else Watched()


def summary(watched: Watched, request: StreamRequest) -> StreamAlarms:
    """The fields of ``alarms.json``."""
    names, newest, monitors = request.watched_names, watched.steps - 1, range(len(request.monitors))
    order = sorted(watched.raised, key=lambda one: (-one.last, -one.first, one.monitor, one.name))
    return StreamAlarms(
        steps=watched.steps,
        watched=len(names),
        holds=tuple(sum(one.monitor == number and one.last == newest for one in order) for number in monitors),
        raised=len(order),
        newest=tuple(
            ListedAlarm(
                monitor=one.monitor,
                condition=request.monitors[one.monitor].describe(),
                state=names[one.name],
                first=one.first,
                last=one.last,
                since=request.step_begins(one.first).isoformat().replace("+00:00", "Z"),
                figure=one.figure,
                in_force=one.last == newest,
            )
            for one in order[:MAX_LISTED]
        ),
    )


def _texts(values: Iterator[str]) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    listed = list(values)
    texts = np.empty(len(listed), dtype=object)
    texts[:] = listed
    return texts


def _identity(facts: StreamFacts) -> str:
    return f"1 {facts.request.sha256} {facts.charge_id}"
