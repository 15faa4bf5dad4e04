"""A release key stays the same for one task of one run or interval, and differs for everything else."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from dp_operators.tasks.keys import STREAM, release_key, run_key
from tests.support.airflow import RUN_DATE, make_context

DAY = dt.timedelta(days=1)


def key(**facts: Any) -> str:
    return str(release_key(make_context(**facts), deployment="airflow"))


def test_scheduled_run_is_known_by_its_interval() -> None:
    assert key() == "airflow/visits/2026-11-20T00:00:00Z%2F2026-11-21T00:00:00Z/release/-1"


def test_backfill_of_an_interval_shares_the_scheduled_runs_key() -> None:
    assert key(run_type="backfill", run_id="backfill__2026-11-20") == key()


def test_interval_is_the_same_in_every_time_zone() -> None:
    tokyo = RUN_DATE.astimezone(dt.timezone(dt.timedelta(hours=9)))
    assert key(interval=(tokyo, tokyo + DAY)) == key()


def test_run_at_a_moment_is_known_by_it() -> None:
    assert key(interval=(RUN_DATE, RUN_DATE)) == "airflow/visits/2026-11-20T00:00:00Z/release/-1"


def test_partitioned_run_is_known_by_its_partition() -> None:
    assert key(partition_key="eu|2026", interval=None) == "airflow/visits/partition=eu%7C2026/release/-1"


@pytest.mark.parametrize("kind", ["manual", "asset_triggered", "operator_triggered", "asset_materialization"])
def test_any_other_run_is_known_by_its_id(kind: str) -> None:
    assert "/manual__7/" in key(run_type=kind, run_id="manual__7")
    assert key(run_type=kind, run_id="manual__7") != key(run_type=kind, run_id="manual__8")


@pytest.mark.parametrize("facts", [{}, {"interval": (RUN_DATE, RUN_DATE)}, {"partition_key": "eu", "interval": None}])
def test_nobody_takes_the_key_of_an_interval_by_the_id_of_a_run(facts: dict[str, Any]) -> None:
    """Whoever may trigger a DAG chooses the run's id, and would release what the schedule is to release."""
    scheduled = make_context(**facts)
    taken = run_key(scheduled["dag_run"])
    ids = [taken, f"run={taken}", STREAM, "run=manual__7", "manual__7"]
    keys = [run_key(make_context(run_type="manual", run_id=name)["dag_run"]) for name in ids]
    assert len({taken, STREAM, *keys}) == 2 + len(ids)


def test_scheduled_run_without_an_interval_is_known_by_its_id() -> None:
    assert "/scheduled__x/" in key(run_id="scheduled__x", interval=None)


def test_airflows_own_enumeration_is_understood() -> None:
    from airflow.sdk.api.datamodels._generated import DagRunType

    assert key(run_type=DagRunType.BACKFILL) == key()
    assert "/manual__7/" in key(run_type=DagRunType.MANUAL, run_id="manual__7")


def test_every_part_tells_releases_apart() -> None:
    others = [
        {"dag_id": "others"},
        {"task_id": "another"},
        {"map_index": 0},
        {"map_index": 1},
        {"interval": (RUN_DATE + DAY, RUN_DATE + 2 * DAY)},
        {"run_type": "manual"},
    ]
    keys = {key(), *(key(**facts) for facts in others)}
    assert len(keys) == len(others) + 1
    assert str(release_key(make_context(), deployment="other")) not in keys


def test_try_number_is_no_part() -> None:
    context = make_context()
    context["ti"].try_number = 7
    assert str(release_key(context, deployment="airflow")) == key()


def test_task_that_is_guarded_shares_run_and_map_index() -> None:
    sensor = make_context(task_id="budget", map_index=3)
    guarded = release_key(sensor, deployment="airflow", task_id="release")
    assert str(guarded) == key(map_index=3)
