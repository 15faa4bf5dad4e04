"""A budget that is asked for, approved, waited for and spent, by an Airflow of separate processes.

The scheduler runs the tasks, the triggerer waits for the budget, a person answers through the API, and Spark counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from urllib.error import HTTPError

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.releasing import check_release_folder
from tests.support.accounts import open_bound
from tests.support.ledgers import new_ledger
from tests.support.live_airflow import LiveAirflow, live_airflow

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

DAG_ID = "governed"
TASKS = """
from airflow.sdk import DAG

from dp_operators.notifications.budget import PrivacyBudgetNotifier
from dp_operators.operators.approval import RequestMoreBudgetOperator
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor

with DAG("governed", schedule=None) as dag:
    RequestMoreBudgetOperator(task_id="ask", account="visits", epsilon="2", reason="a second look")
    budget = PrivacyBudgetSensor(
        task_id="budget", account="visits", epsilon="1", deferrable=True, poke_interval=1, release_task_id="release"
    )
    release = ReleaseDiagnosticsOperator(
        task_id="release",
        account="visits",
        table={"path": LAKE, "snapshot": {"path_version": "v1"}},
        label="label",
        model={"kind": "columns", "score": "score", "basis": "public"},
        diagnostics="roc_curve",
        epsilon="1",
        output=RELEASES,
        master="local[1]",
        on_success_callback=PrivacyBudgetNotifier(account="visits"),
    )
    budget >> release
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[PrivacyLedger]:
    """An account of which a tenth is left."""
    ledger = new_ledger(tmp_path / "ledger.db")
    columns = {"label": "bigint", "score": "double"}
    open_bound(ledger, "visits", epsilon="1", table=tmp_path / "lake", output=tmp_path / "releases", columns=columns)
    ledger.reserve("visits", release="earlier", epsilon="0.9")
    yield ledger
    ledger.close()


@pytest.fixture
def airflow(tmp_path: Path, ledger: PrivacyLedger) -> Iterator[LiveAirflow]:
    (tmp_path / "lake" / "v1").mkdir(parents=True)
    chance = np.random.default_rng(1)
    scores = chance.random(2000)
    labels = (chance.random(2000) < scores).astype(int)
    pq.write_table(pa.table({"label": labels, "score": scores}), tmp_path / "lake" / "v1" / "part.parquet")
    places = f"LAKE, RELEASES = {f'{tmp_path}/lake'!r}, {f'{tmp_path}/releases'!r}\n"
    connection = {"conn_type": "privacy_ledger", "extra": {"path": f"{tmp_path}/ledger.db"}}
    environment = {"AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": json.dumps(connection)}
    with live_airflow(tmp_path, {"governed.py": places + TASKS}, environment) as running:
        running.wait("the DAG is known", lambda: found(running, f"dags/{DAG_ID}"))
        yield running


def found(airflow: LiveAirflow, path: str) -> object:
    try:
        return airflow.call("GET", path)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


def test_approved_budget_wakes_the_sensor_and_pays_for_the_release(
    airflow: LiveAirflow, ledger: PrivacyLedger, tmp_path: Path
) -> None:
    run = airflow.call("POST", f"dags/{DAG_ID}/dagRuns", {"logical_date": None})["dag_run_id"]

    def states() -> dict[str, str]:
        return airflow.states(DAG_ID, run)

    # one waits for a budget and one for a person: neither holds a worker
    airflow.wait("the sensor waits", lambda: states()["budget"] == "deferred")
    assert states()["release"] is None
    question = f"dags/{DAG_ID}/dagRuns/{run}/taskInstances/ask/-1/hitlDetails"
    asked = airflow.wait("the question is asked", lambda: found(airflow, question))
    airflow.wait("nobody is kept waiting", lambda: all(map(airflow.has_left_its_worker, ("ask", "budget"))))
    assert asked["subject"] == "Raise the privacy budget of account visits to epsilon 2?"
    for line in ("a second look", "| cap | epsilon 1 | epsilon 2 |", "| at most 89% sure |", "- asked by: dora"):
        assert line in asked["body"]
    airflow.call("PATCH", question, {"chosen_options": ["Approve"], "params_input": {}})

    airflow.wait("all is done", lambda: set(states().values()) <= {"success", "failed", "upstream_failed"})
    assert states() == {"ask": "success", "budget": "success", "release": "success"}, airflow.task_log(
        DAG_ID, run, "release"
    )
    raised = [entry for entry in ledger.log("visits") if entry.action == "raised"]
    assert [entry.reason for entry in raised] == ["a second look"]
    assert raised[0].actor == "airflow user dora (dora)"
    [charge] = [each for each in ledger.history("visits") if each.release != "earlier"]
    assert charge.state is ChargeState.COMMITTED
    assert ledger.remaining("visits").epsilon == Decimal("0.1")
    [manifest] = (tmp_path / "releases").glob("*/release.json")
    assert check_release_folder(str(manifest.parent), ledger) == ()
    assert ledger.verify()
    warning = "account visits is past 80% of its privacy budget: 95% is spent"
    airflow.wait("the callback has warned", lambda: warning in airflow.task_log(DAG_ID, run, "release"))
