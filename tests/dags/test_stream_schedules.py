"""A real scheduler advances streams: it catches up by several runs at once, one day is skipped, and one is cleared;
another stream is advanced by an asset's events, and a third by partitions.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pandas as pd
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from spark_jobs.contract.stream_keys import STREAM_KEYS_FILE_VARIABLE
from tests.support.accounts import GROWING, open_bound
from tests.support.ledgers import new_ledger
from tests.support.live_airflow import LiveAirflow, live_airflow

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(3600)]

PATIENCE = 1200.0
DAYS = 3
TODAY = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
START = TODAY - dt.timedelta(days=DAYS)
DAGS = """
import datetime as dt

from airflow.sdk import DAG, Asset, CronPartitionTimetable, task

from dp_operators.operators.count_stream import CountStreamOperator

# what a busy machine ends is tried again
AGAIN = {"retries": 20, "retry_delay": dt.timedelta(seconds=1)}

with DAG("daily", schedule="@daily", start_date=START, catchup=True, max_active_runs=3, default_args=AGAIN):

    @task.short_circuit
    def wanted(dag_run=None):
        return dag_run.run_after.date() != (START + dt.timedelta(days=2)).date()

    wanted() >> CountStreamOperator(task_id="count", request=REQUEST, master="local[1]")

with DAG("arriving", schedule=[Asset("lake://visits")], max_active_runs=1, default_args=AGAIN):
    CountStreamOperator(task_id="count", request=REQUEST, master="local[1]")

with DAG(
    "partitioned",
    schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC"),
    start_date=START,
    end_date=START + dt.timedelta(days=1),
    catchup=True,
    max_active_runs=1,
    default_args=AGAIN,
):
    CountStreamOperator(task_id="count", request=REQUEST, master="local[1]")
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[PrivacyLedger]:
    ledger = new_ledger(tmp_path / "ledger.db")
    lake = tmp_path / "visits"
    (lake / "v1").mkdir(parents=True)
    at = pd.date_range(START.replace(tzinfo=None), periods=24 * DAYS * 10, freq="6min").astype("datetime64[us]")
    pd.DataFrame({"at": at}).to_parquet(lake / "v1" / "part.parquet", index=False)
    open_bound(ledger, "people", epsilon="3", table=lake, output=tmp_path / "out", facts=GROWING)
    yield ledger
    ledger.close()


@pytest.fixture
def airflow(tmp_path: Path, ledger: PrivacyLedger) -> Iterator[LiveAirflow]:
    connection = {"conn_type": "privacy_ledger", "extra": {"path": str(tmp_path / "ledger.db")}}
    environment = {
        "AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": json.dumps(connection),
        "XDG_STATE_HOME": str(tmp_path / "private"),
        STREAM_KEYS_FILE_VARIABLE: str(tmp_path / "stream.keys"),
    }
    (tmp_path / "stream.keys").write_text(f"k1:{'ab' * 32}")
    fields = {
        "account": "people",
        "table": {"path": str(tmp_path / "visits"), "snapshot": {"path_version": "v1"}},
        "time": "at",
        "start": START.isoformat(),
        "step": "1 hour",
        "steps": 24 * DAYS,
        "budget": {"epsilon": "1"},
        "output": str(tmp_path / "out"),
    }
    start = f"import datetime as dt\n\nSTART = dt.datetime.fromisoformat({START.isoformat()!r})\n"
    with live_airflow(tmp_path, {"daily.py": f"{start}REQUEST = {fields!r}\n{DAGS}"}, environment) as running:
        yield running


def runs(airflow: LiveAirflow, dag: str) -> list[dict[str, Any]]:
    with suppress(HTTPError):
        return list(airflow.call("GET", f"dags/{dag}/dagRuns")["dag_runs"])
    return []


def ended(airflow: LiveAirflow, dag: str, count: int) -> list[dict[str, Any]]:
    """So many runs of a DAG, all successful, by the time they were made for."""

    def look() -> list[dict[str, Any]]:
        found = runs(airflow, dag)
        done = len(found) >= count and all(run["state"] in ("success", "failed") for run in found)
        return sorted(found, key=lambda run: str(run["run_after"])) if done else []

    found: list[dict[str, Any]] = airflow.wait(f"{count} runs of {dag} are done", look, patience=PATIENCE)
    assert {run["state"] for run in found} == {"success"}, [
        airflow.task_log(dag, run["dag_run_id"], "count") for run in found if run["state"] != "success"
    ]
    return found


def result(airflow: LiveAirflow, dag: str, run: dict[str, Any]) -> dict[str, Any]:
    """What the task of a run says of the stream."""
    path = f"dags/{dag}/dagRuns/{run['dag_run_id']}/taskInstances/count/xcomEntries/return_value"
    value = airflow.call("GET", path)["value"]
    return dict(json.loads(value) if isinstance(value, str) else value)


def released(folder: Path, dag: str) -> list[int]:
    """The steps of a DAG's stream, file after file."""
    [root] = (folder / "out").glob(f"*-{dag}-stream-*")
    files = sorted((root / "steps").glob("*.parquet"))
    return [step for path in files for step in pq.read_table(path)["step"].to_pylist()]


def test_a_scheduler_catches_up_by_runs_at_once_and_makes_up_for_a_skipped_one(
    airflow: LiveAirflow, ledger: PrivacyLedger, tmp_path: Path
) -> None:
    days = ended(airflow, "daily", DAYS + 1)
    states = [airflow.states("daily", run["dag_run_id"])["count"] for run in days]
    assert states == ["success", "success", "skipped", "success"]
    results = [result(airflow, "daily", run) for run, state in zip(days, states, strict=True) if state == "success"]
    assert max(one["steps"] for one in results) == 24 * DAYS
    assert released(tmp_path, "daily") == list(range(24 * DAYS)), "each step once, by one run or another"

    # cleared: the run is made again, and finds that every step is there
    cleared = {"dry_run": False, "dag_run_id": days[0]["dag_run_id"], "task_ids": ["count"], "only_failed": False}
    airflow.call("POST", "dags/daily/clearTaskInstances", cleared)
    [again, *_] = ended(airflow, "daily", DAYS + 1)
    assert again["dag_run_id"] == days[0]["dag_run_id"]
    repeated = result(airflow, "daily", again)
    assert (repeated["released"], repeated["steps"]) == (0, 24 * DAYS)

    # an asset's event, which has no interval: all that has ended is due
    assert runs(airflow, "arriving") == []
    [asset] = airflow.call("GET", "assets?uri_pattern=lake://visits")["assets"]
    airflow.call("POST", "assets/events", {"asset_id": asset["id"]})
    [arrival] = ended(airflow, "arriving", 1)
    assert result(airflow, "arriving", arrival)["steps"] == 24 * DAYS
    assert released(tmp_path, "arriving") == list(range(24 * DAYS))

    # partitions: each run releases what has ended by the end of its own
    parts = ended(airflow, "partitioned", 2)
    assert [run["partition_key"] is None for run in parts] == [False, False]
    assert [result(airflow, "partitioned", run)["steps"] for run in parts] == [24, 48]
    assert released(tmp_path, "partitioned") == list(range(48))

    assert [charge.state for charge in ledger.history("people")] == [ChargeState.COMMITTED] * 3
    assert ledger.verification().findings == ()
