"""A stream of a real Airflow and a real Spark whose processes are killed at random moments is one release.

The scheduler, the process of a task, the application and its Java are killed with SIGKILL, and the task is run again
by what the scheduler has for it: its retries, and what it notices about tasks that no longer answer.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract.stream_keys import STREAM_KEYS_VARIABLE
from tests.support.accounts import GROWING, open_bound
from tests.support.live_airflow import LiveAirflow, live_airflow
from tests.support.s3_server import AWS, S3, s3_server
from tests.support.stream_lab import StreamLab, judge_stream, lab_request

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(7200)]

STEPS = 60
START = pd.Timestamp("2026-01-01")
ROOM = 30.0
"""The longest wait, in seconds, before the first kill: what a run takes on a busy machine."""
PATIENCE = 1200.0
DAG = """
import datetime as dt

from airflow.sdk import DAG

from dp_operators.operators.count_stream import CountStreamOperator

with DAG("arrivals", schedule=None, max_active_runs=1) as dag:
    CountStreamOperator(
        task_id="count",
        request=REQUEST,
        until="{{ dag_run.conf['until'] }}",
        master="local[1]",
        retries=100,
        retry_delay=dt.timedelta(seconds=1),
        max_retry_delay=dt.timedelta(seconds=1),
    )
