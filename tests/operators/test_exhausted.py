"""Runs that race for a budget: as many as it bears release, and the others wait, fail or are skipped."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow.sdk import DAG

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor
from spark_jobs.contract.errors import InvalidRequest
from tests.support.accounts import open_bound
from tests.support.airflow import make_context

pytestmark = pytest.mark.usefixtures("fake_application")

TABLE = "/lake/visits"
RUNS, PAID = 8, 3


@pytest.fixture
def account(airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
    open_bound(airflow_ledger, "visits", epsilon=str(PAID), table=TABLE, output=tmp_path / "releases")
    return airflow_ledger


def release_task(folder: Path, **fields: Any) -> ReleaseDiagnosticsOperator:
    given = {
        "account": "visits",
        "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
        "label": "any_visit",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
        "diagnostics": "roc_curve",
        "epsilon": "1",
        "output": str(folder / "releases"),
    }
    return ReleaseDiagnosticsOperator(task_id="release", **{**given, **fields})


def guarded(folder: Path, *, on_exhausted: Any, guards: str = "release", **fields: Any) -> ReleaseDiagnosticsOperator:
    with DAG("visits", schedule=None):
        sensor = PrivacyBudgetSensor(
            task_id="budget",
            account="visits",
            epsilon="1",
            on_exhausted=on_exhausted,
            release_task_id=guards,
            poke_interval=7,
            timeout=600,
        )
        task = release_task(folder, **fields)
        sensor >> task
    return task


def context(run: str = "run", waits_since: dt.datetime | None = None) -> Any:
    made = make_context(run_type="manual", run_id=run)
    made["ti"].get_first_reschedule_date = lambda _: waits_since
    return made


def outcome(task: ReleaseDiagnosticsOperator, run: str) -> str:
    try:
        task.execute(context(run))
    except (AirflowSkipException, AirflowRescheduleException, AirflowFailException) as ended:
        return type(ended).__name__
    return "released"


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("on_exhausted", "ended"),
    [("skip", "AirflowSkipException"), ("wait", "AirflowRescheduleException"), ("fail", "AirflowFailException")],
)
@pytest.mark.verify
def test_of_eight_runs_at_once_three_spend_and_the_others_do_as_their_sensor_says(
    account: PrivacyLedger, tmp_path: Path, on_exhausted: str, ended: str
) -> None:
    tasks = [guarded(tmp_path, on_exhausted=on_exhausted) for _ in range(RUNS)]
    for number, task in enumerate(tasks):
        assert task.upstream_list[0].poke(context(f"run {number}"))  # type: ignore[union-attr]
    with ThreadPoolExecutor(RUNS) as pool:
        outcomes = list(pool.map(outcome, tasks, [f"run {number}" for number in range(RUNS)]))
    assert sorted(outcomes) == sorted(["released"] * PAID + [ended] * (RUNS - PAID))
    assert [charge.state for charge in account.history("visits")] == [ChargeState.COMMITTED] * PAID
    assert account.remaining("visits").epsilon == 0
    assert len(list(tmp_path.glob("releases/*/release.json"))) == PAID
    assert account.verify()


def spend(account: PrivacyLedger) -> None:
    account.reserve("visits", release="earlier", epsilon=PAID)


@pytest.mark.slow
def test_release_that_waits_goes_on_once_the_cap_is_raised(account: PrivacyLedger, tmp_path: Path) -> None:
    spend(account)
    task, before = guarded(tmp_path, on_exhausted="wait"), dt.datetime.now(dt.UTC)
    with pytest.raises(AirflowRescheduleException) as waits:
        task.execute(context())
    assert waits.value.reschedule_date - before >= dt.timedelta(seconds=7)
    assert waits.value.reschedule_date - before < dt.timedelta(seconds=60)
    account.raise_cap("visits", epsilon=PAID + 1, actor="dora", reason="more")
    assert task.execute(context())["cost"]["epsilon"] == "1"


def test_wait_ends_with_the_sensors_timeout(account: PrivacyLedger, tmp_path: Path) -> None:
    spend(account)
    head, long_ago = account.head(), dt.datetime.now(dt.UTC) - dt.timedelta(seconds=601)
    task = guarded(tmp_path, on_exhausted="wait")
    with pytest.raises(AirflowFailException, match=r"^release is held back: .* it has waited for 600 s$"):
        task.execute(context(waits_since=long_ago))
    with pytest.raises(AirflowRescheduleException):
        task.execute(context(waits_since=long_ago + dt.timedelta(seconds=60)))
    assert account.head() == head


def own(folder: Path, on_exhausted: Any) -> ReleaseDiagnosticsOperator:
    """A release with a word of its own, behind a sensor that says otherwise."""
    task = guarded(folder, on_exhausted="fail")
    task.on_exhausted = on_exhausted
    return task


def test_operators_own_word_counts_before_the_sensors(account: PrivacyLedger, tmp_path: Path) -> None:
    spend(account)
    with pytest.raises(AirflowSkipException, match="^release is held back: account visits has epsilon 0 of 3 left"):
        own(tmp_path, "skip").execute(context())


@pytest.mark.parametrize("guards", [None, "another"])
def test_release_without_a_sensor_of_its_own_fails_unless_told_otherwise(
    account: PrivacyLedger, tmp_path: Path, guards: Any
) -> None:
    spend(account)
    tasks = [release_task(tmp_path), guarded(tmp_path, on_exhausted="skip", guards=guards)]
    for task in tasks:
        with pytest.raises(AirflowFailException, match="account visits has 0 of 3 left"):
            task.execute(context())
    with pytest.raises(AirflowRescheduleException) as waits:
        release_task(tmp_path, on_exhausted="wait").execute(context())
    assert waits.value.reschedule_date > dt.datetime.now(dt.UTC) + dt.timedelta(seconds=50)


def test_cost_above_the_cap_is_not_waited_for(account: PrivacyLedger, tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException, match="account visits has 3 of 3 left"):
        release_task(tmp_path, epsilon="4", on_exhausted="wait").execute(context())
    assert account.history("visits") == ()


def test_word_that_is_none_is_refused_when_the_dag_is_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="^on_exhausted: .*must be one of wait, fail, skip"):
        release_task(tmp_path, on_exhausted="soft")
