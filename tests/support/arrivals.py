"""Streams that are followed without Spark: rows with times of arrival, in micro-batches as Spark plans them."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dp_operators.releasing.charged_terms import ChargedRequest
from dp_operators.releasing.stream_attempts import AdvancedStream
from dp_operators.releasing.streams import follow_stream as follow
from spark_jobs.application.progress import Announcer
from spark_jobs.application.streams.chain import ObjectChain
from spark_jobs.application.streams.follow import Take, follow_stream
from spark_jobs.arrays import Int64Array
from tests.support.stream_lab import KEY, StreamLab, StreamRunner

HOUR = dt.timedelta(hours=1)
FOLLOWED = {"steps": 6, "follow": {"delay": "30 minutes"}}


@dataclass(frozen=True)
class Row:
    """A row that counts in a step and a state, and arrives so many hours after the stream began."""

    step: int
    state: int
    arrives: float


@dataclass
class LabClock:
    """A clock that jumps to what is waited for."""

    time: dt.datetime

    def now(self) -> dt.datetime:
        return self.time

    def wait(self, until: dt.datetime) -> None:
        self.time = max(self.time, until)


@dataclass
class LoggedBatches:
    """Micro-batches of rows, with a log in a folder that is kept as Spark keeps its checkpoint.

    A micro-batch is planned before it is read, and has all rows that had arrived by then; one that is planned and not
    committed comes first.
    """

    rows: list[Row]
    folder: Path
    clock: LabClock
    began: dt.datetime
    states: int
    present: str = "files and sizes"

    def read(self, take: Take) -> str:
        for name in ("offsets", "commits", "sources/0"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        metadata = self.folder / "metadata"
        if not metadata.exists():
            metadata.write_text(json.dumps({"id": f"query-{metadata.parent.stat().st_ino:020d}"}))
        identity = json.loads(metadata.read_text())["id"]
        planned = sorted(int(path.name) for path in (self.folder / "offsets").iterdir())
        last = planned[-1] if planned else -1
        if last >= 0 and not (self.folder / "commits" / str(last)).exists() and not self._give(take, identity, last):
            return identity
        hours = (self.clock.now() - self.began) / HOUR
        seen = {place for batch in range(last + 1) for place in self._plan(batch)}
        new = [place for place, row in enumerate(self.rows) if row.arrives <= hours and place not in seen]
        if new:
            entries = [{"path": f"row-{place}", "timestamp": 0, "batchId": last + 1} for place in new]
            (self.folder / "sources" / "0" / str(last + 1)).write_text("\n".join(["v1", *map(json.dumps, entries)]))
            (self.folder / "offsets" / str(last + 1)).write_text(f'v1\n{{}}\n{{"logOffset":{last + 1}}}')
            self._give(take, identity, last + 1)
        return identity

    def _plan(self, batch: int) -> list[int]:
        """The places of the rows of a micro-batch, in the form of Spark's log of files."""
        lines = (self.folder / "sources" / "0" / str(batch)).read_text().splitlines()[1:]
        return [int(json.loads(line)["path"].removeprefix("row-")) for line in lines]

    def _give(self, take: Take, identity: str, batch: int) -> bool:
        places = self._plan(batch)

        def count(first: int, steps: int) -> Int64Array:
            counts = np.zeros((steps, self.states), dtype=np.int64)
            for row in (self.rows[place] for place in places):
                if first <= row.step < first + steps:
                    counts[row.step - first, row.state] += 1
            return counts

        if not take(identity, batch, lambda: self.present, count):
            return False
        (self.folder / "commits" / str(batch)).touch()
        return True


@dataclass
class FollowRunner(StreamRunner):
    """Runs the application of a stream that is followed in this process, or in a fork that a failpoint kills."""

    rows: list[Row] = field(default_factory=list)
    clock: LabClock = field(default_factory=lambda: LabClock(dt.datetime.now(dt.UTC)))
    batches: type[LoggedBatches] = LoggedBatches

    def release(self, chain: ObjectChain, announcer: Announcer) -> None:
        batches = self.batches(
            self.rows, Path(chain.task.checkpoint), self.clock, chain.request.first_instant, self.counts.shape[1]
        )
        follow_stream(chain, open_batches=partial(nullcontext, batches), clock=self.clock, announcer=announcer)


@dataclass
class FollowLab(StreamLab):
    """A lab whose stream is followed; its clock starts with the stream and goes on from one attempt to the next."""

    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.changes = {**FOLLOWED, **self.changes}
        super().__post_init__()
        self.clock = LabClock(self.request.first_instant)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def follow_runner(self, **changes: Any) -> FollowRunner:
        return FollowRunner(**{"counts": self.counts, "rows": self.rows, "clock": self.clock, **changes})

    def follow(self, *, until: float | None = None, runner: Any = None, **changes: Any) -> AdvancedStream:
        """An attempt in this process that ends ``until`` hours after the stream began, or with the stream."""
        ledger = self.ledger()
        try:
            return follow(
                ChargedRequest.of(changes.pop("request", self.request), ledger, KEY),
                runner=runner or self.follow_runner(),
                checkpoint=changes.pop("checkpoint", str(self.checkpoints)),
                until=None if until is None else self.request.first_instant + until * HOUR,
                actor="tester",
                **changes,
            )
        finally:
            ledger.close()

    def expected(self) -> Int64Array:
        """What a stream that never stands still counts: each row that arrives before its step is closed."""
        counts = np.zeros((self.request.steps, len(self.request.leaf_names)), dtype=np.int64)
        for row in self.rows:
            closes = (self.request.closes(row.step) - self.request.first_instant) / HOUR
            counts[row.step, row.state] += row.arrives <= closes
        return counts
