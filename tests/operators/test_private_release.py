"""The decorator, the task group and DAGs from files: a governed release in few lines."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG, task, task_group

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.decorators.private_release import PrivateReleaseDecoratedOperator
from dp_operators.notifications.budget import PrivacyBudgetNotifier
from dp_operators.operators import (
    ReleaseDiagnosticsOperator,
    RocCurveOperator,
    VerifyReleaseOperator,
    dags_from,
    private_release_group,
)
from dp_operators.operators.dag_files import dag_from, line_of
from dp_operators.sensors.budget import PrivacyBudgetSensor
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from tests.support.accounts import open_bound
from tests.support.airflow import make_context, run_dag, states

TABLE = {"path": "/lake/visits", "snapshot": {"path_version": "v1"}}
MODEL = {"kind": "columns", "score": "score", "basis": "public"}


@pytest.fixture
def account(airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
    open_bound(airflow_ledger, "visits", epsilon="3", table="/lake/visits", output=tmp_path / "releases")
    return airflow_ledger


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    return {
        "account": "visits",
        "table": TABLE,
        "label": "any_visit",
        "model": MODEL,
        "epsilon": "1",
        "output": str(tmp_path / "releases"),
    }


def whole(tmp_path: Path) -> dict[str, Any]:
    return {
        "account": "visits", "table": TABLE, "label": "any_visit", "model": MODEL, "diagnostics": "roc_curve",
        "budget": {"epsilon": "1"}, "output": str(tmp_path / "releases"),
    }  # fmt: skip


class TestDecorator:
    @pytest.mark.airflow
    @pytest.mark.slow
    @pytest.mark.usefixtures("airflow_database", "quick_release")
    def test_function_returns_the_request_and_the_task_releases_it(
        self, account: PrivacyLedger, tmp_path: Path
    ) -> None:
        with DAG("decorated", schedule=None) as dag:

            @task.private_release(account="visits", output=str(tmp_path / "releases"))
            def curve(kind: str) -> dict[str, Any]:
                given = whole(tmp_path)
                return {**{name: given[name] for name in ("table", "label", "model", "budget")}, "diagnostics": kind}

            made = curve("{{ 'roc_' }}curve")
        assert isinstance(made.operator, PrivateReleaseDecoratedOperator)
        assert states(run_dag(dag)) == {"curve": "success"}
        [charge] = account.history("visits")
        assert (charge.release.rpartition("/")[0].endswith("/curve"), charge.state) == (True, ChargeState.RESERVED)

    @pytest.mark.parametrize(
        ("decorated", "returned", "line"),
        [
            ({}, 7, "request: got 'int'; must be what the function of @task.private_release returns"),
            ({"account": "visits"}, "/requests/r.yaml", "request: got 'str'; must be what the function"),
            ({"account": "visits"}, {"account": "stays"}, "account: is given by the decorator, and returned"),
            ({}, {"account": "{{ params.account }}"}, "budget: is required"),
        ],
    )
    def test_what_is_no_request_fails_for_good_in_one_line(
        self, decorated: dict[str, Any], returned: Any, line: str
    ) -> None:
        operator = PrivateReleaseDecoratedOperator(task_id="release", python_callable=lambda: returned, **decorated)
        with pytest.raises(AirflowFailException) as failed:
            operator.execute(make_context())
        assert line in str(failed.value)
        assert "\n" not in str(failed.value)

    def test_a_request_and_its_fields_mean_the_same(self, tmp_path: Path) -> None:
        request = ReleaseRequest.parse(whole(tmp_path))
        for returned in (request, whole(tmp_path)):
            operator = PrivateReleaseDecoratedOperator(task_id="release", python_callable=lambda it=returned: it)
            with pytest.raises(AirflowFailException, match="privacy_ledger_conn_id"):
                operator.execute(make_context())
            assert operator.build_request() == request

    def test_wrong_constant_of_the_decorator_is_an_import_error(self) -> None:
        with pytest.raises(InvalidRequest, match="budget.epsilon: got 'abc'"):
            PrivateReleaseDecoratedOperator(task_id="release", python_callable=lambda: "/r.yaml", epsilon="abc")


class TestGroup:
    def test_its_tasks_wait_release_and_verify(self, given: dict[str, Any]) -> None:
        told: list[str] = []
        with DAG("dag", schedule=None) as dag:
            private_release_group(
                "churn", operator=RocCurveOperator, method="tree", on_exhausted="skip", alert=told.append,
                sensor={"poke_interval": 5}, federation="hospitals", all_releases=True, **given,
            )  # fmt: skip
        budget, release, verify = (dag.task_dict[f"churn.{name}"] for name in ("budget", "release", "verify"))
        assert isinstance(budget, PrivacyBudgetSensor)
        assert isinstance(release, RocCurveOperator)
        assert isinstance(verify, VerifyReleaseOperator)
        assert (budget.release_task_id, budget.on_exhausted, budget.poke_interval) == ("churn.release", "skip", 5)
        assert (budget.account, budget.epsilon, budget.federation) == ("visits", "1", "hospitals")
        assert release.upstream_task_ids == {"churn.budget"}
        assert verify.upstream_task_ids == {"churn.release"}
        [warn] = release.on_success_callback  # type: ignore[misc]
        assert isinstance(warn, PrivacyBudgetNotifier)
        assert (warn.federation, warn.all_releases) == ("hospitals", True)
        [fail] = verify.on_failure_callback  # type: ignore[misc]
        fail({"ti": SimpleNamespace(task_id="churn.verify", dag_id="dag", run_id="r1")})
        assert told == ["task churn.verify of DAG dag failed in run r1; its log says why"]

    @pytest.mark.parametrize("name", ["account", "epsilon"])
    def test_what_the_sensor_reads_is_required(self, given: dict[str, Any], name: str) -> None:
        del given[name]
        with DAG("dag", schedule=None), pytest.raises(InvalidRequest, match=f"^{name}: is required"):
            private_release_group(**given, diagnostics="auc")

    @pytest.mark.airflow
    @pytest.mark.verify
    @pytest.mark.usefixtures("airflow_database", "fake_application")
    def test_mapped_each_index_waits_for_releases_and_verifies_its_own(
        self, account: PrivacyLedger, given: dict[str, Any]
    ) -> None:
        del given["epsilon"]
        with DAG("mapped_group", schedule=None) as dag:

            @task_group
            def each(epsilon: str) -> None:
                private_release_group("one", operator=RocCurveOperator, epsilon=epsilon, **given)

            each.expand(epsilon=["0.5", "0.25"])
        run = run_dag(dag)
        assert {str(instance.state) for instance in run.get_task_instances()} == {"success"}
        assert len(run.get_task_instances()) == 6
        charges = account.history("visits")
        assert sorted(str(charge.cost.epsilon) for charge in charges) == ["0.25", "0.5"]
        assert {charge.release.rpartition("/")[2] for charge in charges} == {"0", "1"}


FILE = """\
dag:
  schedule: "@daily"
  start_date: 2026-01-01
  tags: [privacy]
  params: {epsilon: "1"}
