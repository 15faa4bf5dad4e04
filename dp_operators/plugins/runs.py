"""The task instance that made a release, from the release's key."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.configuration import conf
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import ColumnElement, and_, or_, select

from dp_operators.plugins.addresses import airflow_address
from dp_operators.releasing import ReleaseKey
from spark_jobs.contract.errors import InvalidRequest


def run_address(key: str, user: Any) -> str:
    """The address of the task instance in Airflow; empty if there is none, or if the user may not see it."""
    try:
        parts = ReleaseKey.parse(key)
    except InvalidRequest:
        return ""
    team = DagModel.get_team_name(parts.dag_id) if conf.getboolean("core", "multi_team", fallback=False) else None
    details = DagDetails(id=parts.dag_id, team_name=team)
    if not get_auth_manager().is_authorized_dag(
        method="GET", access_entity=DagAccessEntity.TASK_INSTANCE, details=details, user=user
    ):
        return ""
    latest = select(DagRun.run_id).where(DagRun.dag_id == parts.dag_id, _is_run(parts.run)).order_by(DagRun.id.desc())
    with create_session() as session:
        run_id = session.scalar(latest.limit(1))
    if run_id is None:
        return ""
    place = ["dags", parts.dag_id, "runs", run_id, "tasks", parts.task_id]
    place += [] if parts.map_index < 0 else ["mapped", str(parts.map_index)]
    return airflow_address("/".join(quote(part, safe="") for part in place))


def _is_run(name: str) -> ColumnElement[bool]:
    """Whether a DAG run is the one of a release key (``dp_operators.tasks.keys.run_key``)."""
    ways: list[ColumnElement[bool]] = [DagRun.run_id == name.removeprefix("run=")]
    if name.startswith("partition=") and hasattr(DagRun, "partition_key"):
        ways.append(DagRun.partition_key == name.removeprefix("partition="))
    moments = [_moment(text) for text in name.split("/")]
    if moments[0] is not None and moments[-1] is not None:
        ways.append(
            DagRun.logical_date == moments[0]
            if len(moments) == 1
            else and_(DagRun.data_interval_start == moments[0], DagRun.data_interval_end == moments[-1])
        )
    return or_(*ways)


def _moment(text: str) -> dt.datetime | None:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
