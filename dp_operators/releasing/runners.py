"""Ways to start the Spark application. How it went is read from the store alone, never from a process's end."""

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
from dp_operators.releasing.environments import check_java, check_salt, check_snapshot
from dp_operators.releasing.processes import PrivateFolder, PrivateProcess, Progress, private_file
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import STAGE_NONCE_VARIABLE
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE

HEARTBEAT_SECONDS = 10.0
GRACE_SECONDS = 10.0

WITHHELD = ("AIRFLOW_", "DP_LEDGER_")
"""Beginnings of variables that an application has no use for: with the ledger's password, and other systems'."""

APPLICATION = (sys.executable, "-P", "-m", "spark_jobs")
"""What starts the application; without -P the working directory would come first on the path."""
LAUNCH = Path(spark_jobs.__file__).parent / "submit" / "launch.py"


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What an application is told: on its command line, where nothing is secret, and in its environment.

    Attributes:
        request_uri: where the charged request lies.
        request_sha256: its hash; the application compares it before it does anything else.
        charge_id: the charge that pays.
        key: the release key.
        output: URI of the folder that holds releases.
        run: the run's number, as the ledger recorded it.
        draw_sha256: hash of the draw that the ledger knows, so that none is made any more; empty where it knows none.
        secret: the charge's, which what is left in the store is sealed with.
    """

    request_uri: str
    request_sha256: str
    charge_id: str
    key: str
    output: str
    run: int
    draw_sha256: str = ""
    secret: bytes = field(repr=False)

    def arguments(self) -> list[str]:
        """The application's arguments; none can be taken for an option of another name."""
        named = {
            "request-sha256": self.request_sha256,
            "charge": self.charge_id,
            "key": self.key,
            "output": self.output,
            "run": self.run,
            **({"draw": self.draw_sha256} if self.draw_sha256 else {}),
        }
        return [self.request_uri, *(f"--{name}={value}" for name, value in named.items())]

    def variables(self) -> dict[str, str]:
        """What the application finds in its environment, and nobody else sees."""
        return {RUN_SECRET_VARIABLE: self.secret.hex()}


class Runner(Protocol):
    """Runs the application of one release at a time."""

    def check(self, request: ReleaseRequest) -> None:
        """Refuse what can be seen to be wrong before anything is reserved.

        Raises:
            InvalidRequest: the runner is not configured right, or not for this request.
        """

    def run(self, submission: Submission, progress: Progress) -> None:
        """Run the application to its end, whatever that is, telling its public stages.

        Raises:
            OSError: it could not be started.
        """

    def kill(self) -> None:
        """End the application and all its processes on this machine, and start nothing more; at any time."""


@dataclass(frozen=True, kw_only=True)
class _ProcessRunner:
    """A runner that starts a process on this machine.

    Attributes:
        environment: variables for the application on top of this process's own; the only way for secrets.
        private_dir: folder for what it prints, inside the privacy boundary; None for the platform's own place.
        heartbeat: seconds between two lines about a stage that goes on.
        grace: seconds between asking it to end and ending it.
    """

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    private_dir: str | Path | None = None
    heartbeat: float = HEARTBEAT_SECONDS
    grace: float = GRACE_SECONDS
    _process: PrivateProcess = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_process", PrivateProcess(interval=self.heartbeat, grace=self.grace))

    def check(self, request: ReleaseRequest) -> None:
        """Refuse a private folder that is none, and a table in S3 that Spark has no connector for.

        Raises:
            InvalidRequest: the folder cannot be made, or others may read it; or the connector is missing.
        """
        self._private_folder()
        home = self._spark_home()
        require_connector(request.table.path, settings={**spark_defaults(home), **self._settings()}, home=home)

    def _spark_home(self) -> Path | None:
        """Spark's folder on this machine; None if the driver runs elsewhere."""
        return spark_home()

    def _settings(self) -> Mapping[str, str]:
        """Settings on top of ``spark-defaults.conf``."""
        return {}

    def kill(self) -> None:
        """End the application and all its processes on this machine, and start nothing more."""
        self._process.kill()

    def _inherited(self) -> dict[str, str]:
        """The variables of this process that the application gets too."""
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
    """The application as a process of this machine, with a Spark of its own.

    Attributes:
        master: the Spark master; ``local[*]`` takes all cores.
        command: what starts the application.
    """

    master: str = "local[*]"
    command: Sequence[str] = APPLICATION

    def check(self, request: ReleaseRequest) -> None:
        """Refuse what this machine lacks for the request: its Java, its salt, its table where that lies here.

        Raises:
            InvalidRequest: that, or what ``_ProcessRunner`` refuses.
        """
        super().check(request)
        if tuple(self.command) == APPLICATION:  # what another program needs is its own matter
            environment = {**self._inherited(), **self.environment}
            check_salt(request, environment)
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
    """The application by ``spark-submit``, on a standalone cluster, YARN or Kubernetes.

    In ``cluster`` mode the driver runs elsewhere: its output and stages stay there, the output store must be one that
    it shares with this machine, ``spark_jobs`` must be installed where it runs, and ending the run here leaves it to
    the cluster. That is safe: it is one more attempt, and whatever it still does, the protocol holds.

    Settings reach ``spark-submit`` in a private file, not on the command line; in ``cluster`` mode the run's secret
    travels there too. Secrets of the application itself (the salt) belong into ``environment``, or into what the
    cluster mounts.

    Attributes:
        master: the Spark master's URL.
        deploy_mode: where the driver runs.
        conf: Spark settings, on top of ``spark-defaults.conf``.
        binary: ``spark-submit``; None for the one beside this Python, or else on the path.
        application: what is started; in cluster mode it may be a ``local://`` path inside the cluster's image.
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
                requirement="must be 'client' there: only YARN and Kubernetes run Python drivers",
                remedy="use client mode, YARN or Kubernetes",
            )

    def check(self, request: ReleaseRequest) -> None:
        """Refuse a missing ``spark-submit`` and settings it would not read.

        Raises:
            InvalidRequest: that, or the private folder is none, or Spark cannot read the table's store.
        """
        self._binary()
        properties(self.conf)
        super().check(request)
        if self.deploy_mode == "client":
            check_salt(request, {**self._inherited(), **self.environment})

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
        # the executors' Python may lie elsewhere on their machines: what is set already is right
        executors = os.environ.get("PYSPARK_PYTHON", sys.executable)
        return {"PYSPARK_PYTHON": executors, "PYSPARK_DRIVER_PYTHON": sys.executable, **submission.variables()}

    def _driver_settings(self, submission: Submission) -> dict[str, str]:
        """The settings that put the run's secret into the environment of a driver elsewhere."""
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
    """``settings`` as a Java properties file that reads back the same.

    Raises:
        InvalidRequest: a name that is no Spark setting; ``spark-submit`` would leave it out without a word.
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
