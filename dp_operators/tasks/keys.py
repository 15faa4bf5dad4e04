"""The release key of a task, which is the same however often the task runs."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Protocol

from dp_operators import configuration

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.hooks.ledger import PrivacyLedgerHook
    from dp_operators.releasing import ReleaseKey

DEPLOYMENT = "airflow"
"""The default name of a deployment, for a ledger that no other deployment uses."""

TIMETABLED = ("scheduled", "backfill")
"""The types of DAG runs that a timetable creates, so that each stands for an interval."""


STREAM = "stream"
"""Takes the place of the run in a stream's key: all runs of a task advance one stream."""

_PARTITION, _NAMED = "partition=", "run="
_MOMENT = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z"
_RESERVED = re.compile(f"{STREAM}|{_MOMENT}(/.*)?|({_PARTITION}|{_NAMED}).*", re.DOTALL)
"""Ids that read like the key of a stream, or of a timetable's run; whoever may trigger a DAG chooses its run's id."""


class DagRunFacts(Protocol):
    """The attributes of a DAG run that a release key and its blocks depend on."""

    run_id: str
    run_type: Any
    logical_date: dt.datetime | None
    data_interval_start: dt.datetime | None
    data_interval_end: dt.datetime | None


def partition_of(run: DagRunFacts) -> str | None:
    """The run's partition key; runs of Airflow 3.1 have none."""
    return getattr(run, "partition_key", None) or None


def run_key(run: DagRunFacts) -> str:
    """The part of a release key that distinguishes the runs of one DAG; clearing or retrying a task does not change it.

    A scheduled or backfilled run is identified by its partition or interval, so that an interval is released once,
    whether it was scheduled, backfilled or both. Any other run is identified by its id. An id that could be mistaken
    for a partition, an interval or a stream is prefixed with ``run=``, so that nobody can release an interval in
    advance by triggering a run of that name.
    """
    if getattr(run.run_type, "value", run.run_type) not in TIMETABLED:
        return f"{_NAMED}{run.run_id}" if _RESERVED.fullmatch(run.run_id) else run.run_id
    partition = partition_of(run)
    if partition:
        return f"{_PARTITION}{partition}"
    start, end = run.data_interval_start, run.data_interval_end
    if start and end and start != end:
        return f"{_utc(start)}/{_utc(end)}"
    moment = run.logical_date or start
    return _utc(moment) if moment else run.run_id


def release_key(context: Context, *, deployment: str, task_id: str | None = None) -> ReleaseKey:
    """The key of the release that this task instance makes, or that ``task_id`` makes in the same DAG run.

    Another task is assumed to have the same map index, as the tasks of one mapped task group do.
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


def charged_key(
    context: Context,
    hook: PrivacyLedgerHook,
    *,
    account: str,
    federation: str | None = None,
    deployment: str | None = None,
    task_id: str | None = None,
) -> str:
    """The key under which the ledger has the charge of a task's release; for a federation, the key of its agreement.

    Args:
        context: the context of the task instance.
        hook: the hook of the ledger.
        account: the account that pays.
        federation: the name of the federation in which the task releases, if any.
        deployment: as for ``deployment_name``.
        task_id: as for ``release_key``.

    Raises:
        InvalidRequest: the federation is not registered here for the account.
    """
    if not federation:
        return str(release_key(context, deployment=deployment_name(deployment, hook), task_id=task_id))
    from dp_operators.releasing.federations import federated_key, registered_agreement

    return federated_key(registered_agreement(federation, account))


def deployment_name(given: str | None, hook: PrivacyLedgerHook) -> str:
    """The deployment's name in release keys.

    It is the task's parameter, else the ledger connection's, else the one in Airflow's configuration, else ``airflow``.
    """
    return given or hook.deployment or configuration.deployment() or DEPLOYMENT


def _utc(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
