"""The chain of a stream's objects as the application sees it: where it ends, and how it grows.

A segment is one object with consecutive steps. If a thousand steps are due at once, they take a few objects and ledger
entries instead of a thousand. No step is in two objects: a segment begins where the previous segment ends, and is named
by the number of its first step; if two objects have the same name, the store keeps the first. Objects that are in the
store already are adopted, whichever run wrote them, and their steps are never drawn again.
"""

from __future__ import annotations

import datetime as dt
import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Self

from spark_jobs.application.charged import require_charged
from spark_jobs.application.draft import versions
from spark_jobs.application.refusal_guard import RecordingNoise, forbid_refusal
from spark_jobs.application.streams.advance import advance, spendings, start_state
from spark_jobs.application.streams.files import segment_files
from spark_jobs.application.streams.state import CountStreamState, OpenCounts
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.privacy import exact_sum, plain
from spark_jobs.contract.salt import read_salt
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import SALT_VARIABLE
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.sealing import Seal, SealBroken, sha256
from spark_jobs.contract.store.stream_objects import SegmentPlace, StreamLayout, StreamSegment, pack_files
from spark_jobs.contract.stream_keys import StreamKeys
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.version_order import require_not_back
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.statistics.unit_use import UnitUse

SEGMENT_CELLS = 1 << 17
"""The most released counts of one object; it bounds its size, however many steps are due."""


@dataclass(frozen=True, kw_only=True)
class StreamTask:
    """What the committer requests from a run.

    Attributes:
        key: the stream's key.
        seal: the committer's seal.
        first: the number of the first step that the ledger has not recorded.
        until: the number of the step before which the run stops.
        segment: the number of the first step in the last recorded object.
        previous: the hash of the last recorded object.
        document_sha256: hash of the run's request.
        checkpoint: URI of Spark's checkpoint, for a stream that is followed; otherwise empty.
    """

    key: str
    seal: Seal
    first: int
    until: int
    segment: int
    previous: str
    document_sha256: str
    checkpoint: str = ""


@dataclass(frozen=True, kw_only=True)
class Position:
    """How far the stream's objects reach, with the state there, and whether this run stored the last of them."""

    next: int
    previous: str
    state: CountStreamState
    own: bool = False


