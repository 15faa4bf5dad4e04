"""The backend that runs the application as a process on this machine, by the caller's own Python."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from dp_operators.releasing.backends import Handle, RequestCheck, RunState
from dp_operators.releasing.connectors import require_connector, spark_defaults, spark_home
from dp_operators.releasing.environments import (
    DRIVER,
    check_database,
    check_driver,
    check_federation,
    check_java,
    check_salt,
    check_snapshot,
    check_stream_keys,
)
from dp_operators.releasing.processes import PROCESS, PrivateFolder, ProcessGroups
from dp_operators.releasing.submissions import Submission
from dp_operators.task_settings import require_task_settings
from spark_jobs.contract.embedded_engine import AUTO, EMBEDDED, require_embedded
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.embedded.choice import EngineChoice, choose_engine, without_either
from spark_jobs.embedded.installed import require_engine, require_one_pyspark, require_spark

GRACE_SECONDS = 10.0
AnyCheck = TypeVar("AnyCheck", bound=RequestCheck)

WITHHELD = ("AIRFLOW_", "DP_LEDGER_")
"""Prefixes of environment variables that the application does not get: they may hold passwords it does not need."""

_LOCAL = re.compile(r"local(\[(\*|\d+)(, ?\d+)?\])?")

APPLICATION = (sys.executable, "-P", "-m", "spark_jobs")
"""The command that starts the application; without -P, Python would import from the working directory first."""


@dataclass(frozen=True, kw_only=True)
class ProcessRunner:
    """A backend that starts a process on this machine.

    The process shares the worker's memory, and can be looked at only from this machine. So a task waits for it in its
    slot, and ends the process if the task is ended.

    Attributes:
        environment: variables for the application besides this process's own; secrets must be passed here.
        private_dir: folder for the application's output, inside the privacy boundary; None for the platform's default.
        grace: seconds between SIGTERM and SIGKILL.
    """

    kind: ClassVar[str] = PROCESS
    elsewhere: ClassVar[bool] = False
    idempotent: ClassVar[bool] = False

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    private_dir: str | Path | None = None
    grace: float = GRACE_SECONDS
    _processes: ProcessGroups = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_processes", ProcessGroups(grace=self.grace))

    def check(self, request: TableRequest) -> None:
        """Refuse an unsuitable private folder, and a table in S3 that Spark has no connector for.

        Raises:
            InvalidRequest: the folder cannot be created, other users may enter it, or the connector is missing.
        """
        self.private_folder()
        home = self._spark_home()
        require_connector(request.table.path, settings={**spark_defaults(home), **self._settings()}, home=home)

    def _spark_home(self) -> Path | None:
        """Spark's folder on this machine; None if the driver runs on another machine."""
        return spark_home()

    def _settings(self) -> Mapping[str, str]:
        """Spark settings that override ``spark-defaults.conf``."""
        return {}

    def look(self, handle: Handle) -> RunState:
        """Whether the process still runs."""
        return self._processes.look(handle)

    def kill(self, handle: Handle) -> None:
        """End the application and all its processes on this machine."""
        self._processes.kill(handle)

    def inherited(self) -> dict[str, str]:
        """The process's environment variables besides those of a run: this process's, without the withheld ones."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(WITHHELD)}
        return {**kept, **self.environment}

    def private_folder(self) -> Path:
        """The folder for what the process prints.

        Raises:
            InvalidRequest: it cannot be created, or other users may enter it.
        """
        return PrivateFolder(path=Path(self.private_dir) if self.private_dir else None).open()

    def _start(self, command: Sequence[str], variables: Mapping[str, str]) -> Handle:
        environment = {**self.inherited(), **variables}
        return self._processes.start(command, environment=environment, folder=self.private_folder())


@dataclass(frozen=True, kw_only=True)
class LocalRunner(ProcessRunner):
    """Runs the application as a process on this machine, with a Spark master of its own.

    Attributes:
        master: the Spark master, on this machine; ``local[*]`` takes all cores. ``embedded`` stands for the embedded
            engine, which needs no Java, and ``auto`` for the engine that ``choose_engine`` chooses.
        conf: Spark settings that override ``spark-defaults.conf``; only those that ``task_settings`` allows.
        command: the command that starts the application.
    """

    master: str = AUTO
    conf: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = APPLICATION

    def check(self, request: TableRequest) -> None:
        """Check Java, the salt, and a table on this machine, besides the private folder and the connector.

        Raises:
            InvalidRequest: one of them is missing or cannot be used.
        """
        require_task_settings(self.conf)
        engine = self._engine(request)
        if engine.master == EMBEDDED:
            self._check_embedded(request)
            return
        if not _LOCAL.fullmatch(engine.master):
            raise InvalidRequest(
                "master", engine.master, "must be on this machine, like local[4]",
                "for a master on another machine, name a connection and the runner cluster",
            )  # fmt: skip
        super().check(request)
        if tuple(self.command) == APPLICATION:  # another command has requirements of its own
            environment = self.inherited()
            check_driver(*DRIVER, "pyspark")
            require_one_pyspark()
            check_salt(request, environment)
            check_stream_keys(request, environment)
            check_federation(request, environment)
            check_database(request, environment)
            check_snapshot(request)
            try:
                require_spark()
                check_java(environment)
            except InvalidRequest as missing:
                raise without_either(engine, missing) from None

    def _check_embedded(self, request: TableRequest) -> None:
        if self.conf:
            raise InvalidRequest(
                "conf", ", ".join(self.conf), "must be left out with the embedded engine",
                "leave it out, or name a Spark master",
            )  # fmt: skip
        self.private_folder()
        require_embedded(request)
        if tuple(self.command) == APPLICATION:
            require_engine()
            check_driver(*DRIVER, "pyspark")
            check_salt(request, self.inherited())
            check_stream_keys(request, self.inherited())

    def _engine(self, request: TableRequest) -> EngineChoice:
        return choose_engine(request, master=self.master, settings=tuple(self.conf), environment=self.inherited())

    def suited(self, request: TableRequest) -> tuple[Self, str]:
        """This runner with the engine chosen for a request, and a public line on why; empty if the engine was named."""
        engine = self._engine(request)
        return self._with_master(engine.master), engine.why

    def _with_master(self, master: str) -> Self:
        other = replace(self, master=master)
        object.__setattr__(other, "_processes", self._processes)
        return other

    def submit(self, submission: Submission) -> Handle:
        """Start the application.

        Raises:
            OSError: it could not be started.
        """
        command = [*self.command, *submission.arguments(), f"--master={self.master}"]
        return self._start(command, {**self._spark_variables(), **submission.variables()})

    def _spark_variables(self) -> dict[str, str]:
        """The variables by which PySpark starts Java with the settings."""
        variables = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        if self.conf:
            settings = [word for name, value in self.conf.items() for word in ("--conf", f"{name}={value}")]
            variables["PYSPARK_SUBMIT_ARGS"] = shlex.join([*settings, "pyspark-shell"])
        return variables


def require_settings(names: Iterable[str]) -> None:
    """Refuse names that are not Spark's, which ``spark-submit`` would ignore silently.

    Raises:
        InvalidRequest: a name does not begin with ``spark.``.
    """
    for name in names:
        if not name.startswith("spark."):
            raise InvalidRequest("conf", name, "must begin with 'spark.'", "correct the setting's name")


def suited(backend: AnyCheck, request: TableRequest) -> tuple[AnyCheck, str]:
    """A backend with the engine chosen for a request, and a public line on why; empty if there is no choice."""
    return backend.suited(request) if isinstance(backend, LocalRunner) else (backend, "")
