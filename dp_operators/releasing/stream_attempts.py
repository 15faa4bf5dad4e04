"""One attempt at a stream: find, run, record and publish its due steps; ``dp_operators.releasing.streams`` says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from dp_operators.budget import ChargeConflict, ChargeState, LedgerUnavailable
from dp_operators.budget.values import StreamHead
from dp_operators.releasing.applications import Applications
from dp_operators.releasing.attempts import GIVE_BACK, ChargedAttempt
from dp_operators.releasing.draws import OpenedDraw
from dp_operators.releasing.errors import ReleaseClosed, ReleaseDamaged, ReleaseFailed, ReleaseRejected
from dp_operators.releasing.following import Progress
from dp_operators.releasing.preflight import SPENT
from dp_operators.releasing.reservations import end_stated_runs, seal_of
from dp_operators.releasing.sealed_drafts import closed_elsewhere
from dp_operators.releasing.submissions import StreamRun, Submission
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, plain
from spark_jobs.contract.snapshots import Snapshot
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.run_statement import FollowedElsewhere, NothingRead
from spark_jobs.contract.store.sealing import Seal, SealBroken, open_whole, sha256
from spark_jobs.contract.store.stream_objects import (
    STREAM_NAME,
    StreamLayout,
    StreamSegment,
    segment_file,
    unpack_files,
)
from spark_jobs.contract.stream_request import StreamRequest

if TYPE_CHECKING:
    from dp_operators.budget import Charge

MAX_CELLS = 1 << 24
"""The most counts of one run of the application; more are counted by several runs."""
_NO_STEPS = (
    "the application ended without the steps that are due; its output is in its private file. "
    "A retry helps if a machine or a store had failed; if it ends so again, find the cause there"
)


@dataclass(kw_only=True)
class Watch:
    """Records and publishes the objects that an application stores while it runs.

    Attributes:
        adopt: records and publishes the objects in the store that follow a head, and returns the new head.
        head: the head so far.
    """

    adopt: Callable[[StreamHead], StreamHead]
    head: StreamHead

    def after(self, progress: Progress) -> Progress:
        """``progress``, extended to record and publish, after each line, what the store has by then.

        If the ledger or the store cannot be reached, this is made up for after a later line.
        """

        def report(line: str) -> None:
            progress(line)
            try:
                self()
            except (OSError, LedgerUnavailable) as error:
                progress(f"the next steps are not recorded yet ({type(error).__name__})")

        return report

    def __call__(self) -> StreamHead:
        """The head, after everything that is in the store now."""
        self.head = self.adopt(self.head)
        return self.head


@dataclass(frozen=True, kw_only=True)
class AdvancedStream:
    """A stream after an attempt.

    Attributes:
        uri: URI of the stream's folder.
        key: the stream's key.
        charge_id: the charge that paid for it.
        cost: the cost of the whole stream, which was charged once.
        first: the number of the first step that this attempt published.
        steps: the number of steps that are released now.
        released: how many steps this attempt published.
        finished: whether all steps of the stream are released.
    """

    uri: str
    key: str
    charge_id: str
    cost: Budget
    first: int
    steps: int
    released: int
    finished: bool

    def to_dict(self) -> dict[str, Any]:
        """The fields for XCom and for an asset event, in plain JSON types."""
        return {
            "uri": self.uri,
            "key": self.key,
            "cost": self.cost.model_dump(mode="json"),
            "first": self.first,
            "released": self.released,
            "steps": self.steps,
            "finished": self.finished,
        }


@dataclass(frozen=True, kw_only=True)
class StreamAttempt(ChargedAttempt[StreamRequest]):
    """One attempt at the due steps of a stream.

    Attributes:
        checkpoint: URI of the folder for checkpoints, if the stream is followed.
        published: a function that is called when steps were published.
    """

    checkpoint: str = ""
    published: Callable[[str], object] = lambda uri: None

    def charged(self) -> Charge:
        """The stream's charge; it is reserved first if there is none."""
        charge = self.reserve(STREAM_NAME)
        if charge.state is ChargeState.BURNT:
            raise ReleaseClosed(f"stream {self.key} {SPENT}")
        return charge

    def advance(self, charge: Charge, due: int) -> AdvancedStream:
        """Release the steps before ``due`` that are not released yet."""
        layout = StreamLayout.of(self.output, self.key, charge.id)
        seal = seal_of(charge, self.ledger)
        began = self._require_not_behind(layout, charge)
        if began.ended:
            raise ReleaseClosed(f"stream {self.key} was ended at step {began.released}; what it has published stays")
        self._require_published(charge, layout, seal, began)
        head = self._adopt(charge, layout, seal, began)
        while head.steps < due:
            watch = Watch(adopt=partial(self._adopt, charge, layout, seal), head=head)
            run = self._run(charge, layout, seal, head, due, watch=watch)
            before, head = head, watch()
            self._require_alone(layout, seal, run)
            if head == before:
                self._ended_without_steps(charge, layout, seal, run)
        if head == began:
            last = self._last_version(layout, charge, seal, head)
            self.progress(f"no step is due: {head.steps} of {self.request.steps} are released{last}")
        return AdvancedStream(
            uri=layout.root,
            key=self.key,
            charge_id=charge.id,
            cost=charge.cost,
            first=began.steps,
            steps=head.steps,
            released=head.steps - began.steps,
            finished=head.steps == self.request.steps,
        )

    def _require_not_behind(self, layout: StreamLayout, charge: Charge) -> StreamHead:
        """The head of the ledger's chain, unless steps beyond it are visible."""
        head = self.ledger.stream_head(charge.id)
        while self.store.read(layout.published(segment_file(head.steps, "json"))) is not None:
            # read again: another attempt may have recorded and published these steps meanwhile
            again = self.ledger.stream_head(charge.id)
            if again == head:
                raise ReleaseDamaged(
                    f"steps from {head.steps} on of stream {self.key} are published, but the ledger has not recorded "
                    f"them: it is behind its store; run `dp-budget reconcile --output {self.output}`"
                )
            head = again
        return head

    def _require_published(self, charge: Charge, layout: StreamLayout, seal: Seal, head: StreamHead) -> None:
        """Check the last recorded object, from which the stream continues, and publish its steps if they are not."""
        if head.steps == 0:
            return
        state = f"the state before step {head.steps}"
        try:
            content = open_whole(
                partial(self.store.read, layout.segment(head.first)), partial(_recorded, digest=head.sha256), must=True
            )
        except SealBroken as broken:
            raise self._lost(f"{state} {broken}", charge) from None
        if content is None:
            raise self._lost(f"{state} is gone from the store", charge)
        if self.store.read(layout.published(segment_file(head.first, "json"))) is None:
            _, files = self._opened(StreamSegment.parse(content, key=self.key), charge, seal)
            self._publish(layout, files)

    def _adopt(self, charge: Charge, layout: StreamLayout, seal: Seal, head: StreamHead) -> StreamHead:
        """Record and publish the objects that follow the head in the store; return the new head."""
        while True:
            try:
                segment = open_whole(
                    partial(self.store.read, layout.segment(head.steps)), partial(StreamSegment.parse, key=self.key)
                )
            except SealBroken as broken:
                raise self._lost(str(broken), charge) from None
            if segment is None:
                return head
            place = segment.place
            if (place.first, place.previous) != (head.steps, head.sha256) or segment.ends > self.request.steps:
                raise self._lost(f"the object of step {head.steps} does not follow the one before", charge)
            draw, files = self._opened(segment, charge, seal)
            head = self._record(segment, charge, draw, files)
            self._publish(layout, files)
            self.published(layout.root)
            read = _version_of(draw.fields)
            self.progress(f"released steps {place.first} to {segment.ends - 1} of {self.request.steps}{read}")

    def _last_version(self, layout: StreamLayout, charge: Charge, seal: Seal, head: StreamHead) -> str:
        """What the last recorded object says of the version that it was counted from, after a comma; or nothing."""
        content = self.store.read(layout.segment(head.first)) if head.steps else None
        if content is None:
            return ""
        draw, _ = self._opened(StreamSegment.parse(content, key=self.key), charge, seal)
        read = _version_of(draw.fields)
        return read and f", the last{read}"

    def _opened(self, segment: StreamSegment, charge: Charge, seal: Seal) -> tuple[OpenedDraw, dict[str, bytes]]:
        """The release of an object, after checking whose it is and that the charge pays for its noise."""
        try:
            facts, files = unpack_files(segment.open_release(seal))
        except SealBroken:
            raise self._lost(f"the object of step {segment.place.first} was not made for this stream", charge) from None
        draw = OpenedDraw(sha256=segment.sha256, fields=facts)
        wrong = draw.mismatches(charge)
        if wrong:
            raise ReleaseRejected(f"the steps are not what charge {charge.id} pays for: {'; '.join(wrong)}")
        return draw, files

    def _record(self, segment: StreamSegment, charge: Charge, draw: OpenedDraw, files: dict[str, bytes]) -> StreamHead:
        """Enter the object's hash into the ledger; with the first one, the charge is committed to the stream."""
        place = segment.place
        failpoint("before_record_steps")
        try:
            if place.first == 0:
                self.ledger.record_draw(charge.id, segment.sha256, actor=self.actor)
                described = sha256(files[STREAM_NAME])
                self.ledger.commit(charge.id, described, events=draw.events(charge), actor=self.actor)
            self.ledger.record_steps(
                charge.id,
                first=place.first,
                steps=place.steps,
                object_sha256=segment.sha256,
                previous_sha256=place.previous,
                actor=self.actor,
            )
        except ChargeConflict as conflict:
            raise ReleaseDamaged(f"stream {self.key}: {conflict}") from None
        failpoint("after_record_steps")
        # another attempt may be further already; this one follows it object by object
        return StreamHead(steps=segment.ends, sha256=segment.sha256, first=place.first)

    def _publish(self, layout: StreamLayout, files: dict[str, bytes]) -> None:
        failpoint("before_publish_steps")
        for name, content in files.items():
            uri = layout.published(name)
            if not self.store.create(uri, content):
                raise ReleaseDamaged(f"{uri} differs from what was recorded")
        failpoint("after_publish_steps")

    def _run(
        self, charge: Charge, layout: StreamLayout, seal: Seal, head: StreamHead, due: int, *, watch: Watch
    ) -> int:
        """Run the application for the due steps, or as many as one run may count; return the run's number."""
        document = self.request.sha256
        if head.steps == 0:
            self.store_request(charge, layout.release, seal)
        self.store.create(layout.request(document), self.request.to_json().encode())
        applications = self.applications(charge, layout.release, seal)
        number = self._number(applications, charge, head)
        at_once = self.request.steps if self.checkpoint else max(1, MAX_CELLS // len(self.request.names))
        submission = Submission(
            request_uri=layout.request(document),
            request_sha256=charge.request_sha256,
            charge_id=charge.id,
            key=self.key,
            output=self.output,
            run=number,
            stream=StreamRun(
                first=head.steps,
                until=min(due, head.steps + at_once),
                segment=head.first,
                previous=head.sha256,
                document_sha256=document,
                checkpoint=self.checkpoint and f"{self.checkpoint}/{charge.id}",
            ),
            secret=seal.secret,
        )
        if self.checkpoint:
            applications = replace(applications, progress=watch.after(applications.progress))
        self.run_application(applications, submission)
        return number

    def _number(self, applications: Applications, charge: Charge, head: StreamHead) -> int:
        """The number of the run: an earlier attempt's if its application may still run, otherwise a new one."""
        reserved = charge.state is ChargeState.RESERVED and head.steps == 0
        open_runs = self.ledger.charge(charge.id).open_runs if reserved or self.checkpoint else ()
        if earlier := applications.open_run(open_runs):
            return earlier
        if reserved:
            return self.start_run(charge).number
        # once it is committed a charge is never given back, so that its runs need no entries in the ledger; a run that
        # follows the stream goes on beyond the step that it began with
        began_at = 0 if self.checkpoint else head.steps
        number = int(sha256(f"{began_at} {self.request.sha256}".encode())[:12], 16)
        while applications.handle(number) is not None and not applications.unfinished(number):
            number += 1
        return number

    def _require_alone(self, layout: StreamLayout, seal: Seal, run: int) -> None:
        """Refuse to go on where another process follows the same stream, with a checkpoint of its own.

        Raises:
            InvalidRequest: the run has stated that another one was first.
        """
        with suppress(SealBroken):
            sealed = self.store.read(layout.release.statement(run))
            if sealed is not None and FollowedElsewhere.is_stated(seal.open(f"run-{run}.json", sealed), run=run):
                raise InvalidRequest(
                    "checkpoint", self.checkpoint,
                    "must be the only checkpoint that follows this stream, but another process, with another "
                    "checkpoint, stored the step first, so this process "
                    "has ended", "let the other process go on, or stop it before you start this process again",
                )  # fmt: skip

    def _ended_without_steps(self, charge: Charge, layout: StreamLayout, seal: Seal, run: int) -> NoReturn:
        """Raise the reason why a run left no object."""
        refused = None
        with suppress(SealBroken):
            sealed = self.store.read(layout.release.statement(run))
            if sealed is not None:
                refused = NothingRead.from_json(seal.open(f"run-{run}.json", sealed), run=run).refused
        if refused is not None:
            self._end_refused(charge, layout, refused)
        raise ReleaseFailed(_NO_STEPS)

    def _end_refused(self, charge: Charge, layout: StreamLayout, refused: Exception) -> NoReturn:
        """Give a reservation back whose only runs read no row, and raise the refusal."""
        charge = self.ledger.charge(charge.id)
        if charge.state is ChargeState.RESERVED:
            try:
                charge, _ = end_stated_runs(self.store, layout.release, charge, self.ledger, actor=self.actor)
                if charge.may_have_drawn:
                    raise ReleaseRejected(f"{refused} (an earlier run may have read rows: {GIVE_BACK})")
                failpoint("before_give_back")
                self.ledger.void(charge.id, actor=self.actor, reason="the request was refused before a row was read")
                failpoint("after_give_back")
            except ChargeConflict:
                raise closed_elsewhere(charge) from None
        raise refused

    def _lost(self, why: str, charge: Charge) -> ReleaseDamaged:
        return ReleaseDamaged(
            f"{why}, so stream {self.key} cannot go on, and what it has published stays; restore that object from a "
            f"backup, or begin a new stream under another key, which costs epsilon {plain(charge.cost.epsilon)} again"
        )


def _version_of(facts: Mapping[str, Any]) -> str:
    """Which version of the table some steps were counted from, in words; earlier versions of this package say nothing.

    It may be another one than the request of this attempt names: what is recorded counts.
    """
    snapshot = facts.get("snapshot")
    return "" if snapshot is None else f" from {Snapshot.parse(snapshot).describe()}"


def _recorded(content: bytes, *, digest: str) -> bytes:
    """The object that the ledger recorded.

    Raises:
        SealBroken: it is another one.
    """
    if sha256(content) != digest:
        raise SealBroken("is not the one that the ledger recorded")
    return content
