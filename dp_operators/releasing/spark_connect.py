"""The backend of a Spark Connect server: the application is a process on this machine, and the server runs queries."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from dp_operators.releasing.backends import Handle
from dp_operators.releasing.environments import DRIVER, check_driver, check_federation, check_salt
from dp_operators.releasing.runners import APPLICATION, ProcessRunner
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.tables import SparkMLModel

REMOTE_VARIABLE = "SPARK_REMOTE"
"""The environment variable in which PySpark takes a server's address, which may hold a token."""
PORT = 15002
ANSWER_SECONDS = 10.0
_CLIENT = ("google.rpc", "grpc", "grpc_status", "zstandard")


@dataclass(frozen=True, kw_only=True)
class SparkConnectRunner(ProcessRunner):
    """Runs the application's Python on this machine, and its queries on a Spark Connect server.

    Attributes:
        remote: the server's address, ``sc://HOST:PORT``, with its parameters.
        command: the command that starts the application.
    """

    remote: str = field(repr=False)
    command: Sequence[str] = APPLICATION

    def check(self, request: TableRequest) -> None:
        """Check the client, the server's port and the salt, besides the private folder.

        Raises:
            InvalidRequest: one of them is missing, or the request needs what a server cannot run: a saved pipeline, or
                the steps of a stream.
        """
        super().check(request)
        _check_request(request)
        check_driver(*DRIVER, "pyspark")
        environment = self.inherited()
        check_salt(request, environment)
        check_federation(request, environment)
        if not all(_is_installed(name) for name in _CLIENT):
            raise InvalidRequest(
                "spark_conn_id", None, "needs the packages of PySpark's client for Spark Connect",
                "install dp-diagnostics[connect]",
            )  # fmt: skip
        place = urlsplit(self.remote)
        try:
            socket.create_connection((place.hostname or "", place.port or PORT), timeout=ANSWER_SECONDS).close()
        except OSError:
            raise InvalidRequest(
                "spark_conn_id", f"sc://{place.hostname}:{place.port or PORT}",
                "must be a Spark Connect server that answers", "check its address and state",
            ) from None  # fmt: skip

    def _spark_home(self) -> Path | None:
        return None

    def submit(self, submission: Submission) -> Handle:
        """Start the application.

        Raises:
            OSError: it could not be started.
        """
        variables = {REMOTE_VARIABLE: self.remote, **submission.variables()}
        return self._start([*self.command, *submission.arguments()], variables)


def _check_request(request: TableRequest) -> None:
    remedy = "name a connection of another type"
    if not isinstance(request, ReleaseRequest):
        raise InvalidRequest("runner", "a Spark Connect server", "must not be Spark Connect for a stream", remedy)
    if request.table.form == "jdbc":
        raise InvalidRequest(
            "table.name", request.table.name,
            "must not be a table of a database with a Spark Connect server, which has no place to hold a snapshot of "
            "the database", remedy,
        )  # fmt: skip
    if request.uses_model and isinstance(request.needed_model, SparkMLModel):
        raise InvalidRequest(
            "model", "spark_ml",
            "must not be a saved pipeline with Spark Connect, because its server cannot test the pipeline before rows "
            "are read", remedy,
        )  # fmt: skip


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False
