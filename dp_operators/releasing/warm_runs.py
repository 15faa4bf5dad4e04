"""The backend of many runs, one after the other: each is forked from one process that has imported everything.

The runs share this process, which reads no row, and with Spark the Java process that it started
(``spark_jobs.application.warm``). If a run does not end normally, whatever the cause, the shared process and its Java
end at once, and the next run gets new ones. A shared process serves the runs of one environment, so that only runs of
the same user, credentials, salt and keys share it.

If the shared process is killed, its runs are as safe as separate ones: a run continues without the process that it was
forked from, holds the Java that it uses, and is found by its handle.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from dp_operators.releasing.backends import Handle
from dp_operators.releasing.processes import ProcessGroups, private_file
from dp_operators.releasing.runners import LocalRunner
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.store.layout import ExitCode

_COMMAND = (sys.executable, "-P", "-m", "spark_jobs.application.warm")
MAX_RUNS = 200
"""How many runs a process serves: Spark keeps one to two megabytes of each context that was stopped."""
_IN_ORDER = (ExitCode.DONE, ExitCode.REFUSED)
"""How a run ends that leaves nothing behind: a refusal comes before a row is read, and closes its session."""
_CHUNK = 2**20


class WarmApplication:
    """The process that runs are forked from.

    Attributes:
        environment: the environment variables of all its runs.
        runs: the number of runs that it has started.
        handle: names the process together with its Java.
    """

    def __init__(self, master: str, environment: Mapping[str, str], *, folder: Path, groups: ProcessGroups) -> None:
        self.environment = dict(environment)
        self.runs = 0
        with private_file(folder, ".log") as (output, self._log):
            pass
        # Java writes at the file's end, also after what it wrote has been moved away
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [*_COMMAND, f"--master={master}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=self.environment,
                start_new_session=True,
            )
        self.handle = groups.adopt(self._process, log=self._log)

    def start(self, arguments: list[str], variables: Mapping[str, str], *, log: Path) -> ForkedRun:
        """Start a run, whose output goes to an existing file.

        Raises:
            OSError: the process has ended.
        """
        run = ForkedRun(self, self.answer({"run": arguments, "variables": dict(variables), "log": str(log)})["pid"])
        self.runs += 1
        return run

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Send an order to the process, and return its answer.

        Raises:
            OSError: the process has ended.
        """
        orders, answers = self._process.stdin, self._process.stdout
        if orders is None or answers is None or orders.closed:
            raise OSError("the process has ended")
        orders.write(json.dumps(order).encode() + b"\n")
        orders.flush()
        line = answers.readline()
        if not line:
            raise OSError("the process has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def move_output(self, log: Path) -> None:
        """Move what the process and its Java have printed to a run's own file."""
        with self._log.open("rb") as printed, log.open("ab") as own:
            while chunk := printed.read(_CHUNK):
                own.write(chunk)
        os.truncate(self._log, 0)

    def close(self) -> None:
        """Close the pipes to the process, wait for its end, and remove the file of its output."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._process.wait()
        self._log.unlink(missing_ok=True)


@dataclass
class ForkedRun:
    """A run that a ``WarmApplication`` started."""

    application: WarmApplication
    pid: int
    _status: int | None = None

    def poll(self) -> int | None:
        """The run's exit status; None while it runs. If the process that could tell has ended, the run is killed."""
        if self._status is None:
            try:
                self._status = self.application.answer({"ended": self.pid})["status"]
            except OSError:
                with suppress(OSError):
                    os.killpg(self.pid, signal.SIGKILL)
                self._status = -signal.SIGKILL
        return self._status


@dataclass
class _Shared:
    applications: dict[str, WarmApplication] = field(default_factory=dict)
    current: Handle | None = None
    failed: bool = False


@dataclass(frozen=True, kw_only=True)
class WarmRunner(LocalRunner):
    """Runs many requests one after the other, as ``LocalRunner`` runs one; leaving the context ends shared processes.

    There is one shared process for each engine that a request was counted by. Each run is a process with its own
    memory, private file, secret and failure.
    """

    _shared: _Shared = field(init=False, repr=False, compare=False, default_factory=_Shared)

    @property
    def failed_after_others(self) -> bool:
        """Whether the last run failed in a process that other runs had used, so that they may be the cause."""
        return self._shared.failed

    def submit(self, submission: Submission) -> Handle:
        """Start the application as a fork of the shared process, which is started first if this environment has none.

        If that fails, the application is started as a process of its own, as ``LocalRunner`` does.

        Raises:
            OSError: it could not be started.
        """
        self._shared.failed, self._shared.current = False, None
        arguments = [*submission.arguments(), f"--master={self.master}"]
        with private_file(self.private_folder(), ".log") as (_, log):
            pass
        try:
            run = self._started(arguments, submission.variables(), log=log)
        except OSError:
            self._end(log)
            return super().submit(submission)
        self._shared.current = self._processes.adopt(run, log=log)
        return self._shared.current

    def _started(self, arguments: list[str], variables: Mapping[str, str], *, log: Path) -> ForkedRun:
        environment = {**self.inherited(), **self._spark_variables()}
        application = self._shared.applications.get(self.master)
        if application is not None and application.environment == environment and application.runs < MAX_RUNS:
            with suppress(OSError):  # it, or its Java, has ended since
                return application.start(arguments, variables, log=log)
        self._end()
        application = WarmApplication(self.master, environment, folder=self.private_folder(), groups=self._processes)
        self._shared.applications[self.master] = application
        return application.start(arguments, variables, log=log)

    def kill(self, handle: Handle) -> None:
        """End the application and all its processes; also the shared process, unless the application ended normally."""
        super().kill(handle)
        application = self._shared.applications.get(self.master)
        if handle != self._shared.current or application is None:
            return
        self._shared.current = None
        log = Path(handle.log)
        if self._processes.exit_status(handle) in _IN_ORDER:
            application.move_output(log)
        else:
            self._shared.failed = application.runs > 1
            self._end(log)

    def _end(self, log: Path | None = None) -> None:
        """End the shared process; what it has printed goes to ``log``."""
        application = self._shared.applications.pop(self.master, None)
        if application is None:
            return
        super().kill(application.handle)
        if log is not None:
            application.move_output(log)
        application.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for master in tuple(self._shared.applications):
            self._with_master(master)._end()

    def _with_master(self, master: str) -> Self:
        other = super()._with_master(master)
        object.__setattr__(other, "_shared", self._shared)
        return other
