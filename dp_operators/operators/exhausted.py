"""What a task does when its budget is exhausted: wait, fail or skip, as set on the task or on its sensor."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from dp_operators.sensors.budget import PrivacyBudgetSensor

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    from dp_operators.budget import BudgetExceeded

POKE_SECONDS, TIMEOUT_SECONDS = 60.0, 7 * 86400.0
"""The interval and the timeout of a waiting task without a sensor: the defaults of Airflow's sensors."""


@contextmanager
def budget_may_be_exhausted(operator: BaseOperator, context: Context, on_exhausted: str | None) -> Iterator[None]:
    """End the task as ``on_exhausted`` says if its reservation exceeds the budget.

    Several runs may pass their sensors at the same time although the budget suffices for only some of them. A refused
    reservation charges nothing, so the other runs can still wait or be skipped.

    Args:
        operator: the task's operator.
        context: the task's context.
        on_exhausted: ``wait``, ``fail`` or ``skip``. None takes the setting of the upstream ``PrivacyBudgetSensor``
            whose ``release_task_id`` is this task; without such a sensor, the task fails.

    Raises:
        AirflowSkipException: for ``skip``.
        AirflowRescheduleException: for ``wait``: the task starts again after the sensor's ``poke_interval``, without
            occupying a worker or using up a retry, until the sensor's ``timeout`` has passed.
        BudgetExceeded: for ``fail``, or if the cost is above the cap itself.
        AirflowFailException: the timeout has passed.
    """
    from dp_operators.budget import BudgetExceeded

    try:
        yield
    except BudgetExceeded as exceeded:
        _end(operator, context, on_exhausted, exceeded)


def _end(operator: BaseOperator, context: Context, on_exhausted: str | None, exceeded: BudgetExceeded) -> None:
    from dp_operators.releasing.affordability import Affordability

    guard = _guard(operator)
    action = on_exhausted or (guard.on_exhausted if guard else "fail")
    line = f"{operator.task_id} is held back: {Affordability.of_exceeded(exceeded).reason}"
    if action == "skip":
        raise AirflowSkipException(line) from None
    if action == "fail" or exceeded.never_fits:
        raise exceeded
    pause, timeout = (
        (float(guard.poke_interval), float(guard.timeout or 0)) if guard else (POKE_SECONDS, TIMEOUT_SECONDS)
    )
    now = dt.datetime.now(dt.UTC)
    began = context["ti"].get_first_reschedule_date(context) or now
    if timeout and now - began > dt.timedelta(seconds=timeout):
        raise AirflowFailException(f"{line}; it has waited for {timeout:g} s") from None
    operator.log.info("%s", line)
    raise AirflowRescheduleException(now + dt.timedelta(seconds=pause)) from None


def _guard(operator: BaseOperator) -> PrivacyBudgetSensor | None:
    """The sensor directly upstream whose ``release_task_id`` is this task; None without one."""
    before = operator.upstream_list if operator.has_dag() else []
    return next(
        (task for task in before if isinstance(task, PrivacyBudgetSensor) and task.release_task_id == operator.task_id),
        None,
    )
