"""An exceeded budget never retries, a locked ledger does: as Airflow's own task runner decides."""

from __future__ import annotations

import json
import sqlite3
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk.execution_time.task_runner import _handle_current_task_failed

from dp_operators.budget import BudgetExceeded, ChargeConflict, LedgerUnavailable, NotAllowed, PrivacyLedger
from dp_operators.releasing import ReleaseFailed, ReleaseRejected
from dp_operators.tasks.errors import LedgerUnreachable, as_airflow_errors
from spark_jobs.contract.errors import InvalidRequest

pytest.importorskip("airflow.sdk.definitions.retry_policy", reason="this Airflow has no retry policies; 3.3 has")

from dp_operators.operators.retrying import PrivacyRetryPolicy


def decided(failure: BaseException, policy: Any, *, tries_left: bool = True) -> tuple[str, float | None]:
    """The state that Airflow gives the task, and the seconds until its retry."""
    task = SimpleNamespace(retry_policy=policy)
    server = SimpleNamespace(max_tries=3, should_retry=tries_left)
    instance = SimpleNamespace(
        task=task,
        try_number=1,
        _ti_context_from_server=server,
        end_date=None,
        rendered_map_index=None,
        stats_tags={},
        _failure_metrics_emitted=False,
    )
    message, state = _handle_current_task_failed(instance, failure, structlog.get_logger(), None)
    return state.value, getattr(message, "retry_delay_seconds", None)


@pytest.fixture
def account(airflow_ledger: PrivacyLedger) -> PrivacyLedger:
    airflow_ledger.open_account("visits", epsilon="1")
    airflow_ledger.reserve("visits", release="first", epsilon="0.9")
    return airflow_ledger


def failure_of(work: Any) -> Exception:
    with pytest.raises((InvalidRequest, LedgerUnavailable, AirflowException)) as failed:
        work()
    return failed.value


def locked(ledger: PrivacyLedger) -> Exception:
    """What a task meets whose ledger another writer does not let go of."""
    path = ledger.name.removeprefix("sqlite:///")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        impatient = PrivacyLedger(f"sqlite:///{path}", patience=0.01)
        return failure_of(lambda: impatient.reserve("visits", release="second", epsilon="0.1"))
    finally:
        holder.close()


def told(failure: Exception) -> Exception:
    """What the operators make of it."""

    def work() -> None:
        with as_airflow_errors():
            raise failure

    return failure_of(work)


def test_exceeded_budget_is_never_retried(account: PrivacyLedger) -> None:
    exceeded = failure_of(lambda: account.reserve("visits", release="second", epsilon="0.2"))
    assert isinstance(exceeded, BudgetExceeded)
    assert decided(exceeded, PrivacyRetryPolicy()) == ("failed", None)
    # without the policy, a task of one's own would be tried again in vain
    assert decided(exceeded, None) == ("up_for_retry", None)


@pytest.mark.parametrize(
    "failure",
    [
        ChargeConflict("release", None, "is charged for another request", "use another key"),
        NotAllowed("postgresql://h/l", "permission denied for table accounts"),
        InvalidRequest("account", None, "must be an open account", "open one"),
        ReleaseRejected("the draft does not meet the release contract"),
    ],
)
def test_what_stays_as_it_is_is_never_retried(failure: Exception) -> None:
    assert decided(failure, PrivacyRetryPolicy()) == ("failed", None)


def test_locked_ledger_is_asked_again_soon(account: PrivacyLedger) -> None:
    away = locked(account)
    assert isinstance(away, LedgerUnavailable)
    assert "another writer has locked it" in str(away)
    assert decided(away, PrivacyRetryPolicy()) == ("up_for_retry", 30)
    assert decided(told(away), PrivacyRetryPolicy(soon=timedelta(seconds=5))) == ("up_for_retry", 5)
    # but not more often than the task allows
    assert decided(away, PrivacyRetryPolicy(), tries_left=False)[0] == "failed"


def test_operators_tell_a_locked_ledger_from_other_failures(account: PrivacyLedger) -> None:
    assert type(told(locked(account))) is LedgerUnreachable
    assert issubclass(LedgerUnreachable, AirflowException)
    assert type(told(ReleaseFailed("the application ended without a draft"))) is AirflowException


@pytest.mark.parametrize("failure", [ReleaseFailed("the store failed"), ValueError("something else")])
def test_other_failures_are_the_tasks_own(failure: Exception) -> None:
    assert decided(failure, PrivacyRetryPolicy()) == ("up_for_retry", None)
    assert decided(failure, PrivacyRetryPolicy(), tries_left=False)[0] == "failed"


def test_policy_survives_the_way_through_json() -> None:
    policy = PrivacyRetryPolicy(soon=timedelta(seconds=7))
    assert PrivacyRetryPolicy.deserialize(json.loads(json.dumps(policy.serialize()))).soon == policy.soon


def test_operator_takes_the_policy() -> None:
    from dp_operators.sensors.budget import PrivacyBudgetSensor

    sensor = PrivacyBudgetSensor(task_id="s", account="visits", epsilon="1", retry_policy=PrivacyRetryPolicy())
    assert isinstance(sensor.retry_policy, PrivacyRetryPolicy)
