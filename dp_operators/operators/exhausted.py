"""What a task does when its budget does not suffice: wait, fail or skip, as it or the sensor before it says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException, AirflowSkipException

from dp_operators.sensors.budget import PrivacyBudgetSensor

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

    from dp_operators.budget import BudgetExceeded

POKE_SECONDS, TIMEOUT_SECONDS = 60.0, 7 * 86400.0
"""How often and how long a task waits that no sensor guards: what Airflow's sensors do by default."""


@contextmanager
def budget_may_be_exhausted(operator: BaseOperator, context: Context, on_exhausted: str | None) -> Iterator[None]:
    """End the task as ``on_exhausted`` says if its reservation finds the budget spent.

    Runs that pass their sensor together may find that only some of them can be paid. A refused reservation has charged
    nothing, so that those left over can wait or be skipped as if they had never passed.

    Args:
        operator: the task's.
        context: of the task.
        on_exhausted: ``wait``, ``fail`` or ``skip``; None for what the sensor says whose ``release_task_id`` is this
            task and that comes directly before it, or ``fail`` without one.

    Raises:
        AirflowSkipException: to skip.
        AirflowRescheduleException: to wait: the task begins anew after the sensor's ``poke_interval``, without holding
            a worker or using up a retry, until the sensor's ``timeout`` has passed since it began to wait.
        BudgetExceeded: to fail, or the cost is above the cap itself.
        AirflowFailException: the wait was too long.
    """
    from dp_operators.budget import BudgetExceeded

    try:
        yield
    except BudgetExceeded as exceeded:
        _end(operator, context, on_exhausted, exceeded)


def _end(operator: BaseOperator, context: Context, on_exhausted: str | None, exceeded: BudgetExceeded) -> None:
    from dp_operators.releasing.affordability import Affordability

    guard = _guard(operator)
    how = on_exhausted or (guard.on_exhausted if guard else "fail")
    line = f"{operator.task_id} is held back: {Affordability.of_exceeded(exceeded).reason}"
    if how == "skip":
        raise AirflowSkipException(line) from None
    if how == "fail" or exceeded.never_fits:
        raise exceeded
    pause, longest = (
        (float(guard.poke_interval), float(guard.timeout or 0)) if guard else (POKE_SECONDS, TIMEOUT_SECONDS)
    )
    now = dt.datetime.now(dt.UTC)
    began = context["ti"].get_first_reschedule_date(context) or now
    if longest and now - began > dt.timedelta(seconds=longest):
        raise AirflowFailException(f"{line}; it has waited for {longest:g} s") from None
    operator.log.info("%s", line)
    raise AirflowRescheduleException(now + dt.timedelta(seconds=pause)) from None


def _guard(operator: BaseOperator) -> PrivacyBudgetSensor | None:
    """The sensor directly before the task that guards it; None if there is none."""
    before = operator.upstream_list if operator.has_dag() else []
    return next(
        (task for task in before if isinstance(task, PrivacyBudgetSensor) and task.release_task_id == operator.task_id),
        None,
    )