"""
WATCHFUL = {
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "5",
}
"""A scheduler that soon notices a task that no longer answers; by default it takes minutes."""


@dataclass
class LiveLab(StreamLab):
    """A real table of arrivals, and its stream in a folder or in S3.

    Attributes:
        server: the S3 server, if there is one.
    """

    server: S3 | None = None

    def __post_init__(self) -> None:
        lake = self.folder / "lake"
        self.request = lab_request(
            self.output, table={"path": str(lake), "snapshot": {"path_version": "v1"}}, steps=STEPS
        )
        self.counts = np.random.default_rng(3).poisson(20, size=(STEPS, 1)).astype(np.int64)
        at = np.repeat(START + pd.to_timedelta(np.arange(STEPS), unit="h"), self.counts[:, 0])
        (lake / "v1").mkdir(parents=True)
        pd.DataFrame({"at": at}).to_parquet(lake / "v1" / "part.parquet", index=False, coerce_timestamps="us")
        with self.opened() as ledger:
            open_bound(ledger, "people", epsilon="3", table=lake, output=self.output, facts=GROWING)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        ledger = self.ledger()
        try:
            yield ledger
        finally:
            ledger.close()

    @property
    def root(self) -> Path:
        """The stream's folder; what a bucket has is copied to one."""
        if self.server is None:
            [root] = Path(self.output).glob("*-stream-*")
            return root
        bucket = self.output.removeprefix("s3:/")
        for name, content in dict(self.server.objects).items():
            path = self.folder / "mirror" / name.removeprefix(f"{bucket}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        [root] = (self.folder / "mirror").glob("*-stream-*")
        return root


@pytest.fixture(params=["folder", "s3"])
def lab(
    request: pytest.FixtureRequest, tmp_path: Path, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LiveLab]:
    if request.param == "folder":
        yield LiveLab(tmp_path, url=ledger_url, output=str(tmp_path / "releases"))
        return
    with s3_server() as server:
        for name, value in {**AWS, "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        # in the command of each application, by which a test finds its own
        yield LiveLab(tmp_path, url=ledger_url, output=f"s3://bucket{tmp_path}", server=server)


@pytest.fixture
def airflow(lab: LiveLab) -> Iterator[LiveAirflow]:
    connection = {"conn_type": "privacy_ledger", "extra": {"url": lab.url}}
    (lab.folder / "tmp").mkdir()
    environment = {
        "TMPDIR": str(lab.folder / "tmp"),  # who is killed leaves temporary files
        "AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": json.dumps(connection),
        "XDG_STATE_HOME": str(lab.folder / "private"),
        STREAM_KEYS_VARIABLE: f"k1:{'ab' * 32}",
        **WATCHFUL,
    }
    given = lab.request.to_dict()
    fields = {name: given[name] for name in ("account", "time", "start", "step", "steps", "budget", "output")}
    fields["table"] = {"path": given["table"]["path"], "snapshot": given["table"]["snapshot"]}
    try:
        with live_airflow(lab.folder, {"arrivals.py": f"REQUEST = {fields!r}\n{DAG}"}, environment) as running:
            running.wait("the DAG is known", lambda: _known(running))
            yield running
    finally:
        # an application outlives a task that was killed; nobody starts another now
        end([*victims(lab, "java"), *applications(lab)])


def _known(airflow: LiveAirflow) -> bool:
    with suppress(HTTPError):
        return bool(airflow.call("GET", "dags/arrivals"))
    return False


def start(airflow: LiveAirflow, hours: int) -> str:
    """Trigger a run that is to release so many hours."""
    until = (START + pd.Timedelta(hours=hours)).tz_localize("UTC").isoformat()
    asked = {"logical_date": None, "conf": {"until": until}}
    return str(airflow.call("POST", "dags/arrivals/dagRuns", asked)["dag_run_id"])


def state(airflow: LiveAirflow, run: str) -> str:
    """Of a run, once the API server can say it: on a busy machine it answers late, or that its database is locked."""

    def answered() -> str:
        try:
            return str(airflow.call("GET", f"dags/arrivals/dagRuns/{run}")["state"])
        except HTTPError as error:
            if error.code < 500:
                raise
            return ""

    return str(airflow.wait("the API server answers", answered))


def applications(lab: LiveLab) -> list[psutil.Process]:
    """The applications of this test that run now: Python with this output among its arguments."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            command = process.cmdline()
            if "spark_jobs" in command and any(argument.endswith(lab.output) for argument in command):
                found.append(process)
    return found


def victims(lab: LiveLab, victim: str) -> list[psutil.Process]:
    """The processes of this kind that run now."""
    running = applications(lab)
    if victim == "application":
        return running
    found: list[psutil.Process] = []
    for one in running:
        with suppress(psutil.NoSuchProcess):
            if victim == "java":
                found += [child for child in one.children(recursive=True) if child.name() == "java"]
            elif (parent := one.parent()) is not None and parent.pid != 1:
                found.append(parent)
    return found


def end(processes: list[psutil.Process]) -> None:
    """Kill those of them that still run."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def kill_at_random(airflow: LiveAirflow, lab: LiveLab, *, kills: int) -> Counter[str]:
    """Kill until so many kills have met somebody, while runs that are each an hour further follow one another."""
    chance, met, hours = random.Random(f"{lab.url.split(':')[0]} {lab.server is None} {kills}"), Counter[str](), 1
    kinds = chance.sample(("java", "scheduler", "task", "application"), 4)
    run, room = start(airflow, hours), ROOM
    while met.total() < kills:
        victim = kinds[met.total() % len(kinds)]
        if victim != "scheduler":  # the moment is one of a run, not of a pause between two
            airflow.wait(
                "a run begins", lambda run=run: applications(lab) or state(airflow, run) == "success", patience=PATIENCE
            )
        time.sleep(chance.uniform(0, room))
        if state(airflow, run) == "success":
            # a run was over before the kill: where runs are short, waits have to be
            room, hours = max(0.8 * room, 1.0), hours + 1
            assert hours <= STEPS, f"the stream is over after {met.total()} of {kills} kills"
            run = start(airflow, hours)
        elif victim == "scheduler":
            airflow.kill(victim)
            airflow.start(victim)
            met[victim] += 1
        else:
            found = victims(lab, victim)
            end(found)
            met[victim] += bool(found)
    airflow.wait("the last run is done", lambda: state(airflow, run) == "success", patience=PATIENCE)
    return met


@pytest.mark.postgres
@pytest.mark.parametrize("kills", [3, 13])
def test_a_stream_of_a_real_airflow_is_one_release_whatever_is_killed(
    airflow: LiveAirflow, lab: LiveLab, kills: int
) -> None:
    met = kill_at_random(airflow, lab, kills=kills)
    assert met.total() == kills
    run = start(airflow, STEPS)
    airflow.wait("the stream is finished", lambda: state(airflow, run) == "success", patience=PATIENCE)
    judge_stream(lab, steps=STEPS)
    tables = [pq.read_table(path).to_pandas() for path in sorted((lab.root / "steps").glob("*.parquet"))]
    noisy = pd.concat(tables).sort_values("step")["noisy"].to_numpy()
    # each hour has its own count: noise at epsilon 1 is beyond 40 with probability 4e-18
    assert np.abs(noisy - lab.counts[:, 0]).max() < 40
