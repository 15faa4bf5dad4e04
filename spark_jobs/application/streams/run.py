"""One run of a stream: the due steps are counted at once, drawn in segments, and stored one encrypted object after
another, each with the hash of the one before.

A segment is a run of consecutive steps in one object, so that a thousand steps that are due at once take a few objects
and entries in the ledger instead of a thousand. A step is in one object for ever: a segment begins where the last one
ends, its name is the number of its first step, and of two objects of one name the store keeps one. What is in the store
already is adopted, whoever wrote it, and never drawn again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_jobs.application.draft import versions
from spark_jobs.application.progress import Announcer
from spark_jobs.application.refusal_guard import RecordingNoise, forbid_refusal
from spark_jobs.application.streams.advance import advance, spendings, start_state
from spark_jobs.application.streams.files import segment_files
from spark_jobs.application.streams.state import CountStreamState
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.privacy import exact_sum, plain
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ApplicationStage
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.sealing import Seal, SealBroken, sha256
from spark_jobs.contract.store.stream_objects import (
    SegmentPlace,
    StreamLayout,
    StreamSegment,
    pack_files,
)
from spark_jobs.contract.stream_keys import StreamKeys
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.mechanisms.noise import Noise

SEGMENT_CELLS = 1 << 17
"""The most released counts of one object; it bounds its size, however many steps are due."""

Counter = Callable[[StreamRequest, int, int, Announcer], Int64Array]
"""Counts the steps from a first one to one that is excluded; an array of shape (steps, states)."""


@dataclass(frozen=True, kw_only=True)
class StreamTask:
    """What the committer asks of a run.

    Attributes:
        key: the stream's key.
        seal: the committer's seal.
        first, until: the number of the first step that the ledger has not recorded, and of the one to stop before.
        segment, previous: the first step and the hash of the last recorded object.
        document_sha256: hash of the run's request.
    """

    key: str
    seal: Seal
    first: int
    until: int
    segment: int
    previous: str
    document_sha256: str


@dataclass(frozen=True, kw_only=True)
class _Position:
    """How far the stream's objects reach, with the state there."""

    next: int
    previous: str
    state: CountStreamState


