"""Airflow's own scheduler runs a day's release from a day's budget: daily, by partition, by an asset's partition and in
a backfill; and so do people.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from airflow import sdk

from dp_operators.budget import ChargeState, PrivacyLedger
from spark_jobs.contract.release import Release
from spark_jobs.embedded.choice import MASTER_VARIABLE
from tests.support.ledgers import new_ledger
from tests.support.live_airflow import LiveAirflow, live_airflow

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(1800)]

FILE = Path(__file__).parents[2] / "dags" / "release_by_day.py"
DAILY, PARTITIONS, ASSETS = "release_by_day", "release_by_partition", "release_by_asset"
OF_ASSET = """
from airflow.sdk import Asset, PartitionedAssetTimetable

SCHEDULES["release_by_asset"] = PartitionedAssetTimetable(assets=Asset("lake://visits"))

for dag_id"""
"""A third DAG of the same tasks, which runs for each partition of an asset."""
DONE = {"success", "failed"}
PARTITIONED = hasattr(sdk, "PartitionedAssetTimetable")
"""Whether this version of Airflow has partitions."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("by-day")


@pytest.fixture(scope="module")
def airflow(home: Path) -> Iterator[LiveAirflow]:
    connection = {"conn_type": "privacy_ledger", "extra": {"path": str(home / "ledger.db")}}
    environment = {
        "AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": json.dumps(connection),
        "DP_DEMO_LAKE": str(home / "lake"),
        "DP_DEMO_OUTPUT": str(home / "releases"),
        "XDG_STATE_HOME": str(home / "private"),
        MASTER_VARIABLE: "embedded",  # it starts soonest, and who counts is not what this is about
    }
    text = FILE.read_text().replace("\nfor dag_id", OF_ASSET) if PARTITIONED else without_partitions(FILE.read_text())
    with live_airflow(home, {FILE.name: text}, environment) as running:
        yield running


@pytest.fixture(scope="module")
def ledger(home: Path) -> Iterator[PrivacyLedger]:
    ledger = new_ledger(home / "ledger.db")
    yield ledger
    ledger.close()


def without_partitions(text: str) -> str:
    """The daily DAG alone."""
    lines = text.replace(", CronPartitionTimetable,", ",").splitlines()
    return "\n".join(line for line in lines if "CronPartitionTimetable(" not in line)


def runs(airflow: LiveAirflow, dag_id: str) -> list[dict[str, Any]]:
    listed = airflow.call("GET", f"dags/{dag_id}/dagRuns") if known(airflow, dag_id) else {"dag_runs": []}
    return list(listed["dag_runs"])


def known(airflow: LiveAirflow, dag_id: str) -> bool:
    return dag_id in {each["dag_id"] for each in airflow.call("GET", "dags")["dags"]}


def finished(airflow: LiveAirflow, dag_id: str, run_id: str) -> dict[str, Any]:
    """A run, once it is done."""

    def look() -> dict[str, Any] | None:
        [run] = [each for each in runs(airflow, dag_id) if each["dag_run_id"] == run_id]
        return run if run["state"] in DONE else None

    found: dict[str, Any] = airflow.wait(f"{run_id} is done", look, patience=600)
    return found


def scheduled(airflow: LiveAirflow, dag_id: str) -> dict[str, Any]:
    """The run that the scheduler made by itself, once it is done."""
    airflow.wait("the scheduler makes a run", lambda: runs(airflow, dag_id))
    first = next(run for run in runs(airflow, dag_id) if run["run_type"] == "scheduled")
    return finished(airflow, dag_id, first["dag_run_id"])


def triggered(airflow: LiveAirflow, dag_id: str, **fields: Any) -> dict[str, Any]:
    """A run that somebody starts, without a logical date unless one is given, once it is done."""
    run_id = airflow.call("POST", f"dags/{dag_id}/dagRuns", {"logical_date": None, **fields})["dag_run_id"]
    return finished(airflow, dag_id, run_id)


def day_before(run: dict[str, Any]) -> str:
    moment = dt.datetime.fromisoformat(run["run_after"])
    assert moment.time() == dt.time(0)
    return f"{moment - dt.timedelta(days=1):%Y-%m-%d}"


@pytest.mark.skipif(PARTITIONED, reason="the other test says more")
def test_the_scheduler_releases_a_day_where_airflow_has_no_partitions(
    airflow: LiveAirflow, ledger: PrivacyLedger
) -> None:
    daily = scheduled(airflow, DAILY)
    assert daily["state"] == "success", airflow.task_log(DAILY, daily["dag_run_id"], "release")
    assert spent(ledger) == {day_before(daily): Decimal("0.5")}
    [charge] = ledger.history("visits")
    assert charge.release == f"airflow/{DAILY}/{daily['logical_date']}/release/-1"


