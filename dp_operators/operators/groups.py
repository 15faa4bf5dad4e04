"""The tasks of a governed release as one group: wait for the budget, release, verify, and notify somebody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import TaskGroup

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.notifications.budget import PrivacyBudgetNotifier
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.operators.verification import VerifyReleaseOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Context

Notify = Callable[[str], object]
OF_SENSOR = (
    "account", "epsilon", "delta", "rho", "blocks", "allotment", "privacy_ledger_conn_id", "deployment", "federation",
)  # fmt: skip
"""The parameters of the release that its sensor has too."""


def private_release_group(
    group_id: str = "private_release",
    *,
    operator: type[ReleaseDiagnosticsOperator] = ReleaseDiagnosticsOperator,
    on_exhausted: Literal["wait", "fail", "skip"] = "wait",
    sensor: Mapping[str, Any] | None = None,
    verify: bool = True,
    alert: Notify | None = None,
    alert_at: tuple[object, ...] = ("0.8", "1"),
    all_releases: bool = False,
    **release: Any,
) -> TaskGroup:
    """A task group that waits for the budget, makes a release, and verifies what was published.

    Its tasks are ``budget``, ``release`` and ``verify``. The group can be mapped: call this function inside a function
    with ``@task_group``; each map index then has a release key of its own.

    Args:
        group_id: the group's id, which prefixes the ids of its tasks.
        operator: the class of the release task: ``ReleaseDiagnosticsOperator``, or the operator of one kind.
        on_exhausted: what the sensor, and after it the release, does while the budget does not suffice.
        sensor: further parameters of the sensor, such as ``deferrable``, ``poke_interval`` and ``timeout``.
        verify: whether to compare the published files with their manifest, and the manifest with the ledger.
        alert: a function that takes a line; called if a task of the group fails, and if the release takes the account
            past a fraction of its cap. None notifies nobody.
        alert_at: the fractions of the cap that cause an alert.
        all_releases: whether ``alert`` also gets a line with the headline figures of each release.
        release: the parameters of the release; the sensor needs ``account`` and either ``epsilon`` or ``rho``.

    Raises:
        InvalidRequest: ``account`` is missing, ``epsilon`` and ``rho`` are both missing, or a constant is wrong.
    """
    with TaskGroup(group_id) as group:
        release_tasks(
            operator=operator,
            sensor={"on_exhausted": on_exhausted, **(sensor or {})},
            verify=verify,
            alert=alert,
            alert_at=alert_at,
            all_releases=all_releases,
            **release,
        )
    return group


def release_tasks(
    *,
    operator: type[ReleaseDiagnosticsOperator] = ReleaseDiagnosticsOperator,
    sensor: Mapping[str, Any],
    verify: bool,
    alert: Notify | None,
    alert_at: tuple[object, ...],
    all_releases: bool = False,
    **release: Any,
) -> ReleaseDiagnosticsOperator:
    """The tasks of ``private_release_group`` in the current DAG and group, connected; the release is returned."""
    for name in ("account", "epsilon"):
        if release.get(name) is None and (name == "account" or release.get("rho") is None):
            raise InvalidRequest(
                name,
                None,
                "is required, because the group's sensor reads it",
                "pass it as an argument of the group, not through default_args",
            )
    connection = release.get("privacy_ledger_conn_id", PrivacyLedgerHook.default_conn_name)
    on_failure = {} if alert is None else {"on_failure_callback": partial(notify_failure, alert)}
    on_success: dict[str, Any] = {}
    if alert is not None:
        on_success["on_success_callback"] = PrivacyBudgetNotifier(
            account=release["account"],
            notify=alert,
            at=alert_at,
            all_releases=all_releases,
            privacy_ledger_conn_id=connection,
            deployment=release.get("deployment"),
            federation=release.get("federation"),
        )
    task = operator(**{"task_id": "release", **on_failure, **on_success, **release})
    shared = {name: release[name] for name in OF_SENSOR if release.get(name) is not None}
    budget = PrivacyBudgetSensor(
        **{"task_id": "budget", "release_task_id": task.task_id, **on_failure, **shared, **sensor}
    )
    budget >> task
    if verify:
        task >> VerifyReleaseOperator(
            task_id="verify", release=task.output, privacy_ledger_conn_id=connection, **on_failure
        )
    return task


def notify_failure(notify: Notify, context: Context) -> None:
    """Send one line about a failed task; the reason is in its log."""
    instance = context["ti"]
    notify(f"task {instance.task_id} of DAG {instance.dag_id} failed in run {instance.run_id}; its log says why")
