"""Runners start the Spark application. Its outcome is read from the store; the exit status is not used."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import spark_jobs
from dp_operators.releasing.connectors import require_connector, spark_defaults, spark_home
from dp_operators.releasing.environments import check_java, check_salt, check_snapshot, check_stream_keys
from dp_operators.releasing.processes import PrivateFolder, PrivateProcess, Progress, private_file
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.layout import STAGE_NONCE_VARIABLE
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE
from spark_jobs.contract.table_request import TableRequest

HEARTBEAT_SECONDS = 10.0
GRACE_SECONDS = 10.0

WITHHELD = ("AIRFLOW_", "DP_LEDGER_")
"""Prefixes of environment variables that the application does not get: they may hold passwords it does not need."""

APPLICATION = (sys.executable, "-P", "-m", "spark_jobs")
"""The command that starts the application; without -P, Python would import from the working directory first."""
LAUNCH = Path(spark_jobs.__file__).parent / "submit" / "launch.py"


@dataclass(frozen=True, kw_only=True)
class StreamRun:
    """The steps that a run of a stream releases.

    Attributes:
        first, until: the number of the first step, and of the step after the last.
        segment: the number of the first step of the last recorded object; 0 before the first object.
        previous: hash of that object.
        document_sha256: hash of the run's request, whose snapshot the charge does not fix.
    """

    first: int
    until: int
    segment: int
    previous: str
    document_sha256: str

    def named(self) -> dict[str, str]:
        """The command-line options of the application."""
        return {
            "steps": f"{self.first}:{self.until}",
            "previous": f"{self.segment}:{self.previous}",
            "document-sha256": self.document_sha256,
        }


@dataclass(frozen=True, kw_only=True)
class Submission:
    """The inputs of one run: all but the secret are on the command line, the secret is in the environment.

    Attributes:
        request_uri: URI of the charged request.
        request_sha256: the request's hash; the application checks it before anything else.
        charge_id: the charge that pays.
        key: the release key.
        output: URI of the folder that holds releases.
        run: the run's number in the ledger.
        draw_sha256: hash of the recorded draw, which the run must adopt; empty if the ledger has recorded none.
        stream: which steps a run of a stream releases; None for a release.
        secret: the charge's secret, with which everything in the draft is sealed.
    """

    request_uri: str
    request_sha256: str
    charge_id: str
    key: str
    output: str
    run: int
    draw_sha256: str = ""
    stream: StreamRun | None = None
    secret: bytes = field(repr=False)

    def arguments(self) -> list[str]:
        """The application's command-line arguments; a value cannot be mistaken for another option."""
        named = {
            "request-sha256": self.request_sha256,
            "charge": self.charge_id,
            "key": self.key,
            "output": self.output,
            "run": self.run,
            **({"draw": self.draw_sha256} if self.draw_sha256 else {}),
            **({} if self.stream is None else self.stream.named()),
        }
        return [self.request_uri, *(f"--{name}={value}" for name, value in named.items())]

    def variables(self) -> dict[str, str]:
        """The environment variables that only the application gets."""
        return {RUN_SECRET_VARIABLE: self.secret.hex()}


class Runner(Protocol):
    """Runs the Spark application, for one release at a time."""

    def check(self, request: TableRequest) -> None:
        """Check the runner's configuration before anything is reserved.

        Raises:
            InvalidRequest: the configuration is wrong, or does not suit this request.
        """

    def run(self, submission: Submission, progress: Progress) -> None:
        """Run the application until it succeeds, fails or is killed, and report its public stages to ``progress``.

        Raises:
            OSError: it could not be started.
        """

    def kill(self) -> None:
        """End the application and all its processes on this machine, and start no other; may be called at any time."""