@pytest.mark.skipif(not PARTITIONED, reason="this version of Airflow has no partitions")
def test_scheduler_and_people_release_days(airflow: LiveAirflow, ledger: PrivacyLedger, home: Path) -> None:
    """One test, because each step spends from the budget that the steps before left."""
    # Airflow's own @daily: no data interval, and the day before is released
    daily = scheduled(airflow, DAILY)
    assert daily["state"] == "success", airflow.task_log(DAILY, daily["dag_run_id"], "release")
    assert daily["data_interval_start"] == daily["data_interval_end"]
    day = day_before(daily)

    # the partition timetable, at the same time: a key, and no logical date at all
    partition = scheduled(airflow, PARTITIONS)
    assert partition["state"] == "success", airflow.task_log(PARTITIONS, partition["dag_run_id"], "release")
    assert (partition["logical_date"], partition["partition_key"]) == (None, day)
    assert spent(ledger) == {day: Decimal(1)}
    keys = {charge.release for charge in ledger.history("visits")}
    assert f"airflow/{PARTITIONS}/partition={day}/release/-1" in keys

    # a backfill of the same tick is the same release, which is paid for
    tick = {"from_date": daily["logical_date"], "to_date": daily["logical_date"]}
    backfill = airflow.call("POST", "backfills", {"dag_id": DAILY, "reprocess_behavior": "completed", **tick})
    again = airflow.wait(
        "the backfill has a run",
        lambda: [run for run in runs(airflow, DAILY) if run["run_type"] == "backfill"],
    )[0]
    assert backfill["dag_id"] == DAILY
    assert finished(airflow, DAILY, again["dag_run_id"])["state"] == "success"
    assert spent(ledger) == {day: Decimal(1)}
    assert len(ledger.history("visits")) == 2

    # a run by hand, without a logical date, is about no day: one line, and nothing is charged
    head = ledger.head()
    manual = triggered(airflow, DAILY)
    assert manual["state"] == "failed"
    assert "this run has no data interval" in airflow.task_log(DAILY, manual["dag_run_id"], "budget")
    assert ledger.head() == head

    # and with a logical date neither: what Airflow calls its interval is not what it was started for
    dated = triggered(airflow, DAILY, logical_date=f"{day}T10:00:00Z")
    assert dated["state"] == "failed"
    assert ledger.head() == head

    # one that says which day is a release of its own, with a price of its own
    named = triggered(airflow, DAILY, conf={"blocks": day})
    assert named["state"] == "success", airflow.task_log(DAILY, named["dag_run_id"], "release")
    assert spent(ledger) == {day: Decimal("1.5")}

    # the day's budget is spent: the next one is skipped, and other days have theirs
    again = triggered(airflow, PARTITIONS, partition_key=day)
    assert airflow.states(PARTITIONS, again["dag_run_id"])["release"] == "skipped"
    assert f"block {day} of account visits has epsilon 0 of 1.5 left" in airflow.task_log(
        PARTITIONS, again["dag_run_id"], "budget"
    )
    assert spent(ledger) == {day: Decimal("1.5")}
    assert ledger.verify()

    # an asset's partition names the block: the day before has a budget of its own
    before = f"{dt.date.fromisoformat(day) - dt.timedelta(days=1)}"
    [asset] = airflow.call("GET", "assets?uri_pattern=lake://visits")["assets"]
    airflow.call("POST", "assets/events", {"asset_id": asset["id"], "partition_key": before})
    airflow.wait("the event makes a run", lambda: runs(airflow, ASSETS))
    by_asset = finished(airflow, ASSETS, runs(airflow, ASSETS)[0]["dag_run_id"])
    assert by_asset["state"] == "success", airflow.task_log(ASSETS, by_asset["dag_run_id"], "release")
    assert (by_asset["run_type"], by_asset["logical_date"]) == ("asset_triggered", None)
    assert spent(ledger) == {before: Decimal("0.5"), day: Decimal("1.5")}
    assert ledger.verify()

    charges = ledger.history("visits")
    assert [charge.state for charge in charges] == [ChargeState.COMMITTED] * 4
    releases = [Release.from_json(path.read_bytes()) for path in home.glob("releases/*/*/release.json")]
    assert {tuple(release.request["blocks"]) for release in releases} == {(day,), (before,)}
    # 1,000 visits, of which the model ranks about three of four pairs rightly
    of_day = [release for release in releases if release.request["blocks"] == [day]]
    assert all(0.5 < release.results["roc_curve"]["auc"] < 1 for release in of_day)


def spent(ledger: PrivacyLedger) -> dict[str, Decimal]:
    return {block: budget.epsilon for block, budget in ledger.blocks("visits").items()}
