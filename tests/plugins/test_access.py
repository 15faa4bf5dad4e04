"""Who may see a ledger's pages, and the task that made a release."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from fastapi import HTTPException

from dp_operators.plugins import access, runs
from dp_operators.releasing import ReleaseKey
from tests.support.airflow import RUN_DATE, run_dag

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.verify]

Allow = Callable[..., None]


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Allow:
    """Set what the auth manager lets a user do: read connections, resources by name, and DAGs."""

    def set_rights(
        *, connections: bool = False, resources: tuple[str, ...] = (), dags: bool = False, team: str | None = None
    ) -> None:
        def of_team(details: Any) -> bool:
            return details.team_name in (None, team)

        manager = SimpleNamespace(
            is_authorized_connection=lambda *, details, **_: connections and of_team(details),
            is_authorized_custom_view=lambda *, resource_name, **_: resource_name in resources,
            is_authorized_dag=lambda *, details, **_: dags and of_team(details),
            is_authorized_team=lambda *, details, **_: details.name == team,
        )
        for module in (access, runs):
            monkeypatch.setattr(module, "get_auth_manager", lambda: manager)

    return set_rights


def test_pages_have_a_permission_of_their_own(allow: Allow, monkeypatch: pytest.MonkeyPatch) -> None:
    user: Any = SimpleNamespace()
    allow(resources=("Privacy budget:ledger",))
    with pytest.raises(HTTPException, match=access.NO_SUCH):
        access.readable("ledger", user)  # it does not count until an administrator names it
    monkeypatch.setenv("AIRFLOW__PRIVACY_DIAGNOSTICS__PAGE_PERMISSION", "Privacy budget")
    assert access.readable("ledger", user) == "ledger"
    with pytest.raises(HTTPException):
        access.readable("ledger_of_others", user)
    allow(connections=True)
    assert access.readable("ledger_of_others", user) == "ledger_of_others"
    allow()
    with pytest.raises(HTTPException):
        access.readable("ledger", user)


def test_other_teams_see_neither_the_pages_nor_the_run(
    airflow_database: None, allow: Allow, monkeypatch: pytest.MonkeyPatch
) -> None:
    user: Any = SimpleNamespace()
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    monkeypatch.setenv("AIRFLOW__PRIVACY_DIAGNOSTICS__PAGE_PERMISSION", "Privacy budget")
    monkeypatch.setattr("airflow.models.connection.Connection.get_team_name", lambda _: "wards")
    monkeypatch.setattr("airflow.models.dag.DagModel.get_team_name", lambda _: "wards")
    asked: list[str] = []
    monkeypatch.setattr(runs, "_is_run", lambda name: asked.append(name) or DagRun.run_id == name)
    key = str(ReleaseKey(deployment="airflow", dag_id="d", run="r", task_id="release"))
    for team, sees in (("wards", True), ("labs", False)):
        allow(connections=True, resources=("Privacy budget:ledger",), dags=True, team=team)
        assert access._may_see("ledger", user) is sees
        assert runs.run_address(key, user) == ""
        assert bool(asked) is sees
        asked.clear()
    allow(resources=("Privacy budget:ledger",), team="labs")
    assert not access._may_see("ledger", user)


def test_release_leads_to_the_task_that_made_it(
    airflow_database: None, allow: Allow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.org/deep")
    with DAG("leads_back", schedule=None) as dag:
        EmptyOperator(task_id="release")
    run = run_dag(dag)

    def address(name: str, **changes: Any) -> str:
        fields = {"deployment": "airflow", "dag_id": "leads_back", "run": name, "task_id": "release", **changes}
        return runs.run_address(str(ReleaseKey(**fields)), SimpleNamespace())

    allow(dags=True)
    there = address(run.run_id)
    assert there.startswith("/deep/dags/leads_back/runs/")
    assert there.endswith("/tasks/release")
    assert address(RUN_DATE.isoformat()) == there
    assert address(run.run_id, map_index=3) == f"{there}/mapped/3"
    for nothing in (address("other"), address(run.run_id, dag_id="other"), runs.run_address("no key", None)):
        assert nothing == ""
    later = RUN_DATE + timedelta(days=1)
    assert address(f"{RUN_DATE.isoformat()}/{later.isoformat()}/x") == ""
    allow()
    assert address(run.run_id) == ""