@dataclass(frozen=True, kw_only=True)
class _ProcessRunner:
    """A runner that starts a process on this machine.

    Attributes:
        environment: variables for the application besides this process's own; secrets must be passed here.
        private_dir: folder for the application's output, inside the privacy boundary; None for the platform's default.
        heartbeat: seconds between progress lines while a stage lasts.
        grace: seconds between SIGTERM and SIGKILL.
    """

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    private_dir: str | Path | None = None
    heartbeat: float = HEARTBEAT_SECONDS
    grace: float = GRACE_SECONDS
    _process: PrivateProcess = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_process", PrivateProcess(interval=self.heartbeat, grace=self.grace))

    def check(self, request: TableRequest) -> None:
        """Refuse an unsuitable private folder, and a table in S3 that Spark has no connector for.

        Raises:
            InvalidRequest: the folder cannot be created, other users may enter it, or the connector is missing.
        """
        self._private_folder()
        home = self._spark_home()
        require_connector(request.table.path, settings={**spark_defaults(home), **self._settings()}, home=home)

    def _spark_home(self) -> Path | None:
        """Spark's folder on this machine; None if the driver runs on another machine."""
        return spark_home()

    def _settings(self) -> Mapping[str, str]:
        """Spark settings that override ``spark-defaults.conf``."""
        return {}

    def kill(self) -> None:
        """End the application and all its processes on this machine, and start nothing more."""
        self._process.kill()

    def _inherited(self) -> dict[str, str]:
        """This process's environment variables, without the withheld ones."""
        return {name: value for name, value in os.environ.items() if not name.startswith(WITHHELD)}

    def _private_folder(self) -> Path:
        return PrivateFolder(path=Path(self.private_dir) if self.private_dir else None).open()

    def _run(self, command: Sequence[str], variables: Mapping[str, str], progress: Progress) -> None:
        nonce = secrets.token_hex(16)
        self._process.run(
            command,
            environment={**self._inherited(), **self.environment, **variables, STAGE_NONCE_VARIABLE: nonce},
            folder=self._private_folder(),
            nonce=nonce,
            progress=progress,
        )


@dataclass(frozen=True, kw_only=True)
class LocalRunner(_ProcessRunner):
    """Runs the application as a process on this machine, with a Spark master of its own.

    Attributes:
        master: the Spark master; ``local[*]`` takes all cores.
        command: the command that starts the application.
    """

    master: str = "local[*]"
    command: Sequence[str] = APPLICATION

    def check(self, request: TableRequest) -> None:
        """Check Java, the salt, and a table on this machine, besides the private folder and the connector.

        Raises:
            InvalidRequest: one of them is missing or cannot be used.
        """
        super().check(request)
        if tuple(self.command) == APPLICATION:  # another command has requirements of its own
            environment = {**self._inherited(), **self.environment}
            check_salt(request, environment)
            check_stream_keys(request, environment)
            check_snapshot(request)
            check_java(environment)

    def run(self, submission: Submission, progress: Progress) -> None:
        """Run the application to its end.

        Raises:
            OSError: it could not be started.
        """
        command = [*self.command, *submission.arguments(), f"--master={self.master}"]
        pythons = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        self._run(command, {**pythons, **submission.variables()}, progress)


