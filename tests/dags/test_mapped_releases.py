"""Mapped releases on a cluster, in a real Airflow with two workers: they wait without one, all at once.

The cluster is the REST server of a standalone master; an application is what the real one does with counts that are
given. The triggerer is killed while it looks at all of them: twelve, or thirty-two in ``make soak``.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from spark_jobs.application.progress import Announcer
from spark_jobs.application.run import Charged, run_charged
from spark_jobs.contract import ReleaseRequest
from spark_jobs.contract.store.objects import open_store
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE, Seal
from spark_jobs.mechanisms.noise import SecureNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.accounts import open_bound
from tests.support.http_places import Master
from tests.support.live_airflow import LiveAirflow, live_airflow

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(2400)]

WORKERS, SECONDS = 2, 10.0
PATIENCE = 900.0
SAMPLE_SECONDS = 0.1
TABLE = "/lake/visits"
DAG = """
from airflow.sdk import DAG

from dp_operators.operators.release import ReleaseDiagnosticsOperator

with DAG("many", schedule=None, catchup=False):
    ReleaseDiagnosticsOperator.partial(
        task_id="release", account="visits", epsilon="0.03125", label="visit", diagnostics="auc",
        table={"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        model={"kind": "columns", "score": "score", "basis": "public"},
        output=OUTPUT, runner="cluster", spark_conn_id="farm", deferrable=True, retries=2, retry_delay=1,
    ).expand(where=[f"amount > {place}" for place in range(RELEASES)])
"""


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Iterator[Master]:
    """A cluster whose applications count no table, but do all the rest."""

    @contextmanager
    def no_rows(*_: Any, **__: Any) -> Iterator[None]:
        yield None

    counts = ScoreCounts.from_keys(np.arange(40) * 800, np.full(40, 25))
    monkeypatch.setattr("spark_jobs.application.session.reading", no_rows)
    monkeypatch.setattr(
        "spark_jobs.application.count_statistics.count", lambda rows, request: dict.fromkeys(request.statistics, counts)
    )
    master = Master()
    yield master
    master.server.close()


def run_application(created: dict[str, Any]) -> None:
    """What the application of a driver does, from its command line and its environment."""
    arguments = created["appArgs"]
    named = dict(word.removeprefix("--").split("=", 1) for word in arguments if word.startswith("--"))
    [uri] = [word for word in arguments if word.endswith("request.json")]
    store = open_store(named["output"])
    run_charged(
        ReleaseRequest.from_json(store.read(uri) or b""),
        Charged(
            key=named["key"],
            seal=Seal(
                secret=bytes.fromhex(created["environmentVariables"][RUN_SECRET_VARIABLE]),
                charge_id=named["charge"],
                request_sha256=named["request-sha256"],
            ),
            run=int(named["run"]),
            draw_sha256=named.get("draw", ""),
        ),
        output=named["output"],
        store=store,
        noise=SecureNoise(),
        master=None,
        announcer=Announcer.for_process(StringIO()),
    )


class Watch:
    """Samples the states of all tasks from Airflow's own database, until it is stopped.

    Attributes:
        running: the largest number of tasks that had a worker at once.
        deferred: the largest number that waited without one.
        seconds: how long each mapped task had a worker, in all.
        loads: the machine's load at each sample.
    """

    def __init__(self, database: str) -> None:
        self.running = self.deferred = 0
        self.seconds: Counter[int] = Counter()
        self.loads: list[float] = []
        self._database = database
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        before = time.monotonic()
        with psycopg.connect(self._database, autocommit=True) as database:
            while not self._ended.wait(SAMPLE_SECONDS):
                rows = database.execute("SELECT map_index, state FROM task_instance WHERE map_index >= 0").fetchall()
                now = time.monotonic()
                states = Counter(state for _, state in rows)
                self.loads.append(os.getloadavg()[0])
                self.running = max(self.running, states["running"])
                self.deferred = max(self.deferred, states["deferred"])
                for place, state in rows:
                    if state == "running":
                        self.seconds[place] += now - before
                before = now

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(60)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[PrivacyLedger]:
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.migrate()
    open_bound(ledger, "visits", epsilon="1", table=TABLE, output=tmp_path / "releases")
    yield ledger
    ledger.close()


@pytest.fixture(params=[12, pytest.param(32, marks=pytest.mark.soak)])
def releases(request: pytest.FixtureRequest) -> int:
    """How many are mapped."""
    return int(request.param)


@pytest.fixture
def airflow(tmp_path: Path, master: Master, ledger: PrivacyLedger, releases: int) -> Iterator[LiveAirflow]:
    port = int(master.server.url.rpartition(":")[2])
    farm = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": 7077}
    extra = {"deploy-mode": "cluster", "rest-port": port}
    environment = {
        "AIRFLOW__CORE__PARALLELISM": str(WORKERS),
        "AIRFLOW_CONN_FARM": json.dumps({**farm, "extra": extra}),
        "AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": json.dumps(
            {"conn_type": "privacy_ledger", "extra": {"path": str(tmp_path / "ledger.db")}}
        ),
    }
    text = DAG.replace("OUTPUT", repr(str(tmp_path / "releases"))).replace("RELEASES", str(releases))
    with live_airflow(tmp_path, {"many.py": text}, environment) as running:
        yield running


def test_mapped_releases_hold_two_workers_at_most_each_for_seconds_and_survive_their_triggerer(
    airflow: LiveAirflow, master: Master, ledger: PrivacyLedger, releases: int, tmp_path: Path
) -> None:
    airflow.wait("the DAG is there", lambda: "many" in str(airflow.call("GET", "dags")))
    run = airflow.call("POST", "dags/many/dagRuns", {"logical_date": None})["dag_run_id"]
    watch = Watch(airflow.metadata)
    # Airflow has two slots, so they could not all wait at once if waiting took one
    airflow.wait("all wait without a worker", lambda: watch.deferred == releases, patience=PATIENCE)
    assert len(master.created) == releases
    airflow.kill("triggerer")
    for created, driver in zip(master.created, list(master.drivers), strict=True):
        run_application(created)
        master.drivers[driver] = "FINISHED"
    airflow.start("triggerer")
    state = airflow.wait(
        "the run has ended", lambda: _ended(airflow.call("GET", f"dags/many/dagRuns/{run}")), patience=PATIENCE
    )
    watch.stop()
    worked = sorted(watch.seconds.values())
    busy = max(1.0, np.mean(watch.loads) / (os.cpu_count() or 1))
    middle = worked[len(worked) // 2]
    print(f"{watch.running} workers, {watch.deferred} waiting; seconds of a worker for a release: {middle:.1f} in the "
          f"middle, {worked[-1]:.1f} at most, with {busy:.1f} processes for each processor")  # fmt: skip
    assert len(list((airflow.home / "logs").rglob("map_index=*/attempt=1.log"))) == releases
    # Airflow may fail a task of which it lost track, and tries it again at no cost; the task itself may raise nothing
    assert "Task failed with exception" not in airflow.task_log("many", run, "release"), airflow.failures("many", run)
    assert state == "success", airflow.failures("many", run)
    assert len(master.created) == releases
    assert [charge.state for charge in ledger.history("visits")] == [ChargeState.COMMITTED] * releases
    assert {charge.runs for charge in ledger.history("visits")} == {1}
    assert len(list((tmp_path / "releases").glob("*/release.json"))) == releases
    assert len(worked) == releases
    assert worked[-1] < SECONDS * busy


def _ended(run: dict[str, Any]) -> str:
    return run["state"] if run["state"] in ("success", "failed") else ""
