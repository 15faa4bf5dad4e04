"""A real Spark standalone cluster on loopback: what docker/compose.yaml starts, as processes of this machine."""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.application.java import java_home

START = Path(__file__).parents[2] / "docker" / "spark" / "start"
LOOPBACK = "127.0.0.1"
PATIENCE = 120.0
"""Seconds a daemon may take to come up on a busy machine."""


@dataclass(frozen=True, kw_only=True)
class SparkCluster:
    """A running cluster.

    Attributes:
        master: its URL, ``spark://127.0.0.1:PORT``.
        conf_dir: ``SPARK_CONF_DIR`` for whoever submits to it; holds the cluster's secret.
        java_home: the Java it runs on.
        pages: the daemons' own pages, by their names.
        logs: the daemons' logs, by their names.
        daemons: their processes, by their names.
    """

    master: str
    conf_dir: Path
    java_home: Path
    pages: dict[str, str]
    logs: dict[str, Path]
    daemons: dict[str, subprocess.Popen[bytes]]

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to submit to this cluster."""
        return {
            **base_environment(self.java_home),
            "SPARK_CONF_DIR": str(self.conf_dir),
            "SPARK_MASTER": self.master,
        }

    def kill(self, daemon: str) -> None:
        """End one daemon, with the executors it started, the hard way."""
        kill_group(self.daemons[daemon])


@contextmanager
def spark_cluster(folder: Path, *, workers: int = 1, cores: int = 1, memory: str = "1g") -> Iterator[SparkCluster]:
    """A master and ``workers`` workers on free ports of 127.0.0.1, ended with all their children on the way out.

    They ask for a shared secret and encrypt what they say to each other, as the compose file has it.

    Raises:
        RuntimeError: a daemon ended, or did not come up in time; the message holds the end of its log.
    """
    conf_dir = folder / "conf"
    conf_dir.mkdir(parents=True)
    write_defaults(conf_dir / "spark-defaults.conf", secret=secrets.token_hex(32))
    home = java_home()
    environment = {
        **base_environment(home),
        "SPARK_CONF_DIR": str(conf_dir),
        "SPARK_DAEMON_HOST": LOOPBACK,
        "SPARK_MASTER_HOST": LOOPBACK,
        "SPARK_MASTER_PORT": "0",
        "SPARK_UI_PORT": "0",
        "SPARK_WORKER_CORES": str(cores),
        "SPARK_WORKER_MEMORY": memory,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    }
    logs: dict[str, Path] = {}
    pages: dict[str, str] = {}
    daemons: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as running:

        def start(name: str, role: str, ready: str, **more: str) -> str:
            logs[name] = folder / f"{name}.log"
            daemons[name] = running.enter_context(_daemon(role, {**environment, **more}, logs[name]))
            found = wait_for(ready, daemons[name], logs[name])
            pages[name] = wait_for(
                rf"Bound {role.title()}WebUI to {LOOPBACK}, and started at (\S+)", daemons[name], logs[name]
            )
            return found

        port = start("master", "master", r"Starting Spark master at spark://127\.0\.0\.1:(\d+)")
        for number in range(workers):
            name = f"worker-{number}"
            start(
                name,
                "worker",
                r"(Successfully registered with master)",
                SPARK_MASTER_PORT=port,
                SPARK_WORKER_DIR=str(folder / name),
            )
        yield SparkCluster(
            master=f"spark://{LOOPBACK}:{port}",
            conf_dir=conf_dir,
            java_home=home,
            pages=pages,
            logs=logs,
            daemons=daemons,
        )


def write_defaults(path: Path, *, secret: str) -> None:
    """A ``spark-defaults.conf`` with the settings of docker/compose.yaml and this secret, for its owner's eyes only."""
    import yaml

    compose = yaml.safe_load((START.parents[1] / "compose.yaml").read_text())
    content = compose["configs"]["spark-defaults"]["content"]
    text, replaced = re.subn(r"\$\{SPARK_SECRET:\?[^}]*\}", secret, content)
    if replaced != 1:
        raise RuntimeError("docker/compose.yaml does not ask for SPARK_SECRET exactly once")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)


def base_environment(home: Path) -> dict[str, str]:
    """The variables of a process that runs Spark with this Java and this Python."""
    of_the_run = ("SPARK_LOCAL_DIRS", "SPARK_SUBMIT_OPTS")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in of_the_run or not name.startswith(("SPARK_", "PYSPARK_"))
    }
    return {
        **kept,
        "JAVA_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
    }


@contextmanager
def _daemon(role: str, environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(START), role],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # a group of its own, so that executors end with it; and it ends when this process dies, however it dies
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    try:
        yield process
    finally:
        kill_group(process)


def _die_with_parent() -> None:
    set_parent_death_signal = 1
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that has a group of its own, and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(pattern: str, process: subprocess.Popen[bytes], log: Path) -> str:
    """What ``pattern`` found in a process's log, or in its first group, once it is there.

    Raises:
        RuntimeError: the process ended, or it took too long; the message holds the end of the log.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        text = log.read_text(errors="replace")
        if found := re.search(pattern, text):
            return found.group(min(1, found.re.groups))
        if process.poll() is not None or time.monotonic() > deadline:
            state = "is not up" if process.poll() is None else f"ended with {process.returncode}"
            raise RuntimeError(f"{log.stem} {state}; the end of its log:\n" + "\n".join(text.splitlines()[-20:]))
        time.sleep(0.1)
