"""A process inside the privacy boundary: its output goes to a private file, and only its stages come out."""

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
"""Takes one line of public text for the caller's log."""

_POLL_SECONDS = 0.05
_LONGEST_STAGE_LINE = 400
_CHUNK = 1 << 20


@dataclass(frozen=True, kw_only=True)
class PrivateFolder:
    """The folder on this machine that holds what applications print, readable by its owner alone.

    Attributes:
        path: the folder; None for the platform's own place for such things.
        keep_days: days after which a file in it is removed.
    """

    path: Path | None = None
    keep_days: float = 7.0

    def open(self) -> Path:
        """The folder, made if need be, with what is too old removed.

        Raises:
            InvalidRequest: it cannot be made, or others may read it.
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
    """A new file in ``folder`` that its owner alone can read."""
    descriptor, name = tempfile.mkstemp(prefix="application-", suffix=suffix, dir=folder)
    with os.fdopen(descriptor, "wb") as stream:
        yield stream, Path(name)


class StageReader:
    """Follows a growing file for the lines that announce a stage; whatever else is in it stays there."""

    def __init__(self, path: Path, nonce: str) -> None:
        self._stream = path.open("rb")
        self._nonce = nonce
        self._rest = b""

    def close(self) -> None:
        """Let go of the file."""
        self._stream.close()

    def new_stages(self) -> list[ApplicationStage]:
        """The stages announced since the last call."""
        stages = []
        while chunk := self._stream.read(_CHUNK):
            *lines, rest = (self._rest + chunk).split(b"\n")
            # a line this long announces nothing, however it goes on
            self._rest = rest[:_LONGEST_STAGE_LINE]
            for line in lines:
                stage = read_stage(line[:_LONGEST_STAGE_LINE].decode(errors="replace"), self._nonce)
                if stage is not None:
                    stages.append(stage)
        return stages


class Reporter:
    """Tells the caller's log each new stage, and between them, at fixed intervals, how long it has lasted."""

    def __init__(self, progress: Progress, interval: float, stage: str) -> None:
        self._progress = progress
        self._interval = interval
        self._enter(stage)

    def _enter(self, stage: str) -> None:
        self._stage = stage
        self._since = time.monotonic()
        self._reported_beats = 0

    def stages(self, stages: Sequence[ApplicationStage]) -> None:
        """New stages were announced."""
        for stage in stages:
            self._enter(stage.value)
            self._progress(stage.value)

    def beat(self) -> None:
        """Time has passed."""
        beats = int((time.monotonic() - self._since) / self._interval)
        if beats > self._reported_beats:
            self._reported_beats = beats
            self._progress(f"{self._stage} ... {beats * self._interval:.0f} s")


class PrivateProcess:
    """One process group at a time, whose output nobody but this user reads."""

    def __init__(self, *, interval: float, grace: float) -> None:
        self._interval = interval
        self._grace = grace
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def run(
        self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, nonce: str, progress: Progress
    ) -> int:
        """Run ``command`` to its end, telling its stages; its exit status.

        Raises:
            OSError: it cannot be started, or ``kill`` came first.
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
                # whatever ended the wait (a time limit too), nothing of the group is left behind
                self._end_group()
                self._process = None

    def kill(self) -> None:
        """End the process and all it started, and start nothing more; safe to call at any time, from any thread."""
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
    """Signal the process's group; False if nothing of it is left."""
    process.poll()
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
        return False
    return True


def _gone_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not _signal_group(process, 0):
            return True
        time.sleep(_POLL_SECONDS)
    return False
