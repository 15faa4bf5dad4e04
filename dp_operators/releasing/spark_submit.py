"""The backends behind ``spark-submit``: a driver on this machine, or one on YARN or Kubernetes."""

from __future__ import annotations

import os
import shutil
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import spark_jobs
from dp_operators.releasing.backends import Handle, RemoteBackend, RunState
from dp_operators.releasing.connectors import spark_home
from dp_operators.releasing.environments import DRIVER, check_driver, check_federation, check_salt, check_stream_keys
from dp_operators.releasing.processes import private_file
from dp_operators.releasing.runners import ProcessRunner, require_settings
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.table_request import TableRequest

LAUNCH = Path(spark_jobs.__file__).parent / "submit" / "launch.py"
SUBMIT_SECONDS = 600.0
"""The longest time that ``spark-submit`` may take to hand an application to a cluster."""

_REMOVING = """trap 'exit 143' TERM INT; trap 'rm -f -- "$0"' EXIT; "$@" """
"""Runs a command, and removes the file of its settings when it has ended."""


@dataclass(frozen=True, kw_only=True)
class SparkSubmit(ProcessRunner):
    """The base of the backends that start the application by ``spark-submit``.

    Settings are passed in a private file instead of the command line. The application's own secret, the salt, belongs
    in ``environment`` or in a secret that the cluster mounts.

    Attributes:
        master: the Spark master's URL.
        conf: Spark settings that override ``spark-defaults.conf``.
        binary: path of ``spark-submit``; None for the one beside this Python, else the first on the path.
        application: the script to start; in cluster mode it may be a ``local://`` path inside the cluster's image.
    """

    deploy_mode: ClassVar[str]

    master: str
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    binary: str | None = None
    application: str = str(LAUNCH)

    def check(self, request: TableRequest) -> None:
        """Check ``spark-submit`` and the settings, besides the private folder and the connector.

        Raises:
            InvalidRequest: one of them is missing or cannot be used.
        """
        self._binary()
        properties(self.conf)
        super().check(request)

    def _settings(self) -> Mapping[str, str]:
        return {name: str(value) for name, value in self.conf.items()}

    def _command(self, submission: Submission, settings: Path) -> list[str]:
        return [
            self._binary(),
            f"--master={self.master}",
            f"--deploy-mode={self.deploy_mode}",
            f"--name=dp-diagnostics-{submission.charge_id}",
            f"--properties-file={settings}",
            "--load-spark-defaults",
            self.application,
            *submission.arguments(),
        ]

    @contextmanager
    def _settings_file(self, settings: Mapping[str, str]) -> Iterator[Path]:
        """A private file with the Spark settings, which is removed if the body fails."""
        with private_file(self.private_folder(), ".conf") as (stream, path):
            stream.write(properties(settings).encode())
        try:
            yield path
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def _binary(self) -> str:
        beside = Path(sys.executable).with_name("spark-submit")
        binary = shutil.which(self.binary or (str(beside) if beside.exists() else "spark-submit"))
        if binary is None:
            raise InvalidRequest(
                "binary", self.binary or "spark-submit", "must be a spark-submit that can be run",
                "install Spark on this machine, or give the full path",
            )  # fmt: skip
        return binary


@dataclass(frozen=True, kw_only=True)
class SparkSubmitRunner(SparkSubmit):
    """Runs the driver on this machine with ``spark-submit``, for any master that Spark knows.

    The run's secret is in the environment of the driver alone.
    """

    deploy_mode: ClassVar[str] = "client"

    def check(self, request: TableRequest) -> None:
        """Check the driver's packages and the salt, besides what all backends behind ``spark-submit`` need.

        Raises:
            InvalidRequest: something is missing or cannot be used.
        """
        super().check(request)
        check_driver(*DRIVER)
        environment = self.inherited()
        check_salt(request, environment)
        check_stream_keys(request, environment)
        check_federation(request, environment)

    def _spark_home(self) -> Path | None:
        return spark_home(binary=self._binary())

    def submit(self, submission: Submission) -> Handle:
        """Start the driver.

        Raises:
            OSError: it could not be started.
        """
        # on the executors' machines, Python may have another path: a variable that is set already is kept
        executors = os.environ.get("PYSPARK_PYTHON", sys.executable)
        pythons = {"PYSPARK_PYTHON": executors, "PYSPARK_DRIVER_PYTHON": sys.executable}
        with self._settings_file(self.conf) as settings:
            command = ["/bin/sh", "-c", _REMOVING, str(settings), *self._command(submission, settings)]
            return self._start(command, {**pythons, **submission.variables()})


@dataclass(frozen=True, kw_only=True)
class ClusterSubmit(RemoteBackend, SparkSubmit):
    """Hands the application to a cluster that runs the driver; charge and run make up the application's name there.

    ``spark-submit`` ends as soon as the cluster has accepted the application; from then on its state is read through
    the cluster's own interface. ``spark_jobs`` must be installed on the cluster, and the output store must be shared
    with this machine. The run's secret is among the settings of the driver's environment.
    """

    deploy_mode: ClassVar[str] = "cluster"
    environment_prefix: ClassVar[str]
    """The prefix of Spark settings that become variables of the driver's environment."""

    def _spark_home(self) -> Path | None:
        return None

    def start(self, submission: Submission) -> Handle:
        """Hand the application to the cluster, unless the cluster already has this run's application."""
        handle = self.handle(submission)
        if self.exists(handle):
            return handle
        secret = {f"{self.environment_prefix}.{name}": value for name, value in submission.variables().items()}
        with self._settings_file({**self.conf, **self._named(submission), **secret}) as settings:
            submitting = self._start(self._command(submission, settings), {})
            try:
                deadline = time.monotonic() + SUBMIT_SECONDS
                while self._processes.look(submitting) is RunState.RUNNING and time.monotonic() < deadline:
                    time.sleep(0.05)
            finally:
                self._processes.kill(submitting)
            settings.unlink()
        if self._processes.exit_status(submitting) != 0 and not self.exists(handle):
            raise OSError("spark-submit failed")
        return handle

    @abstractmethod
    def handle(self, submission: Submission) -> Handle:
        """The handle of a run's application, which is known before it is submitted."""

    @abstractmethod
    def exists(self, handle: Handle) -> bool:
        """Whether the cluster knows of the application, running or ended, as far as its records go back."""

    @abstractmethod
    def _named(self, submission: Submission) -> dict[str, str]:
        """The Spark settings that give the application its name, and end ``spark-submit`` once it is accepted."""


def properties(settings: Mapping[str, str]) -> str:
    """``settings`` as the text of a Java properties file, escaped so that Java reads the same values.

    Raises:
        InvalidRequest: a name is not a Spark setting; ``spark-submit`` would ignore it silently.
    """
    require_settings(settings)
    return "".join(f"{_escaped(name, ' =:')}={_escaped(str(value), '')}\n" for name, value in settings.items())


def _escaped(text: str, special: str) -> str:
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    written = "".join(escapes.get(char, f"\\{char}" if char in special else char) for char in text)
    return f"\\{written}" if written.startswith((" ", "#", "!")) else written