on_exhausted: skip
task:
  runner: spark_submit
  retries: 2
request:
  account: visits
  table: {path: /lake/visits, snapshot: {path_version: v1}}
  label: any_visit
  model: {kind: columns, score: score, basis: public}
  diagnostics:
    - kind: auc
    - kind: roc_curve
      method: tree
  budget:
    epsilon: "{{ params.epsilon }}"
  output: /releases
"""


class TestFiles:
    def test_a_file_makes_a_dag(self, tmp_path: Path) -> None:
        path = tmp_path / "churn.yaml"
        path.write_text(FILE)
        dag = dag_from(path)
        assert (dag.dag_id, set(dag.task_dict), dag.tags) == ("churn", {"budget", "release", "verify"}, {"privacy"})
        release, budget = dag.task_dict["release"], dag.task_dict["budget"]
        assert isinstance(release, ReleaseDiagnosticsOperator)
        assert (release.runner, release.retries) == ("spark_submit", 2)
        assert (budget.epsilon, budget.on_exhausted) == ("{{ params.epsilon }}", "skip")  # type: ignore[attr-defined]
        assert release.request["diagnostics"][1] == {"kind": "roc_curve", "method": "tree"}

    @pytest.mark.parametrize(
        ("old", "new", "line", "told"),
        [
            ("method: tree", "method: tre", 18, "request.diagnostics.method: got 'tre'"),
            ("method: tree", "bins: 3", 18, "request.diagnostics.bins: is not a field"),
            ('"{{ params.epsilon }}"', "abc", 20, "request.budget.epsilon: got 'abc'"),
            ("  account: visits\n", "", 10, "request.account: is required"),
            ("runner: spark_submit", "runner: abacus", 8, "task.runner: got 'abacus'"),
            ("runner: spark_submit", "runer: local", 8, "task.runer: is not a parameter of ReleaseDiagnosticsOperator"),
            ("on_exhausted: skip", "sensor: {poke: 3}", 6, "sensor.poke: is not a parameter of PrivacyBudgetSensor"),
            ("retries: 2", "retries: many", 7, "task: got"),
            ("  label: any_visit", "  labels: any_visit", 13, "request.labels: is not a field"),
            ("start_date: 2026-01-01", "start_date: tomorrow", 3, "dag.start_date: got 'tomorrow'"),
            ("on_exhausted: skip", "on_exhausted: give up", 6, "on_exhausted: got 'give up'"),
            ("dag:", "dog:", 1, "dog: is not a field"),
            ("label: any_visit", "label: &a [*a, *a]", 13, "must have no anchors and aliases, but has one at line 13"),
            ("label: any_visit", "label: *cycle", 13, "must have no anchors and aliases, but has one at line 13"),
            ("label: any_visit", "label: !!python/name:os.system x", 13, "must have no tags"),
            ("label: any_visit", "label: [", 15, "must be a YAML document, but has a syntax error at line 15"),
        ],
    )
    def test_a_mistake_is_one_line_with_the_file_and_the_line(
        self, tmp_path: Path, old: str, new: str, line: int, told: str
    ) -> None:
        path = tmp_path / "churn.yaml"
        assert old in FILE
        path.write_text(FILE.replace(old, new))
        with pytest.raises(InvalidRequest) as refused:
            dag_from(path)
        text = str(refused.value)
        assert text.startswith(f"{path}")
        assert f"line {line}" in text
        assert told in text
        assert "\n" not in text

    def test_an_anchor_bomb_is_refused_before_it_grows(self, tmp_path: Path) -> None:
        layers = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 30))
        (tmp_path / "bomb.yaml").write_text(f"l0: &l0 x\n{layers}\n")
        with pytest.raises(InvalidRequest, match="must have no anchors"):
            dag_from(tmp_path / "bomb.yaml")
        (tmp_path / "deep.yaml").write_text("[" * 5000)
        with pytest.raises(InvalidRequest, match=r"deep.yaml: file: must be nested at most"):
            dag_from(tmp_path / "deep.yaml")

    def test_entries_of_lists_need_no_number(self) -> None:
        assert line_of(FILE, "request.diagnostics.method") == 18
        assert line_of(FILE, "request.diagnostics.kind") == 16
        assert line_of(FILE, "nothing") == 1
        assert line_of("a: [", "a") is None

    def test_airflow_finds_the_dags_of_a_module_that_only_calls_it(self, tmp_path: Path) -> None:
        from tests.support.dag_bags import DagBag

        (tmp_path / "releases").mkdir()
        for name in ("churn", "stays"):
            (tmp_path / "releases" / f"{name}.yaml").write_text(FILE)
        module = tmp_path / "private_releases.py"
        line = "from dp_operators.operators import dags_from  # Airflow reads a module that says airflow and dag\n"
        module.write_text(f'{line}\ndags_from("releases/*.yaml")\n')
        bag = DagBag(dag_folder=module)
        assert bag.import_errors == {}
        assert set(bag.dags) == {"churn", "stays"}
        (tmp_path / "releases" / "stays.yaml").write_text(FILE.replace("dag:", "dag:\n  dag_id: churn"))
        [error] = DagBag(dag_folder=module).import_errors.values()
        assert "stays.yaml: got 'churn'; must have a DAG id of its own" in error

    def test_a_pattern_without_files_is_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="must match at least one file"):
            dags_from("no such folder/*.yaml")
        assert "tests" in sys.modules
