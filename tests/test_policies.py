"""The cluster policy: what it refuses when a DAG is parsed, and what it lets pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.exceptions import AirflowClusterPolicyViolation
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, task

from dp_operators.operators import (
    CountStreamOperator,
    ReleaseDiagnosticsOperator,
    RocCurveOperator,
    private_release_group,
)
from dp_operators.policies import RULES, privacy_policy
from dp_operators.sensors.budget import PrivacyBudgetSensor
from spark_jobs.contract.errors import InvalidRequest
from tests.support.repository import ROOT

GIVEN: dict[str, Any] = {
    "account": "visits",
    "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
    "label": "any_visit",
    "model": {"kind": "columns", "score": "score", "basis": "public"},
    "epsilon": "1",
    "output": "/releases",
}


@pytest.fixture
def production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__PRIVACY_DIAGNOSTICS__PRODUCTION", "True")


def dag(*, guarded: bool = True, mapped: bool = False, **fields: Any) -> DAG:
    with DAG("churn", schedule=None) as made:
        if mapped:
            rest = {**GIVEN, **fields}
            epsilon = rest.pop("epsilon")
            release: Any = RocCurveOperator.partial(task_id="release", **rest).expand(epsilon=[epsilon])
        elif "request" in fields:
            release = ReleaseDiagnosticsOperator(task_id="release", **fields)
        else:
            release = RocCurveOperator(task_id="release", **{**GIVEN, **fields})
        if guarded:
            PrivacyBudgetSensor(task_id="b", account="visits", epsilon="1", release_task_id="release") >> release
    return made


@pytest.mark.parametrize("mapped", [False, True])
def test_a_governed_release_passes_every_rule(production: None, mapped: bool) -> None:
    privacy_policy()(dag(runner="spark_submit", mapped=mapped))
    with DAG("group", schedule=None) as grouped:
        private_release_group(operator=RocCurveOperator, runner="spark_submit", **GIVEN)
    privacy_policy(*RULES)(grouped)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    ("rule", "broken", "line"),
    [
        ("sensor", {"guarded": False}, "must have a PrivacyBudgetSensor upstream"),
        ("cluster_runner", {"runner": "local"}, "must say runner='cluster' or 'spark_submit'"),
        ("cluster_runner", {}, "must say runner='cluster' or 'spark_submit'"),
        ("cluster_runner", {"runner": "{{ params.runner }}"}, "must say runner='cluster' or 'spark_submit'"),
    ],
)
def test_a_broken_rule_refuses_the_dag_in_one_line(
    production: None, rule: str, broken: dict[str, Any], line: str, mapped: bool
) -> None:
    with pytest.raises(AirflowClusterPolicyViolation) as refused:
        privacy_policy(rule)(dag(mapped=mapped, **broken))
    assert str(refused.value).startswith(f"task release of DAG churn {line}")
    assert f"(privacy policy: {rule})" in str(refused.value)
    others = [name for name in RULES if name != rule]
    privacy_policy(*others)(dag(mapped=mapped, **{"runner": "spark_submit", **broken} if rule == "sensor" else broken))


def test_account_must_be_in_the_dag() -> None:
    for hidden in (dag(request="/requests/churn.yaml"), decorated()):
        with pytest.raises(AirflowClusterPolicyViolation, match="must name the ledger account that pays"):
            privacy_policy("account")(hidden)
    privacy_policy("account")(dag(request={**_whole(), "account": "visits"}))
    privacy_policy("account")(decorated(account="visits"))


def _whole() -> dict[str, Any]:
    fields = {name: value for name, value in GIVEN.items() if name != "epsilon"}
    return {**fields, "budget": {"epsilon": "1"}, "diagnostics": "roc_curve"}


def decorated(**fields: Any) -> DAG:
    with DAG("decorated", schedule=None) as made:

        @task.private_release(**fields)
        def release() -> dict[str, Any]:
            return _whole()

        release()
    return made


def test_sensor_of_another_release_guards_nothing() -> None:
    made = dag(guarded=False)
    with made:
        sensor = PrivacyBudgetSensor(task_id="other", account="visits", epsilon="1", release_task_id="another")
        sensor >> made.task_dict["release"]
    with pytest.raises(AirflowClusterPolicyViolation, match="whose release_task_id is its own id"):
        privacy_policy("sensor")(made)


def test_class_that_a_task_claims_for_itself_is_not_believed() -> None:
    """Only of a mapped task is the class of its operator an attribute."""

    class Ungoverned(RocCurveOperator):
        operator_class = EmptyOperator
        partial_kwargs: dict[str, Any] = {"account": "visits"}

    class Sensor(EmptyOperator):
        operator_class = PrivacyBudgetSensor
        release_task_id = "release"

    with DAG("lies", schedule=None) as made:
        Sensor(task_id="b") >> Ungoverned(task_id="release", **GIVEN)
    with pytest.raises(AirflowClusterPolicyViolation, match="must have a PrivacyBudgetSensor upstream"):
        privacy_policy("sensor")(made)

    class Claiming(ReleaseDiagnosticsOperator):
        partial_kwargs: dict[str, Any] = {"account": "visits"}

    with DAG("lies", schedule=None) as made:
        Claiming(task_id="release", request="/requests/visits.yaml")
    with pytest.raises(AirflowClusterPolicyViolation, match="must name the ledger account"):
        privacy_policy("account")(made)


def test_local_runner_is_for_trying_out() -> None:
    privacy_policy("cluster_runner")(dag(runner="local"))


def test_streams_are_governed_too(production: None) -> None:
    for given, line in (({"runner": "cluster"}, "must name the ledger account"), ({}, "must say runner='cluster'")):
        request = {"account": "visits", "table": "{{ params.table }}"} if not given else "/requests/stream.yaml"
        with DAG("churn", schedule=None) as made:
            CountStreamOperator(task_id="stream", request=request, **given)
        with pytest.raises(AirflowClusterPolicyViolation, match=f"^task stream of DAG churn {line}"):
            privacy_policy()(made)
    with DAG("churn", schedule=None) as made:
        CountStreamOperator(task_id="stream", request=request, runner="cluster")
    privacy_policy()(made)


@pytest.mark.parametrize("rule", ["account", "cluster_runner"])
def test_what_mapping_may_replace_is_not_constant(production: None, rule: str) -> None:
    given = {name: value for name, value in GIVEN.items() if name != "epsilon"}
    for strict in (True, False):
        with DAG("churn", schedule=None) as made:
            RocCurveOperator.partial(task_id="release", runner="cluster", **given).expand_kwargs(
                [{"epsilon": "1"} if strict else {"epsilon": "1", "runner": "local", "account": "other"}],
                strict=strict,
            )
        if strict:
            privacy_policy(rule)(made)
            continue
        with pytest.raises(AirflowClusterPolicyViolation, match="task release of DAG churn must"):
            privacy_policy(rule)(made)


def test_rule_without_that_name_is_refused_when_it_is_named() -> None:
    with pytest.raises(InvalidRequest) as refused:
        privacy_policy("account", "no_sensor")
    line = "privacy_policy: got 'no_sensor'; must be one of account, sensor, cluster_runner; correct the name"
    assert str(refused.value) == line


SETTINGS = """
from dp_operators.policies import privacy_policy

dag_policy = privacy_policy("sensor")
"""
PARSE = """
import sys
from tests.support.dag_bags import DagBag

bag = DagBag(dag_folder=sys.argv[1])
print(sorted(bag.dags), *bag.import_errors.values())
"""


@pytest.mark.verify
def test_airflow_applies_it_when_it_parses_a_dag(tmp_path: Path) -> None:
    for folder in ("config", "dags"):
        (tmp_path / folder).mkdir()
    (tmp_path / "config" / "airflow_local_settings.py").write_text(SETTINGS)
    text = "from airflow.sdk import DAG\nfrom dp_operators.operators import ReleaseDiagnosticsOperator as Release\n"
    (tmp_path / "dags" / "churn.py").write_text(
        f"{text}with DAG('churn', schedule=None):\n    Release(task_id='release', request='/r.yaml')\n"
    )
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PARSE, str(tmp_path / "dags")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "[] " in done.stdout, done.stderr
    assert "task release of DAG churn must have a PrivacyBudgetSensor upstream" in done.stdout
