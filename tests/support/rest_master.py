"""A real standalone cluster that takes drivers over HTTP: its master can die and come back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dp_operators.releasing.clusters import StandaloneCluster
from spark_jobs.application.java import java_home
from tests.support.cluster import LOOPBACK, base_environment, kill_group, wait_for
from tests.support.live_airflow import _free_port


class RestMaster:
    """A master and a worker; Spark allows no shared secret beside the REST server.

    Attributes:
        folder: with the daemons' logs, and what the master recovers from.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self._ports = _free_port(), _free_port()
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "conf").mkdir()
        self._environment = {
            **base_environment(java_home()),
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.master.rest.enabled=true -Dspark.master.rest.port={self._ports[1]} "
            f"-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryDirectory={folder}/recovery "
            + os.environ.get("SPARK_SUBMIT_OPTS", ""),
            **variables,
        }

    def start_master(self) -> None:
        """Start the master, or start it again: it recovers the drivers that it knew."""
        ready = r"REST server for submitting applications on \S+ with port (\d+)"
        self._start("Master", ready, "--host", LOOPBACK, "--port", str(self._ports[0]))

    def start_worker(self, *, cores: int, memory: str) -> None:
        """Start the worker."""
        given = ("--host", LOOPBACK, "--work-dir", str(self.folder / "work"), "--cores", str(cores), "--memory", memory)
        self._start("Worker", r"(Successfully registered with master)", *given, self.backend().master)

    def _start(self, name: str, ready: str, *arguments: str) -> None:
        log = self.log(name)
        command = ["spark-class", f"org.apache.spark.deploy.{name.lower()}.{name}", *arguments, "--webui-port", "0"]
        with log.open("wb") as output:
            self._started[name] = subprocess.Popen(
                command, env=self._environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        wait_for(ready, self._started[name], log)

    def log(self, name: str) -> Path:
        """What a daemon has printed since it was last started."""
        return self.folder / f"{name}.log"

    def kill_master(self) -> None:
        """End the master the hard way; the worker and its drivers go on."""
        kill_group(self._started["Master"])

    def stop(self) -> None:
        """End the daemons, with all that they started."""
        for process in self._started.values():
            kill_group(process)

    def backend(self) -> StandaloneCluster:
        """The backend of this cluster."""
        return StandaloneCluster(
            master=f"spark://{LOOPBACK}:{self._ports[0]}",
            rest=f"http://{LOOPBACK}:{self._ports[1]}",
            conf={"spark.driver.memory": "1g", "spark.executor.memory": "512m", "spark.cores.max": "1"},
        )


@contextmanager
def rest_master(folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[RestMaster]:
    """A running cluster, whose drivers have these environment variables too."""
    running = RestMaster(folder, variables or {})
    try:
        running.start_master()
        running.start_worker(cores=2, memory="3g")
        yield running
    finally:
        running.stop()
