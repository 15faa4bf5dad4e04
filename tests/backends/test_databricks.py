"""Runs of Databricks: the hook's calls are those of its provider, and what is submitted is what its interface takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dp_operators.backends import databricks
from dp_operators.backends.databricks import DatabricksJobs
from dp_operators.operators.runners import make_runner
from dp_operators.releasing import Handle
from spark_jobs.contract import InvalidRequest
from tests.suites.backends import SUBMISSION, BackendContract, Started
from tests.support.provider_hooks import autospecced, hook_class

CLUSTER = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 2}
SETTINGS = {"application": "/Volumes/dp/launch.py", "new_cluster": {**CLUSTER, "spark_env_vars": {"A": "b"}}}


class Workspace:
    """A workspace behind an instance of the provider's hook: it knows a run by its token."""

    def __init__(self) -> None:
        self.hook = autospecced(databricks.HOOK)
        self.hook.submit_run.side_effect = self._submit
        self.hook.get_run_state.side_effect = self._state
        self.hook.cancel_run.side_effect = self._cancel
        self.run_state = hook_class("airflow.providers.databricks.hooks.databricks.RunState")
        self.submitted: list[dict[str, Any]] = []
        self.states: list[str] = []
        self.away = False

    def _reached(self) -> None:
        if self.away:
            raise hook_class("airflow.exceptions.AirflowException")("the workspace does not answer")

    def _submit(self, json: dict[str, Any]) -> int:
        self._reached()
        assert set(json) == {"run_name", "idempotency_token", "tasks"}
        assert len(json["idempotency_token"]) <= 64
        known = [earlier["idempotency_token"] for earlier in self.submitted]
        if json["idempotency_token"] in known:
            return known.index(json["idempotency_token"]) + 1
        self.submitted.append(json)
        self.states.append("RUNNING")
        return len(self.submitted)

    def _state(self, run_id: int) -> Any:
        self._reached()
        return self.run_state(life_cycle_state=self.states[run_id - 1])

    def _cancel(self, run_id: int) -> None:
        self._reached()
        self.states[run_id - 1] = "TERMINATED"

    def backend(self) -> DatabricksJobs:
        backend = DatabricksJobs(
            connection="workspace", **SETTINGS, libraries=({"whl": "/Volumes/dp/dp.whl"},), conf={"spark.x": 1}
        )
        backend.__dict__["_hook"] = self.hook
        return backend

    def started(self) -> list[Started]:
        tasks = [task for run in self.submitted for task in run["tasks"]]
        return [
            Started(arguments=task["spark_python_task"]["parameters"], variables=task["new_cluster"]["spark_env_vars"])
            for task in tasks
        ]

    def end(self, handle: Handle) -> None:
        self.states[int(handle.id) - 1] = "INTERNAL_ERROR"

    def cut(self) -> None:
        self.away = True


class TestDatabricksJobs(BackendContract):
    @pytest.fixture
    def place(self) -> Workspace:
        return Workspace()

    def test_run_has_the_cluster_of_the_connection_and_is_never_retried_by_databricks(self, place: Workspace) -> None:
        place.backend().submit(SUBMISSION)
        [task] = place.submitted[0]["tasks"]
        assert {name: task["new_cluster"][name] for name in CLUSTER} == CLUSTER
        assert task["new_cluster"]["spark_conf"] == {"spark.x": "1"}
        assert task["new_cluster"]["spark_env_vars"]["A"] == "b"
        assert task["spark_python_task"]["python_file"] == "/Volumes/dp/launch.py"
        assert (task["max_retries"], task["libraries"]) == (0, [{"whl": "/Volumes/dp/dp.whl"}])


Connect = Callable[..., None]


def make(conn_id: str, kind: str = "cluster") -> Any:
    return make_runner(kind, master=None, spark_conn_id=conn_id, conf={"spark.x": "1"}, private_dir=None)


def test_connection_of_type_databricks_is_a_job_and_never_spark_submit(connect: Connect) -> None:
    connect("workspace", conn_type="databricks", host="https://dbc.example.org", extra={"dp_diagnostics": SETTINGS})
    assert make("workspace") == DatabricksJobs(connection="workspace", **SETTINGS, conf={"spark.x": "1"})
    with pytest.raises(InvalidRequest) as refused:
        make("workspace", "spark_submit")
    assert str(refused.value) == (
        "connection workspace: got 'the type databricks'; must be of type spark for the runner spark_submit; "
        "name another connection, or set the runner to cluster"
    )


@pytest.mark.parametrize("settings", [None, {}, {"application": "/a"}, {**SETTINGS, "existing_cluster_id": "c"}])
def test_connection_that_does_not_say_how_to_run_is_refused(connect: Connect, settings: Any) -> None:
    connect("workspace", conn_type="databricks", host="https://dbc.example.org", extra={"dp_diagnostics": settings})
    with pytest.raises(InvalidRequest, match="must have the extra dp_diagnostics with application and new_cluster"):
        make("workspace")


def test_type_without_a_backend_is_refused_in_one_line(connect: Connect) -> None:
    connect("ssh", conn_type="ssh", host="edge.example.org")
    with pytest.raises(InvalidRequest) as refused:
        make("ssh")
    assert str(refused.value) == (
        "connection ssh: got 'the type ssh'; must be of type spark or databricks; name another connection"
    )
