"""A process inside the privacy boundary: its output goes to a private file, and only its stages are reported."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import platformdirs

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.layout import ApplicationStage, read_stage

Progress = Callable[[str], None]
"""Receives one line of public text for the caller's log."""

_POLL_SECONDS = 0.05
_LONGEST_STAGE_LINE = 400
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class PrivateFolder:
    """The folder on this machine for the output of applications, which only its owner may enter.

    Attributes:
        path: the folder; None for the platform's default.
        keep_days: days after which an output file is removed.
    """

    path: Path | None = None
    keep_days: float = 7.0

    def open(self) -> Path:
        """Create the folder if it is missing, remove files that are too old, and return its path.

        Raises:
            InvalidRequest: the folder cannot be created, or other users may enter it.
        """
        folder = self.path or Path(platformdirs.user_state_dir("dp-diagnostics")) / "private"
        bound, remedy = "must be a folder of this user's own", "name another folder in private_dir"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = folder.lstat()
        except OSError:
            raise InvalidRequest("private_dir", value=folder, requirement=bound, remedy=remedy) from None
        if status.st_mode & 0o170077 != 0o040000 or status.st_uid != os.geteuid():
            bound = "must be a folder that this user alone may enter"
            raise InvalidRequest("private_dir", value=folder, requirement=bound, remedy=f"chmod 700 it, or {remedy}")
        self._remove_old_files(folder)
        return folder

    def _remove_old_files(self, folder: Path) -> None:
        oldest = time.time() - self.keep_days * 86400
        for path in folder.glob("application-*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()


@contextlib.contextmanager
def private_file(folder: Path, suffix: str) -> Iterator[tuple[IO[bytes], Path]]:
    """A new file in ``folder`` that only its owner can read."""
    descriptor, name = tempfile.mkstemp(prefix="application-", suffix=suffix, dir=folder)
    with os.fdopen(descriptor, "wb") as stream:
        yield stream, Path(name)


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


class PrivateProcess:
    """Runs one process group at a time, whose output only this user can read."""

    def __init__(self, *, interval: float, grace: float) -> None:
        self._interval = interval
        self._grace = grace
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def run(
        self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, nonce: str, progress: Progress
    ) -> int:
        """Run ``command`` to its end, report its stages, and return its exit status.

        Raises:
            OSError: it cannot be started, or ``kill`` was called before.
        """
        with private_file(folder, ".log") as (output, path):
            progress(f"what the application prints goes to {path}, inside the privacy boundary")
            reader = StageReader(path, nonce)
            try:
                if self._ended:
                    raise OSError("the run was ended")
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(environment),
                    start_new_session=True,
                )
                return self._follow(self._process, reader, Reporter(progress, self._interval, "starting"))
            finally:
                reader.close()
                # no process of the group may be left, even if an exception (such as a timeout) ended the wait
                self._end_group()
                self._process = None

    def kill(self) -> None:
        """End the process group, and start no other; safe to call at any time and from any thread."""
        self._ended = True
        self._end_group()

    def _follow(self, process: subprocess.Popen[bytes], reader: StageReader, reporter: Reporter) -> int:
        while process.poll() is None:
            reporter.stages(reader.new_stages())
            reporter.beat()
            time.sleep(_POLL_SECONDS)
        reporter.stages(reader.new_stages())
        return process.returncode

    def _end_group(self) -> None:
        process = self._process
        if process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not _signal_group(process, number) or _gone_within(process, self._grace):
                return


def _signal_group(process: subprocess.Popen[bytes], number: int) -> bool:
    """Signal the process group; False if none of its processes is left."""
    process.poll()
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):  # macOS raises the latter for a group of zombies
        return False
    return True


def _gone_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not _signal_group(process, 0):
            return True
        time.sleep(_POLL_SECONDS)
    return False
