"""How a task ends whose release has diagnostics that noise leaves nothing of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Context

PUBLISH, SKIP, FAIL = "publish", "skip", "fail"


def require_ending(on_undefined: str) -> str:
    """The ending that was asked for.

    Raises:
        InvalidRequest: there is no such ending.
    """
    if on_undefined not in (PUBLISH, SKIP, FAIL):
        raise InvalidRequest(
            "on_undefined",
            value=on_undefined,
            requirement=f"must be {PUBLISH}, {SKIP} or {FAIL}",
            remedy="say how the task is to end where a diagnostic is undefined",
        )
    return on_undefined


def end_undefined(on_undefined: str, line: str, returned: Mapping[str, Any], context: Context) -> None:
    """End the task as asked for; what it would have returned is in XCom all the same, for tasks that run anyway.

    Args:
        on_undefined: ``publish``, ``skip`` or ``fail``.
        line: what is undefined.
        returned: what the task returns.
        context: of the task's run.

    Raises:
        AirflowSkipException: for ``skip``.
        AirflowFailException: for ``fail``; a retry would find the same release.
    """
    if on_undefined == PUBLISH:
        return
    context["ti"].xcom_push(key="return_value", value=dict(returned))
    raise (AirflowSkipException if on_undefined == SKIP else AirflowFailException)(line)