@dataclass(frozen=True, kw_only=True)
class ObjectChain:
    """The objects of one stream in the store.

    Attributes:
        request: the stream's request.
        task: what the committer requests from this run.
        store, layout: where the objects are.
        keys: the keys that encrypt the state.
        noise: sampler of the mechanism's noise.
        unit_salt: the stream's own salt, by which the rows of a unit are ordered and hashed; empty if every row is a
            unit.
        embedded: whether the embedded engine counts the steps of this run; the objects record it.
    """

    request: StreamRequest
    task: StreamTask
    store: ObjectStore
    layout: StreamLayout
    keys: StreamKeys
    noise: RecordingNoise
    unit_salt: bytes = field(default=b"", repr=False)
    embedded: bool = False

    @classmethod
    def open(
        cls,
        request: StreamRequest,
        task: StreamTask,
        *,
        output: str,
        store: ObjectStore,
        keys: StreamKeys,
        noise: Noise,
        salt: Callable[[], bytes] = lambda: read_salt(os.environ),
        embedded: bool = False,
    ) -> Self:
        """The chain of the stream that ``task`` names.

        Raises:
            InvalidRequest: the request is not the one that was charged, or cannot be released; or it needs a salt, and
                there is none.
        """
        require_charged(request, task.seal, document_sha256=task.document_sha256, command="dp-budget stream")
        preflight(request)
        layout = StreamLayout.of(output, task.key, task.seal.charge_id)
        bound = f"dp-diagnostics stream {task.seal.request_sha256}".encode()
        own = b"" if request.unit.column is None else hmac.digest(salt(), bound, "sha256")
        noise = RecordingNoise(noise)
        return cls(
            request=request, task=task, store=store, layout=layout, keys=keys, noise=noise, unit_salt=own,
            embedded=embedded,
        )  # fmt: skip

    @property
    def segment_steps(self) -> int:
        """The largest number of steps in one object."""
        return max(1, SEGMENT_CELLS // len(self.request.names))

    def end(self) -> Position:
        """The position after the last object in the store, which the ledger need not have recorded yet.

        Raises:
            InvalidRequest: the recorded object is lost, or a key is missing.
            SealBroken: an object in the store is damaged.
        """
        return self.followed(self._recorded())

    def followed(self, position: Position) -> Position:
        """The position after the objects that follow ``position`` in the store.

        Raises:
            SealBroken: one of the objects is damaged, or does not follow the one before.
        """
        while (content := self.store.read(self.layout.segment(position.next))) is not None:
            segment = StreamSegment.parse(content, key=self.task.key)
            if (segment.place.first, segment.place.previous) != (position.next, position.previous):
                raise SealBroken("an object of the stream does not follow the one before")
            position = self._opened(segment)
        return position

    def require_not_back(self, position: Position) -> None:
        """Refuse a version of the table that is earlier than the one that was read last.

        Raises:
            InvalidRequest: the version is earlier.
        """
        table = self.request.table
        require_not_back(table.version_order, before=position.state.version, now=table.snapshot.name)

    def append(
        self,
        position: Position,
        counts: Int64Array,
        *,
        left_open: OpenCounts | None = None,
        use: UnitUse | None = None,
    ) -> Position:
        """Draw the steps with these counts, store them as the next object, and return the new end of the chain.

        If another run has stored an object of the same name first, that object becomes the next one, and the values
        drawn here are discarded.

        Args:
            position: the end of the chain.
            counts: exact counts of the next steps, shape (steps, states).
            left_open: counts of the steps after these, which the object keeps for later segments.
            use: how many rows of each unit were used up to the end of these steps, if the stream keeps these numbers.

        Raises:
            RefusedTooLateError: something was refused after noise had been drawn.
        """
        kept = replace(position.state, open=left_open, use=use)
        failpoint("before_draw")
        with forbid_refusal():
            drawn, content = self._draw(replace(position, state=kept), counts)
        failpoint("after_draw")
        failpoint("before_store_steps")
        created = self.store.create(self.layout.segment(position.next), content)
        failpoint("after_store_steps")
        return drawn if created else self.followed(position)

    def _recorded(self) -> Position:
        """The position that the ledger has recorded, with the state of the object that has its hash."""
        if self.task.first == 0:
            state = replace(start_state(self.request), salt_check=self._salt_check)
            return Position(next=0, previous=self.task.previous, state=state)
        content = self.store.read(self.layout.segment(self.task.segment))
        if content is None or sha256(content) != self.task.previous:
            raise InvalidRequest(
                "state", f"before step {self.task.first}",
                "must be the state that the ledger recorded, but the store has lost or replaced this state",
                "restore the object of the state, or begin a new stream under another key",
            )  # fmt: skip
        return self._opened(StreamSegment.parse(content, key=self.task.key))

    def _opened(self, segment: StreamSegment) -> Position:
        content = segment.open_state(self.keys, self.task.seal)
        # the hash of the request, as ``open`` has checked
        state = CountStreamState.from_bytes(content, self.task.seal.request_sha256)
        if state.salt_check not in ("", self._salt_check):
            raise InvalidRequest(
                SALT_VARIABLE, None,
                "must be the salt with which the stream began, because another salt gives every unit another name",
                "mount the first salt again, or begin a new stream under another key",
            )  # fmt: skip
        return Position(next=segment.ends, previous=segment.sha256, state=state)

    @property
    def _salt_check(self) -> str:
        return hmac.digest(self.unit_salt, b"dp-diagnostics salt", "sha256").hex() if self.unit_salt else ""

    def _draw(self, position: Position, counts: Int64Array) -> tuple[Position, bytes]:
        """The encrypted object of the next steps: fresh noise, the state after them, and what is published of them.

        Returns:
            The position after the object, if it is the one that the store keeps; and the object.
        """
        request, task = self.request, self.task
        # the ledger counts in rows of a unit, of which each may change the counts by more than one
        loss = Decimal(request.rows_paid // request.unit.max_rows)
        state, releases = advance(request, position.state, counts, noise=self.noise)
        place = SegmentPlace(key=task.key, first=position.next, steps=len(counts), previous=position.previous)
        spent = [replace(spending, epsilon=spending.epsilon * loss) for spending in spendings(request)]
        cost = exact_sum(*(spending.epsilon for spending in spent)) * request.unit.max_rows
        facts: dict[str, Any] = {
            "charge_id": task.seal.charge_id,
            "request_sha256": task.seal.request_sha256,
            "guarantee": state.guarantee,
            "cost": {"epsilon": plain(cost), "delta": "0"},
            "events": [{"diagnostic": request.kind, **spending.to_dict()} for spending in spent],
            "noise": [self.noise.take_largest(times=loss)],
            "snapshot": request.table.snapshot.model_dump(mode="json", exclude_none=True),
            "drawn_at": dt.datetime.now(dt.UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z"),
            "versions": versions(embedded=self.embedded),
        }
        files = segment_files(request, place, releases, facts=facts)
        state = replace(state, version=request.table.snapshot.name)
        segment = StreamSegment.close(
            place,
            state=state.to_bytes(task.seal.request_sha256),
            release=pack_files(facts, files),
            keys=self.keys,
            seal=task.seal,
        )
        return Position(next=segment.ends, previous=segment.sha256, state=state, own=True), segment.content
