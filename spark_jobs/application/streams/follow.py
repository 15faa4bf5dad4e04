"""A stream that is followed: rows are counted when they arrive, and the clock closes steps; no Spark.

At the instants at which the clock says that steps are to be closed (``StreamRequest.closes``), one *tick* does three
things. It reads, in micro-batches, the rows that have arrived since the last tick; it adds their counts to the counts
of the open steps; and it stores the steps that are closed, together with the counts that stay open, as one encrypted
object of the stream's chain. Open counts are nowhere else: the query has no state, and Spark's checkpoint names files
and batches.

*Neighbours and cost.* One row is added, removed or replaced. The cost is that of ``streams.advance``, because a row is
counted at most once, in the step of its own time. A row is counted when its micro-batch is read, unless its step was
closed before or is out of reach (``StreamRequest.steps_within_reach``). Whether a step is closed or out of reach
depends on the clock alone, never on other rows. The clock also decides which rows share a micro-batch, as nothing
limits how much a micro-batch reads.

*Exactly once.* Spark plans a micro-batch in the checkpoint before it reads the rows, and reads the same micro-batch
again until ``take`` allows its commit. The stored object is the record of what was counted: its state names the last
micro-batch that it contains, with the hash of all that was planned up to this micro-batch (``SourceLog.history``).
Micro-batches up to this one are not counted again. If a checkpoint has planned other files for them, it is a diverged
copy, and is refused before a row is counted. Before an object is stored, the plans and the sizes of the files are
checked again. After a tick the last micro-batch stays uncommitted on purpose: no other is planned before the next tick,
and a killed tick leaves the same situation as a finished one.

*One follower.* If several processes follow one stream, the first to store a step continues, and the others end.

*What the store shows.* Each tick stores one object for its first step and, if it is late, objects for the other closed
steps. The number and the length of the objects do not depend on whether rows arrived, how many, and in how many
micro-batches.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

from spark_jobs.application.progress import Announcer
from spark_jobs.application.streams.chain import ObjectChain, Position
from spark_jobs.application.streams.source_log import LogMissingError, SourceLog
from spark_jobs.application.streams.state import OpenCounts
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.preflight import MAX_STATE
from spark_jobs.contract.store.layout import ApplicationStage
from spark_jobs.contract.store.objects import open_store
from spark_jobs.contract.store.run_statement import OvertakenError

Count = Callable[[int, int], Int64Array]
"""Counts the rows of a micro-batch in so many steps from a first one on; an array of shape (steps, states)."""
Files = Callable[[], str]
"""A digest of the files of a micro-batch as they are now, with their sizes and times of change."""
Take = Callable[[str, int, Files, Count], bool]
"""Takes a micro-batch: the identity of its query, its number, its files and rows; False if it is the last for now."""

_LONGEST_SLEEP = 60.0


class MicroBatches(Protocol):
    """Rows in micro-batches that are numbered from 0, planned in a durable log before they are read."""

    def read(self, take: Take) -> str:
        """Give micro-batches to ``take``: first the uncommitted one, if any, then all new rows.

        A micro-batch is committed when ``take`` has returned True for it. Otherwise the reading ends, and the same
        micro-batch is the first of the next reading.

        Returns:
            The identity of the query, the same in all readings of one log.
        """


class Clock(Protocol):
    """The public clock that closes steps."""

    def now(self) -> dt.datetime:
        """The time, with a zone."""

    def wait(self, until: dt.datetime) -> None:
        """Return at the given time, or at once if it has passed."""


class WallClock:
    """The clock of this machine."""

    def now(self) -> dt.datetime:
        """The time in UTC."""
        return dt.datetime.now(dt.UTC)

    def wait(self, until: dt.datetime) -> None:
        """Sleep until the given time, even if the clock is set meanwhile."""
        while (left := (until - self.now()).total_seconds()) > 0:
            time.sleep(min(left, _LONGEST_SLEEP))


class ChangedError(Exception):
    """The files that a tick reads changed while it counted, so its counts are unreliable; nothing is stored."""


def follow_stream(
    chain: ObjectChain,
    *,
    open_batches: Callable[[], AbstractContextManager[MicroBatches]],
    clock: Clock,
    announcer: Announcer,
) -> None:
    """Store the objects of all steps up to ``StreamTask.until``, each step when the clock closes it.

    Args:
        chain: the stream's objects.
        open_batches: opens the source of rows.
        clock: closes the steps.
        announcer: receives the public stages.

    Raises:
        InvalidRequest: the request, its table, a key, the stored state or the checkpoint does not fit; no row was read.
        RefusedTooLateError: something was refused after noise had been drawn.
        SealBroken: an object in the store is damaged.
        ChangedError: the files changed while they were counted.
        OvertakenError: another run of the stream stored a step first.
    """
    position = chain.end()
    if position.next >= chain.task.until:
        return
    log = SourceLog(store=open_store(chain.task.checkpoint, what="checkpoint"), folder=chain.task.checkpoint)
    _require_checkpoint(log, _open_counts(position))
    with open_batches() as batches:
        while position.next < chain.task.until:
            closes = chain.request.closes(position.next)
            if clock.now() < closes:
                announcer.stage(ApplicationStage.WAITING)
                clock.wait(closes)
            announcer.stage(ApplicationStage.COUNTING)
            tick = _Tick(chain=chain, log=log, position=position, began=clock.now())
            tick.run(batches)
            position = tick.position
            announcer.stage(ApplicationStage.WRITING)


@dataclass(kw_only=True)
class _Tick:
    """One reading of what has arrived, and the steps that it closes.

    All that decides how many objects are stored, and how long they are, follows from when it began.

    Attributes:
        chain: the stream's objects.
        log: what was planned.
        position: the end of the chain.
        began: the time at which the tick began.
    """

    chain: ObjectChain
    log: SourceLog
    position: Position
    began: dt.datetime

    def __post_init__(self) -> None:
        request, first = self.chain.request, self.position.next
        self._states = len(request.leaf_names)
        # a stream that stood still for so long leaves out the rows beyond
        self._reach = min(request.steps_within_reach(self.began), first + max(1, MAX_STATE // self._states))
        self._due = min(request.steps_closed(self.began), self.chain.task.until, self._reach)
        self._first = first

    def run(self, batches: MicroBatches) -> None:
        """Read, count and close."""
        source = batches.read(self._take)
        while self.position.next < self._due:
            kept = self._kept
            read = kept.read or self._planned(kept.batch)
            self._close(kept.counts(self._open_steps, self._states), source, kept.batch, read)

    def _take(self, source: str, batch: int, files: Files, count: Count) -> bool:
        kept = self._kept
        if batch not in (kept.batch, kept.batch + 1) or (kept.batch >= 0 and source != kept.source):
            raise ChangedError("the micro-batches are not those that follow the counted ones")
        if batch == kept.batch:
            return True
        if self.position.next >= self._due:
            return False
        read, present = self._planned(batch), files()
        counts = kept.counts(self._open_steps, self._states) + count(self.position.next, self._open_steps)
        if (self._planned(batch), files()) != (read, present):
            raise ChangedError("the files of a micro-batch changed while it was counted")
        self._close(counts, source, batch, read)
        return self.position.next < self._due

    def _planned(self, batch: int) -> str:
        """The hash of what is planned up to a micro-batch, after checking that what was counted is as it was.

        Raises:
            ChangedError: it is not: another run uses this checkpoint.
        """
        kept = self._kept
        try:
            if kept.read not in ("", self.log.history(kept.batch)):
                raise ChangedError("the checkpoint is no longer that of the counted micro-batches")
            return self.log.history(batch)
        except LogMissingError:
            raise ChangedError("the checkpoint no longer has the counted micro-batches") from None

    def _close(self, counts: Int64Array, source: str, batch: int, read: str) -> None:
        """Close the tick's first step, or all others that are due."""
        alone = self.position.next == self._first
        end = self._first + 1 if alone else self._due
        while self.position.next < end:
            steps = min(end - self.position.next, self.chain.segment_steps)
            left_open = OpenCounts.of(counts[steps:], source=source, batch=batch, read=read)
            self.position = self.chain.append(self.position, counts[:steps], left_open=left_open)
            if not self.position.own:
                raise OvertakenError
            counts = counts[steps:]

    @property
    def _kept(self) -> OpenCounts:
        return _open_counts(self.position)

    @property
    def _open_steps(self) -> int:
        return self._reach - self.position.next


def _open_counts(position: Position) -> OpenCounts:
    return position.state.open or OpenCounts()


def _require_checkpoint(log: SourceLog, kept: OpenCounts) -> None:
    """Refuse a checkpoint that does not go on from the micro-batches that were counted.

    Raises:
        InvalidRequest: it is that of another query, has planned other files than were counted, or lacks them, because
            it was lost, rolled back, or went on as a copy: rows would be read and counted twice.
    """
    if kept.batch < 0:
        return
    history = None
    with suppress(LogMissingError):
        # a copy that was made while the query ran may lack the list of files of the last micro-batch
        history = log.history(kept.batch) if log.identity == kept.source else None
    if history is None or kept.read not in ("", history):
        raise InvalidRequest(
            "checkpoint", log.folder,
            "must be the checkpoint with which this stream is followed, and no copy of that checkpoint, because a copy "
            "would count rows twice",
            "name or restore the original checkpoint, or begin a new stream under another key",
        )  # fmt: skip