def run_stream(
    request: StreamRequest,
    task: StreamTask,
    *,
    output: str,
    store: ObjectStore,
    keys: StreamKeys,
    noise: Noise,
    count: Counter,
    announcer: Announcer,
) -> None:
    """Store the objects of all steps before ``task.until``, whatever earlier runs have stored.

    Raises:
        InvalidRequest: the request, its table, a key or the stored state does not fit; no row was read.
        RefusedTooLateError: something was refused after noise had been drawn.
        SealBroken: an object in the store is damaged.
    """
    _require_charged(request, task)
    preflight(request)
    layout = StreamLayout.of(output, task.key, task.seal.charge_id)
    position = _followed(_recorded(request, task, store, layout, keys), request, task, store, layout, keys)
    if position.next >= task.until:
        return
    base = position.next
    counts = count(request, base, task.until, announcer)
    announcer.stage(ApplicationStage.DRAWING)
    recording = RecordingNoise(noise)
    size = max(1, SEGMENT_CELLS // len(request.names))
    while position.next < task.until:
        end = min(position.next + size, task.until)
        failpoint("before_draw")
        with forbid_refusal():
            content = _draw(request, task, position, counts[position.next - base : end - base], recording, keys)
        failpoint("after_draw")
        failpoint("before_store_steps")
        # only the stored object counts: if another run was first, this noise is discarded
        store.create(layout.segment(position.next), content)
        failpoint("after_store_steps")
        position = _followed(position, request, task, store, layout, keys)


def _require_charged(request: StreamRequest, task: StreamTask) -> None:
    if request.sha256 != task.document_sha256 or request.charged_sha256 != task.seal.request_sha256:
        raise InvalidRequest(
            "request", requirement="must be the one that was charged, and the store holds another",
            remedy="find out who wrote it, or install the same version of this package on both sides",
        )  # fmt: skip
    if not request.table.is_bound:
        raise InvalidRequest(
            "table", requirement="must have its account's terms in a charged run",
            remedy="leave charged runs to `dp-budget stream` or the operator",
        )  # fmt: skip


def _recorded(
    request: StreamRequest, task: StreamTask, store: ObjectStore, layout: StreamLayout, keys: StreamKeys
) -> _Position:
    """The position that the ledger has recorded, with the state of the object that has its hash."""
    if task.first == 0:
        return _Position(next=0, previous=task.previous, state=start_state(request))
    content = store.read(layout.segment(task.segment))
    if content is None or sha256(content) != task.previous:
        raise InvalidRequest(
            "state", value=f"before step {task.first}",
            requirement="must be the one that the ledger recorded, and the store has lost or replaced it",
            remedy="restore that object, or begin a new stream under another key",
        )  # fmt: skip
    return _opened(StreamSegment.parse(content, key=task.key), request, task, keys)


def _followed(
    position: _Position,
    request: StreamRequest,
    task: StreamTask,
    store: ObjectStore,
    layout: StreamLayout,
    keys: StreamKeys,
) -> _Position:
    """The position after the objects that follow in the store, which no ledger needs to have recorded yet."""
    while (content := store.read(layout.segment(position.next))) is not None:
        segment = StreamSegment.parse(content, key=task.key)
        if (segment.place.first, segment.place.previous) != (position.next, position.previous):
            raise SealBroken("an object of the stream does not follow the one before")
        position = _opened(segment, request, task, keys)
    return position


def _opened(segment: StreamSegment, request: StreamRequest, task: StreamTask, keys: StreamKeys) -> _Position:
    state = CountStreamState.from_bytes(segment.open_state(keys, task.seal), request)
    return _Position(next=segment.ends, previous=segment.sha256, state=state)


def _draw(
    request: StreamRequest,
    task: StreamTask,
    position: _Position,
    counts: Int64Array,
    noise: RecordingNoise,
    keys: StreamKeys,
) -> bytes:
    """The encrypted object of the next steps: fresh noise, the state after them, and what is published of them."""
    state, releases = advance(request, position.state, counts, noise=noise)
    place = SegmentPlace(key=task.key, first=position.next, steps=len(counts), previous=position.previous)
    spent = spendings(request)
    cost = exact_sum(*(spending.epsilon for spending in spent)) * request.unit.max_rows
    facts: dict[str, Any] = {
        "charge_id": task.seal.charge_id,
        "request_sha256": task.seal.request_sha256,
        "guarantee": state.guarantee,
        "cost": {"epsilon": plain(cost), "delta": "0"},
        "events": [{"diagnostic": request.kind, **spending.to_dict()} for spending in spent],
        "noise": [noise.take_largest()],
        "drawn_at": dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z"),
        "versions": versions(),
    }
    files = segment_files(request, place, releases, facts=facts)
    return StreamSegment.close(
        place, state=state.to_bytes(request), release=pack_files(facts, files), keys=keys, seal=task.seal
    ).content


def count_with_spark(master: str | None) -> Counter:
    """A counter that opens a Spark session, counts in one job, and closes it."""

    def count(request: StreamRequest, first: int, until: int, announcer: Announcer) -> Int64Array:
        from spark_jobs.application.session import open_session
        from spark_jobs.application.streams.counting import count_steps, prepare_steps
        from spark_jobs.checks.input import warm_up

        announcer.stage(ApplicationStage.STARTING)
        warm_up()
        spark = open_session(master)
        try:
            announcer.stage(ApplicationStage.READING)
            failpoint("before_read")
            rows = prepare_steps(spark, request)
            failpoint("after_read")
            announcer.stage(ApplicationStage.COUNTING)
            failpoint("before_count")
            counts = count_steps(rows, request, first=first, steps=until - first).counts
            failpoint("after_count")
        finally:
            spark.stop()
        return np.asarray(counts, dtype=np.int64)

    return count
