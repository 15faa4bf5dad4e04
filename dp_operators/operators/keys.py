"""Which release a task is about: the key that stays the same however often the task runs."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.releasing import ReleaseKey

DEPLOYMENT = "airflow"
"""Name of a deployment that has the ledger for itself."""

TIMETABLED = ("scheduled", "backfill")
"""Kinds of DAG runs that stand for an interval, and not for somebody's wish to run the DAG."""


class DagRunFacts(Protocol):
    """What a DAG run says about itself."""

    run_id: str
    run_type: Any
    logical_date: dt.datetime | None
    data_interval_start: dt.datetime | None
    data_interval_end: dt.datetime | None
    partition_key: str | None


def run_key(run: DagRunFacts) -> str:
    """What tells the releases of one DAG's runs apart.

    A run that a timetable asked for, at its time or in a backfill, is known by the partition or the interval it is
    about: scheduled and backfilled, an interval is released once. Any other run is known by its id. Clearing a task,
    or a retry, changes neither.
    """
    if getattr(run.run_type, "value", run.run_type) not in TIMETABLED:
        return run.run_id
    if run.partition_key:
        return f"partition={run.partition_key}"
    start, end = run.data_interval_start, run.data_interval_end
    if start and end and start != end:
        return f"{_utc(start)}/{_utc(end)}"
    moment = run.logical_date or start
    return _utc(moment) if moment else run.run_id


def release_key(context: Context, *, deployment: str, task_id: str | None = None) -> ReleaseKey:
    """The key of the release that this task instance makes, or that ``task_id`` makes in the same DAG run.

    Another task is taken to have the same map index, as the tasks of one mapped task group have.
    """
    from dp_operators.releasing import ReleaseKey

    instance = context["ti"]
    return ReleaseKey(
        deployment=deployment,
        dag_id=instance.dag_id,
        run=run_key(context["dag_run"]),
        task_id=task_id or instance.task_id,
        map_index=-1 if instance.map_index is None else instance.map_index,
    )


def _utc(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