@dataclass(frozen=True, kw_only=True)
class SparkSubmitRunner(_ProcessRunner):
    """Runs the application with ``spark-submit`` on a standalone cluster, YARN or Kubernetes.

    In ``cluster`` mode the driver runs on the cluster: its output and stages stay there, ``spark_jobs`` must be
    installed there, and the output store must be shared with this machine. Ending the run here does not end the driver.
    That is safe, because the protocol treats it as one more concurrent attempt.

    Settings are passed to ``spark-submit`` in a private file instead of the command line, in ``cluster`` mode with the
    run's secret. The application's own secret, the salt, belongs in ``environment`` or in a secret that the cluster
    mounts.

    Attributes:
        master: the Spark master's URL.
        deploy_mode: ``client`` or ``cluster``: where the driver runs.
        conf: Spark settings that override ``spark-defaults.conf``.
        binary: path of ``spark-submit``; None for the one beside this Python, else the first on the path.
        application: the script to start; in cluster mode it may be a ``local://`` path inside the cluster's image.
    """

    master: str
    deploy_mode: Literal["client", "cluster"] = "client"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    binary: str | None = None
    application: str = str(LAUNCH)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.deploy_mode not in ("client", "cluster"):
            raise InvalidRequest(
                "deploy_mode", value=self.deploy_mode, requirement="must be 'client' or 'cluster'", remedy="choose one"
            )
        if self.deploy_mode == "cluster" and not self.master.startswith(("yarn", "k8s:")):
            raise InvalidRequest(
                "deploy_mode",
                value=f"cluster, with master {self.master}",
                requirement="must be 'client' with this master: only YARN and Kubernetes run Python drivers",
                remedy="use client mode, YARN or Kubernetes",
            )

    def check(self, request: TableRequest) -> None:
        """Check ``spark-submit``, the settings, and the salt in client mode, besides the private folder and connector.

        Raises:
            InvalidRequest: one of them is missing or cannot be used.
        """
        self._binary()
        properties(self.conf)
        super().check(request)
        if self.deploy_mode == "client":
            environment = {**self._inherited(), **self.environment}
            check_salt(request, environment)
            check_stream_keys(request, environment)

    def _spark_home(self) -> Path | None:
        return None if self.deploy_mode == "cluster" else spark_home(binary=self._binary())

    def _settings(self) -> Mapping[str, str]:
        return {name: str(value) for name, value in self.conf.items()}

    def run(self, submission: Submission, progress: Progress) -> None:
        """Run the application to its end.

        Raises:
            OSError: it could not be started.
        """
        with private_file(self._private_folder(), ".conf") as (stream, settings):
            try:
                stream.write(properties({**self.conf, **self._driver_settings(submission)}).encode())
                stream.flush()
                self._run(self._command(submission, settings), self._variables(submission), progress)
            finally:
                settings.unlink()

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

    def _variables(self, submission: Submission) -> dict[str, str]:
        if self.deploy_mode == "cluster":
            return {}
        # on the executors' machines, Python may have another path: a variable that is set already is kept
        executors = os.environ.get("PYSPARK_PYTHON", sys.executable)
        return {"PYSPARK_PYTHON": executors, "PYSPARK_DRIVER_PYTHON": sys.executable, **submission.variables()}

    def _driver_settings(self, submission: Submission) -> dict[str, str]:
        """The Spark settings that put the run's secret into the environment of a driver on the cluster."""
        if self.deploy_mode == "client":
            return {}
        prefix = "spark.yarn.appMasterEnv" if self.master.startswith("yarn") else "spark.kubernetes.driverEnv"
        return {f"{prefix}.{name}": value for name, value in submission.variables().items()}

    def _binary(self) -> str:
        beside = Path(sys.executable).with_name("spark-submit")
        binary = shutil.which(self.binary or (str(beside) if beside.exists() else "spark-submit"))
        if binary is None:
            raise InvalidRequest(
                "binary",
                value=self.binary or "spark-submit",
                requirement="must be a spark-submit that can be run",
                remedy="install Spark on this machine, or give the full path",
            )
        return binary


def properties(settings: Mapping[str, str]) -> str:
    """``settings`` as the text of a Java properties file, escaped so that Java reads the same values.

    Raises:
        InvalidRequest: a name is not a Spark setting; ``spark-submit`` would ignore it silently.
    """
    for name in settings:
        if not name.startswith("spark."):
            raise InvalidRequest(
                "conf", value=name, requirement="must begin with 'spark.'", remedy="correct the setting's name"
            )
    return "".join(f"{_escaped(name, ' =:')}={_escaped(str(value), '')}\n" for name, value in settings.items())


def _escaped(text: str, special: str) -> str:
    escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    written = "".join(escapes.get(char, f"\\{char}" if char in special else char) for char in text)
    return f"\\{written}" if written.startswith((" ", "#", "!")) else written
