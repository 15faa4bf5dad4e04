"""A real Spark Connect server on loopback, from the wheel that the tests run with."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.application.java import java_home
from tests.support.cluster import LOOPBACK, PATIENCE, kill_group

BOUNDARY = {"spark.ui.enabled": "false", "spark.io.encryption.enabled": "true"}
"""The settings with which a server keeps rows to itself."""


@dataclass(frozen=True, kw_only=True)
class ConnectServer:
    """A running server.

    Attributes:
        port: of its interface.
        log: what it prints.
        process: the server's own.
    """

    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def remote(self) -> str:
        """Its address, as PySpark takes it."""
        return f"sc://{LOOPBACK}:{self.port}"

    def kill(self) -> None:
        """End the server the hard way."""
        assert self.process is not None
        kill_group(self.process)


@contextmanager
def connect_server(folder: Path, conf: dict[str, str], *, port: int = 0) -> Iterator[ConnectServer]:
    """A server with its own executors in one process, on this port or a free one."""
    if not port:
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port = probe.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": "1g",
        **conf,
    }
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        "--class=org.apache.spark.sql.connect.service.SparkConnectServer",
        "--master=local[2]",
        *(f"--conf={name}={value}" for name, value in settings.items()),
        "spark-internal",
    ]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable}
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while "Spark Connect server started" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text()[-2000:])
            time.sleep(0.2)
        yield ConnectServer(port=port, log=log, process=process)
    finally:
        kill_group(process)
