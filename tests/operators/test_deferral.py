"""A release on a cluster is submitted, deferred and settled: between the two, no worker has anything to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, TaskDeferred

from dp_operators.budget import PrivacyLedger
from dp_operators.decorators.private_release import PrivateReleaseDecoratedOperator
from dp_operators.operators.diagnostics import RocCurveOperator
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.triggers.application import ApplicationTrigger
from tests.support.accounts import open_bound
from tests.support.airflow import make_context
from tests.support.backends import FolderBackend

TABLE = "/lake/visits"
Make = Callable[..., ReleaseDiagnosticsOperator]


@pytest.fixture
def account(airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
    open_bound(airflow_ledger, "visits", epsilon="1.5", table=TABLE, output=tmp_path / "releases")
    return airflow_ledger


@pytest.fixture
def cluster(account: PrivacyLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderBackend:
    backend = FolderBackend(tmp_path)
    for module in ("operators.application", "tasks.runners"):
        monkeypatch.setattr(f"dp_operators.{module}.make_runner", lambda *_, **__: backend)
    monkeypatch.setattr("dp_operators.release_check.check_release", lambda release, read: None)
    return backend


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def operator(kind: type[ReleaseDiagnosticsOperator] = ReleaseDiagnosticsOperator, **fields: Any) -> Any:
        given: dict[str, Any] = {
            "account": "visits",
            "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
            "label": "any_visit",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "epsilon": "1",
            "output": str(tmp_path / "releases"),
            "runner": "spark_submit",
            **({"diagnostics": "roc_curve"} if kind is ReleaseDiagnosticsOperator else {}),
        }
        return kind(task_id="release", **{**given, **fields})

    return operator


def deferred_by(work: Callable[[], Any]) -> ApplicationTrigger:
    with pytest.raises(TaskDeferred) as deferred:
        work()
    assert deferred.value.method_name == "resume"
    assert isinstance(deferred.value.trigger, ApplicationTrigger)
    return deferred.value.trigger


def event_of(trigger: ApplicationTrigger) -> dict[str, Any]:
    """What a triggerer sends, which makes the trigger anew from what the task says of it."""
    _, fields = trigger.serialize()

    async def first() -> dict[str, Any]:
        async for event in ApplicationTrigger(**{**fields, "interval": 0.01}).run():
            return dict(event.payload)
        raise AssertionError("the trigger ended without a word")

    return asyncio.run(first())


@pytest.mark.parametrize("kind", [ReleaseDiagnosticsOperator, RocCurveOperator])
def test_task_submits_waits_without_a_worker_and_settles(
    cluster: FolderBackend, account: PrivacyLedger, make: Make, kind: type[ReleaseDiagnosticsOperator]
) -> None:
    trigger = deferred_by(lambda: make(kind, deferrable=True).execute(make_context()))
    assert [charge.state for charge in account.history("visits")] == ["reserved"]
    secret = account.run_key(account.history("visits")[0].id).hex()
    assert secret not in str(trigger.serialize())
    event = event_of(trigger)
    assert event == {"run": 1, "state": "ended"}
    returned = make(kind, deferrable=True).resume(make_context(), event)
    assert returned["status"] == {"roc_curve": "ok"}
    assert (cluster.submitted, account.history("visits")[0].state) == (1, "committed")


def test_a_functions_request_is_settled_by_the_worker_that_resumes(
    cluster: FolderBackend, account: PrivacyLedger, make: Make
) -> None:
    """It has neither the first worker's memory nor, from the DAG, what the function returned."""

    def decorated() -> PrivateReleaseDecoratedOperator:
        return PrivateReleaseDecoratedOperator(
            task_id="release", runner="spark_submit", deferrable=True,
            python_callable=lambda kind: {**make().request, "diagnostics": kind}, op_kwargs={"kind": "roc_curve"},
        )  # fmt: skip

    event = event_of(deferred_by(lambda: decorated().execute(make_context())))
    assert decorated().resume(make_context(), event)["status"] == {"roc_curve": "ok"}
    assert (cluster.submitted, account.history("visits")[0].state) == (1, "committed")


def test_worker_lost_before_it_could_defer_is_followed_by_one_that_defers_to_the_same_application(
    cluster: FolderBackend, make: Make
) -> None:
    cluster.looks = 100
    first = deferred_by(lambda: make(deferrable=True).execute(make_context()))
    again = deferred_by(lambda: make(deferrable=True).execute(make_context()))
    assert again.serialize() == first.serialize()
    assert cluster.submitted == 1


def test_application_that_still_runs_when_the_task_is_resumed_is_waited_for_again(
    cluster: FolderBackend, make: Make
) -> None:
    cluster.looks = 100
    first = deferred_by(lambda: make(deferrable=True).execute(make_context()))
    event = {"run": first.application_run, "state": "unknown"}
    deferred_by(lambda: make(deferrable=True).resume(make_context(), event))
    assert cluster.submitted == 1


def test_failed_application_fails_the_task_and_its_retry_submits_another_run(
    cluster: FolderBackend, account: PrivacyLedger, make: Make
) -> None:
    cluster.behaviour = "fail"
    event = event_of(deferred_by(lambda: make(deferrable=True).execute(make_context())))
    with pytest.raises(AirflowException, match="ended without a draft"):
        make(deferrable=True).resume(make_context(), event)
    assert deferred_by(lambda: make(deferrable=True).execute(make_context())).application_run == 2
    assert [charge.state for charge in account.history("visits")] == ["reserved"]


def test_driver_on_the_workers_machine_is_waited_for_in_the_tasks_slot(cluster: FolderBackend, make: Make) -> None:
    cluster.elsewhere = False
    assert make(deferrable=True).execute(make_context())["status"] == {"roc_curve": "ok"}


def test_airflows_own_option_is_the_default(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make().deferrable is False
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    assert make().deferrable is True
    assert make(deferrable=False).deferrable is False
