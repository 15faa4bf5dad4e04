"""A whole Airflow on loopback: API server, scheduler, DAG processor and triggerer, each a process of its own, over a
PostgreSQL server, since tasks that run together fail now and then over a locked SQLite.
"""

from __future__ import annotations

import http
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.support.postgres import running_postgres
from tests.support.repository import ROOT

PATIENCE = 400.0
"""Seconds that a step may take on a busy machine."""

PARTS = (("api-server", "--workers", "1"), ("scheduler",), ("dag-processor",), ("triggerer",))

LAST = 6000
"""Characters of a log that are shown of a task that failed."""

AIRFLOW = (sys.executable, "-m", "airflow")

USER, OTHER = "dora", "otto"
"""Who may do everything; nobody may approve a budget anonymously, and not whoever asked for it."""


@dataclass(frozen=True, kw_only=True)
class LiveAirflow:
    """A running Airflow.

    Attributes:
        url: of its API server, without a trailing slash.
        home: its ``AIRFLOW_HOME``; DAGs lie in ``dags``, logs in ``logs``.
        metadata: the URL of its metadata database, as libpq reads it.
        environment: of its processes.
        processes: its parts by name, each a process group of its own.
        token: of a user who may do everything.
    """

    url: str
    home: Path
    metadata: str
    environment: Mapping[str, str] = field(repr=False)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    token: str = field(default="", repr=False)

    def start(self, part: str) -> None:
        """Start a part; what it prints is added to its file in ``home``."""
        arguments = next(arguments for arguments in PARTS if arguments[0] == part)
        with (self.home / f"{part}.out").open("ab") as out:
            self.processes[part] = subprocess.Popen(
                [*AIRFLOW, *arguments],
                env=self.environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, *parts: str) -> None:
        """End parts, with all that is in their process groups."""
        _end([self.processes[part] for part in parts])

    def as_other(self) -> LiveAirflow:
        """The same, as another user who may do everything."""
        return replace(self, token=_token(self.url, self.home, OTHER))

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """An answer of the public API, version 2; a server whose database is locked for a moment is asked again."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return _ask(method, f"{self.url}/api/v2/{path}", body, token=self.token)
            except urllib.error.HTTPError as error:
                if error.code != http.HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > end:
                    raise
            time.sleep(0.5)

    def wait(self, what: str, ready: Callable[[], Any], *, patience: float = PATIENCE) -> Any:
        """What ``ready`` gives, once it is true."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            with suppress(TimeoutError):  # a busy machine answers late
                found = ready()
                if found:
                    return found
            time.sleep(0.5)
        raise TimeoutError(f"{what}; the end of each log:\n{self._ends()}")

    def states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """The state of each task of a run."""
        found = self.call("GET", f"dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        return {each["task_id"]: each["state"] for each in found["task_instances"]}

    def has_left_its_worker(self, task_id: str, times: int = 1) -> bool:
        """Whether the scheduler knows that the processes of a task, of this many tries or runs, have ended.

        Airflow fails a task that is resumed before (3.3.2: "finished with state success, but the task instance's state
        attribute is queued"). A person who answers a question needs longer than that; a test does not.
        """
        lines = (self.home / "scheduler.out").read_text().splitlines()
        ended = ("Received executor event" in line and f"task_id='{task_id}'" in line for line in lines)
        return sum(ended) >= times

    def task_log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """All that a task logged."""
        folder = self.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
        return "".join(path.read_text() for path in sorted(folder.rglob("*.log*")) if path.is_file())

    def failures(self, dag_id: str, run_id: str) -> str:
        """What the tasks of a run that failed logged last, and what the scheduler says of them."""
        folder = self.home / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}"
        failed = [
            path
            for path in sorted(folder.rglob("*.log"))
            if any(word in path.read_text() for word in ("Task failed with exception", "Task exited", '"failed"'))
        ]
        scheduler = [
            line
            for line in (self.home / "scheduler.out").read_text().splitlines()
            if any(word in line for word in ("finished with state", "[error", "[warning", "Error:"))
        ]
        logs = [f"--- {path.relative_to(folder)}\n{path.read_text()[-LAST:]}" for path in failed]
        return "\n".join([*logs, "--- scheduler", *scheduler])[-3 * LAST :]

    def _ends(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in self.home.glob("*.out"))


@contextmanager
def live_airflow(folder: Path, dags: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[LiveAirflow]:
    """Start it, with DAG files by their names; everything ends with the context."""
    with running_postgres() as server:
        yield from _over(server.url(), folder, dags, environment)


def _over(
    metadata: str, folder: Path, dags: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[LiveAirflow]:
    port = _free_port()
    database = metadata.replace("postgresql:", "postgresql+psycopg:")
    home = folder / "airflow"
    (home / "dags").mkdir(parents=True)
    for name, text in dags.items():
        (home / "dags" / name).write_text(text)
    (home / "passwords.json").write_text(json.dumps({name: _password(name) for name in (USER, OTHER)}))
    url = f"http://127.0.0.1:{port}"
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,{OTHER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API_AUTH__JWT_SECRET": "for tests on loopback alone",
        "AIRFLOW__API__SECRET_KEY": "for tests on loopback alone",
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(_free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(_free_port()),
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": str(ROOT),  # the example DAGs import examples.demo
        **environment,
    }
    subprocess.run([*AIRFLOW, "db", "migrate"], env=env, check=True, capture_output=True, timeout=PATIENCE)
    running = LiveAirflow(url=url, home=home, metadata=metadata, environment=env)
    try:
        for part, *_ in PARTS:
            running.start(part)
            if part == "api-server":
                # a scheduler that starts a task before it can be asked fails that task
                running = replace(running, token=_token(url, home, USER))
        yield running
    finally:
        running.kill(*running.processes)


def _password(name: str) -> str:
    return f"password of {name}"


def _token(url: str, home: Path, name: str) -> str:
    signed_in = {"username": name, "password": _password(name)}
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            return str(_ask("POST", f"{url}/auth/token", signed_in, token=None)["access_token"])
        except OSError:
            time.sleep(0.5)
    raise TimeoutError((home / "api-server.out").read_text()[-4000:])


def _ask(method: str, url: str, body: Mapping[str, Any] | None, *, token: str | None) -> Any:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=content, headers=headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """The processes and all that they started; nothing of theirs is kept, so nobody has to end in peace."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for process in processes:
        process.wait(20)
