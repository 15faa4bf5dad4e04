"""Process groups inside the privacy boundary, whose output goes to a private file."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Protocol

import platformdirs
import psutil

from dp_operators.releasing.backends import Handle, RunState
from spark_jobs.contract.errors import InvalidRequest

_POLL_SECONDS = 0.05
_SAME_START_SECONDS = 1.0
"""Two start times that differ by less are one: the system's clock may be corrected in between."""


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
        bound, remedy = "must be a folder that belongs to this user", "name another folder in private_dir"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = folder.lstat()
        except OSError:
            raise InvalidRequest("private_dir", folder, bound, remedy) from None
        if status.st_mode & 0o170077 != 0o040000 or status.st_uid != os.geteuid():
            bound = "must be a folder that only this user may enter"
            raise InvalidRequest("private_dir", folder, bound, f"chmod 700 it, or {remedy}")
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


PROCESS = "process"
"""The kind of handles of processes."""


class ChildProcess(Protocol):
    """A process whose exit status this process can read, such as a ``subprocess.Popen``."""

    pid: int

    def poll(self) -> int | None:
        """The exit status of the process; None while it runs."""


@dataclass(frozen=True, kw_only=True)
class ProcessGroups:
    """Starts process groups whose output only this user can read, checks whether they run, and ends them.

    Attributes:
        grace: seconds between SIGTERM and SIGKILL.
    """

    grace: float
    _children: dict[int, ChildProcess] = field(default_factory=dict, repr=False, compare=False)

    def start(self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path) -> Handle:
        """Start ``command`` as a group of its own, and return a handle that any process of this machine can use.

        Raises:
            OSError: it cannot be started.
        """
        with private_file(folder, ".log") as (output, path):
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        return self.adopt(process, log=path)

    def adopt(self, process: ChildProcess, *, log: Path) -> Handle:
        """The handle of a process that was started by other means as the first of its process group."""
        self._children[process.pid] = process
        started = _start_time(process.pid) or time.time()
        return Handle(backend=PROCESS, id=f"{process.pid} {started:.3f}", place=this_machine(), log=str(log))

    def look(self, handle: Handle) -> RunState:
        """Whether the group's first process still runs."""
        if handle.backend != PROCESS or handle.place != this_machine():
            return RunState.UNKNOWN
        pid, started = _named(handle)
        child = self._children.get(pid)
        if child is not None:
            return RunState.RUNNING if child.poll() is None else RunState.ENDED
        began = _start_time(pid)
        return RunState.RUNNING if began is not None and abs(began - started) < _SAME_START_SECONDS else RunState.ENDED

    def exit_status(self, handle: Handle) -> int | None:
        """The exit status of a process that this one has started and that has ended."""
        child = self._children.get(_named(handle)[0])
        return None if child is None else child.poll()

    def kill(self, handle: Handle) -> None:
        """End all processes of the group: with SIGTERM, then, after ``grace`` seconds, with SIGKILL."""
        pid, _ = _named(handle)
        unknown = handle.backend != PROCESS or handle.place != this_machine()
        if unknown or (pid not in self._children and self.look(handle) is not RunState.RUNNING):
            return  # the number may be another process's by now
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not _signal(pid, number) or self._gone(pid):
                return

    def _gone(self, pid: int) -> bool:
        """Whether all processes of the group end within the grace."""
        deadline = time.monotonic() + self.grace
        while time.monotonic() < deadline:
            if pid in self._children:
                self._children[pid].poll()
            if not _signal(pid, 0) or not any(_running_in(pid)):
                return True
            time.sleep(_POLL_SECONDS)
        return False


def _signal(pid: int, number: int) -> bool:
    """Signal the process group; False if none of its processes is left."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):  # macOS raises the latter for a group of zombies
        return False
    return True


def _running_in(group: int) -> Iterator[int]:
    """The processes of a group, without those that have ended and that nobody has asked for yet."""
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == group and _start_time(pid) is not None:
                yield pid


def _named(handle: Handle) -> tuple[int, float]:
    pid, started = handle.id.split(" ")
    return int(pid), float(started)


def _start_time(pid: int) -> float | None:
    """When a process was started; None if it has ended."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None


@cache
def this_machine() -> str:
    """A name of this boot of the machine and of its process namespace, within which a process number is unique."""
    places = [platform.node()]
    with contextlib.suppress(OSError):
        places.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        places.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(places)
