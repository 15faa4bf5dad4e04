"""A budget that is asked for, approved, waited for and spent, by an Airflow of separate processes.

The scheduler runs the tasks, the triggerer waits for the budget, a person answers through the API, and the engine that
starts soonest counts.
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

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.verify]

DAG_ID = "governed"
HELD = "release is held back: "
"""How the log of a sensor says that it blocks."""
TASKS = """
from airflow.sdk import DAG

from dp_operators.notifications.budget import PrivacyBudgetNotifier
from dp_operators.operators.approval import RequestMoreBudgetOperator
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor

with DAG("governed", schedule=None) as dag:
    cap = "{{ dag_run.conf['cap'] }}"
    RequestMoreBudgetOperator(task_id="ask", account="visits", epsilon=cap, reason="a second look")
    budget = PrivacyBudgetSensor(
        task_id="budget", account="visits", epsilon="1", deferrable=True, poke_interval=1, release_task_id="release"
    )
    again = PrivacyBudgetSensor(
        task_id="again", account="visits", epsilon="1", poke_interval=2, release_task_id="release"
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
        master="embedded",
        on_success_callback=PrivacyBudgetNotifier(account="visits"),
    )
    [budget, again] >> release
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


def ask(airflow: LiveAirflow, run: str, cap: str) -> str:
    """Trigger a run that asks for a cap; the address of its question, once its task waits."""
    airflow.call("POST", f"dags/{DAG_ID}/dagRuns", {"dag_run_id": run, "logical_date": None, "conf": {"cap": cap}})
    question = f"dags/{DAG_ID}/dagRuns/{run}/taskInstances/ask/-1/hitlDetails"
    airflow.wait("the question is asked", lambda: found(airflow, question))
    return question


def test_answer_to_a_swapped_question_raises_nothing(airflow: LiveAirflow, ledger: PrivacyLedger) -> None:
    """A run is deleted and triggered again under the same id, while the approver reads the first question."""
    question = ask(airflow, "yearly", "12")
    shown = airflow.call("GET", question)
    airflow.wait("nobody is kept waiting", lambda: airflow.has_left_its_worker("ask"))
    airflow.call("PATCH", f"dags/{DAG_ID}/dagRuns/yearly", {"state": "failed"})
    airflow.call("DELETE", f"dags/{DAG_ID}/dagRuns/yearly")
    assert ask(airflow, "yearly", "5000") == question
    other = airflow.as_other()
    for stale in (shown["options"][0], "Approve"):
        with pytest.raises(HTTPError) as refused:
            other.call("PATCH", question, {"chosen_options": [stale], "params_input": {}})
        assert refused.value.code == 400
    # and whoever asked does not approve
    airflow.wait("nobody is kept waiting", lambda: airflow.has_left_its_worker("ask", 2))
    asked = airflow.call("GET", question)
    assert asked["options"][0].startswith("Approve epsilon 5000 (")
    airflow.call("PATCH", question, {"chosen_options": asked["options"][:1], "params_input": {}})
    airflow.wait("the answer is judged", lambda: airflow.states(DAG_ID, "yearly")["ask"] == "failed")
    assert "dora asked for it" in airflow.task_log(DAG_ID, "yearly", "ask")
    assert [entry.action for entry in ledger.log("visits")] == ["opened", "reserved"]


def test_approved_budget_wakes_the_sensor_and_pays_for_the_release(
    airflow: LiveAirflow, ledger: PrivacyLedger, tmp_path: Path
) -> None:
    run = "governed"
    question = ask(airflow, run, "2")

    def states() -> dict[str, str]:
        return airflow.states(DAG_ID, run)

    # one sensor and the person are waited for without a worker; the other sensor keeps its own
    airflow.wait("the sensor waits", lambda: states()["budget"] == "deferred")
    airflow.wait("the other sensor looks again", lambda: airflow.task_log(DAG_ID, run, "again").count(HELD) > 1)
    assert states()["again"] == "running"
    assert states()["release"] is None
    assert [charge.release for charge in ledger.history("visits")] == ["earlier"]
    asked = airflow.call("GET", question)
    airflow.wait("nobody is kept waiting", lambda: all(map(airflow.has_left_its_worker, ("ask", "budget"))))
    assert asked["subject"] == "Raise the privacy budget of account visits to epsilon 2?"
    for line in ("a second look", "- asked by: dora", "/privacy-ledger/privacy_ledger_default/account?name=visits"):
        assert line in asked["body"]
    answer = {"chosen_options": asked["options"][:1], "params_input": {}}
    airflow.as_other().call("PATCH", question, answer)

    airflow.wait("all is done", lambda: set(states().values()) <= {"success", "failed", "upstream_failed"})
    assert states() == dict.fromkeys(("ask", "budget", "again", "release"), "success"), airflow.task_log(
        DAG_ID, run, "release"
    )
    raised = [entry for entry in ledger.log("visits") if entry.action == "raised"]
    assert [entry.reason for entry in raised] == ["a second look"]
    assert raised[0].actor == "airflow user otto (otto)"
    [charge] = [each for each in ledger.history("visits") if each.release != "earlier"]
    assert charge.state is ChargeState.COMMITTED
    assert ledger.remaining("visits").epsilon == Decimal("0.1")
    [manifest] = (tmp_path / "releases").glob("*/release.json")
    assert check_release_folder(str(manifest.parent), ledger) == ()
    assert ledger.verify()
    warning = "account visits is past 80% of its privacy budget: 95% is spent"
    airflow.wait("the callback has warned", lambda: warning in airflow.task_log(DAG_ID, run, "release"))
