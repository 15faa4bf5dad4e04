"""The applications of a charge's runs: their handles are stored, so that a later attempt finds those that still run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from dp_operators.releasing.backends import Backend, Handle, RunState
from dp_operators.releasing.following import Progress, follow
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ReleaseLayout
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.sealing import Seal, SealBroken


class ApplicationRuns(Exception):
    """The application was submitted and still runs, and the caller wants to wait for it without this process.

    Attributes:
        handle: names the application.
        run: the number of the run that it belongs to.
    """

    def __init__(self, handle: Handle, run: int) -> None:
        super().__init__(handle, run)
        self.handle = handle
        self.run = run

    def __str__(self) -> str:
        return f"run {self.run} runs on {self.handle.backend}"


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """How an attempt waits for its application.

    Attributes:
        here: whether to wait in this process; otherwise ``ApplicationRuns`` is raised as soon as the application runs,
            if every machine of the deployment can look at it (``Backend.elsewhere``).
        awaited: the run that the caller has waited for, whose outcome is to be read before another run is started.
        stopped: a function that says whether to end the application; called repeatedly while this process waits.
    """

    here: bool = True
    awaited: int = 0
    stopped: Callable[[], bool] = lambda: False


HERE = Waiting()
"""To the application's end, in this process."""


@dataclass(frozen=True, kw_only=True)
class Applications:
    """Submits a charge's runs to a backend, and keeps their handles in the release's store.

    A handle is sealed for the charge: whoever can write into the store cannot make an attempt look at, or end, another
    application. ``engine`` is a public line about the engine that counts, reported before a run that has to count.
    """

    store: ObjectStore
    layout: ReleaseLayout
    seal: Seal
    backend: Backend
    waiting: Waiting
    progress: Progress
    engine: str = ""

    def handle(self, run: int) -> Handle | None:
        """The handle that was kept for a run; None without one."""
        return kept_handle(self.store, self.layout, self.seal, run)

    def open_run(self, runs: Collection[int]) -> int:
        """The open run of a charge that this attempt continues; 0 if it starts another one.

        It is the last run if that is ``unfinished``. Otherwise it is an earlier run whose application still runs: later
        attempts may have recorded runs that they could not submit.
        """
        last, *earlier = sorted(runs, reverse=True) or [0]
        if self.unfinished(last):
            return last
        handles = ((run, self.handle(run)) for run in earlier)
        return next((run for run, handle in handles if handle and self.backend.look(handle) is RunState.RUNNING), 0)

    def unfinished(self, run: int) -> bool:
        """Whether to continue an earlier run, instead of starting another one.

        A run is continued if its application still runs, or if the caller has waited for it. If the backend is
        ``idempotent``, it is also continued if it is unknown whether the run was submitted or still runs.
        """
        if run == 0:
            return False
        handle = self.handle(run)
        if handle is None:
            return self._takes_again(run)
        if run == self.waiting.awaited:
            return True
        state = self.backend.look(handle)
        return state is RunState.RUNNING or self._is_lost(handle, state, run)

    def _is_lost(self, handle: Handle, state: RunState, run: int) -> bool:
        """Whether the backend cannot say anything about a run that it was given, and takes it again as the same."""
        return state is RunState.UNKNOWN and handle.backend == self.backend.kind and self._takes_again(run)

    def _takes_again(self, run: int) -> bool:
        """Whether a run may be submitted again: not once it has stated its end, which must stay true."""
        return self.backend.idempotent and self.store.read(self.layout.statement(run)) is None

    def finish(self, submission: Submission) -> None:
        """Submit a run's application, unless it was submitted before, and wait for its end.

        Raises:
            ApplicationRuns: it runs elsewhere, and the caller waits for it without this process.
            OSError: it could not be submitted, or the store failed.
        """
        run = submission.run
        handle = self.handle(run)
        if handle is None or (run != self.waiting.awaited and self._is_lost(handle, self.backend.look(handle), run)):
            if self.waiting.stopped():
                raise OSError("the run was ended")
            if self.engine and not submission.draw_sha256:
                self.progress(self.engine)
            handle = self.backend.submit(submission)
            if handle.log:
                self.progress(f"what the application prints goes to {handle.log}, inside the privacy boundary")
            self._keep(handle, submission.run)
        if not self.waiting.here and self.backend.elsewhere:
            state = self.backend.look(handle)
            if state is RunState.RUNNING or (state is RunState.UNKNOWN and submission.run != self.waiting.awaited):
                raise ApplicationRuns(handle, submission.run)
            return
        follow(self.backend, handle, nonce=submission.nonce, progress=self.progress, stopped=self.waiting.stopped)

    def _keep(self, handle: Handle, run: int) -> None:
        failpoint("before_keep_handle")
        try:
            self.store.create(self.layout.handle(run), self.seal.close(f"handle-{run}.json", handle.to_json()))
        except BaseException:
            self.backend.kill(handle)
            raise
        failpoint("after_keep_handle")


def kept_handle(store: ObjectStore, layout: ReleaseLayout, seal: Seal, run: int) -> Handle | None:
    """The handle that was kept for a run; None without one."""
    sealed = store.read(layout.handle(run))
    with suppress(SealBroken, ValueError):  # an object that the charge's secret does not open is no handle
        if sealed is not None:
            return Handle.from_json(seal.open(f"handle-{run}.json", sealed))
    return None
