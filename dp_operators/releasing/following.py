"""Follows a submitted application to its end, and reports its stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from dp_operators.releasing.backends import Backend, Handle, RunState
from spark_jobs.contract.store.layout import ApplicationStage, read_stage

Progress = Callable[[str], None]
"""Receives one line of public text for the caller's log."""

REPORT_SECONDS = 10.0
POLL_SECONDS = 0.05
"""How often a process of this machine is looked at."""
POLL_ELSEWHERE_SECONDS = 5.0
"""How often an application elsewhere is looked at; in between, only whether it is to be ended."""
PATIENCE_SECONDS = 600.0
"""How long a backend may not know an application before it counts as ended: its results are in the store, or nowhere.
"""
_LONGEST_STAGE_LINE = 400
_CHUNK = 1 << 20


class StageReader:
    """Reads the lines that announce a stage from a growing file; all other lines are skipped."""

    def __init__(self, path: Path, nonce: str) -> None:
        self._stream = path.open("rb")
        self._nonce = nonce
        self._rest = b""

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def new_stages(self) -> list[ApplicationStage]:
        """The stages announced since the last call."""
        stages = []
        while chunk := self._stream.read(_CHUNK):
            *lines, rest = (self._rest + chunk).split(b"\n")
            # a longer line announces no stage, so the rest of it need not be kept
            self._rest = rest[:_LONGEST_STAGE_LINE]
            for line in lines:
                stage = read_stage(line[:_LONGEST_STAGE_LINE].decode(errors="replace"), self._nonce)
                if stage is not None:
                    stages.append(stage)
        return stages


class Reporter:
    """Reports each new stage to the caller's log and, at fixed intervals, how long the current one has lasted."""

    def __init__(self, progress: Progress, interval: float, stage: str) -> None:
        self._progress = progress
        self._interval = interval
        self._enter(stage)

    def _enter(self, stage: str) -> None:
        self._stage = stage
        self._since = time.monotonic()
        self._reported_beats = 0

    def stages(self, stages: Sequence[ApplicationStage]) -> None:
        """Report new stages."""
        for stage in stages:
            self._enter(stage.value)
            self._progress(stage.value)

    def beat(self) -> None:
        """Report how long the current stage has lasted, if another interval has passed."""
        beats = int((time.monotonic() - self._since) / self._interval)
        if beats > self._reported_beats:
            self._reported_beats = beats
            self._progress(f"{self._stage} ... {beats * self._interval:.0f} s")


def follow(
    backend: Backend,
    handle: Handle,
    *,
    nonce: str,
    progress: Progress,
    stopped: Callable[[], bool] = lambda: False,
    interval: float = REPORT_SECONDS,
) -> None:
    """Wait until the application has ended, and report its stages; end it if the wait itself is ended.

    Args:
        backend: where the application runs.
        handle: names the application.
        nonce: marks the lines that announce its stages.
        progress: receives public lines.
        stopped: a function that says whether to end the application; called repeatedly.
        interval: seconds between progress lines while a stage lasts.
    """
    reader = None
    with suppress(OSError):  # what it prints may be on another machine
        reader = StageReader(Path(handle.log), nonce) if handle.log else None
    reporter = Reporter(progress, interval, "starting" if reader else "running")
    try:
        _wait(backend, handle, reader=reader, reporter=reporter, stopped=stopped)
        if reader is not None:
            reporter.stages(reader.new_stages())
    except BaseException:
        backend.kill(handle)  # an exception, such as a timeout, ended the wait
        raise
    finally:
        if reader is not None:
            reader.close()
    if not backend.elsewhere:
        backend.kill(handle)  # no process of the group may be left


def _wait(
    backend: Backend,
    handle: Handle,
    *,
    reader: StageReader | None,
    reporter: Reporter,
    stopped: Callable[[], bool],
) -> None:
    pause = POLL_ELSEWHERE_SECONDS if backend.elsewhere else POLL_SECONDS
    known = time.monotonic()
    while (state := backend.look(handle)) is not RunState.ENDED:
        now = time.monotonic()
        known = now if state is RunState.RUNNING else known
        if now - known > PATIENCE_SECONDS:
            return
        while True:
            if stopped():
                backend.kill(handle)
                return
            if reader is not None:
                reporter.stages(reader.new_stages())
            reporter.beat()
            time.sleep(POLL_SECONDS)
            if time.monotonic() >= now + pause:
                break
