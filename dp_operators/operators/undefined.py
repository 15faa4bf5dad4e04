"""What a task does when a diagnostic of its release is undefined because of the noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException

from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Context

PUBLISH, SKIP, FAIL = "publish", "skip", "fail"


def require_ending(on_undefined: str) -> str:
    """``on_undefined``, if it is ``publish``, ``skip`` or ``fail``.

    Raises:
        InvalidRequest: ``on_undefined`` is anything else.
    """
    if on_undefined not in (PUBLISH, SKIP, FAIL):
        raise InvalidRequest(
            "on_undefined", on_undefined, f"must be {PUBLISH}, {SKIP} or {FAIL}",
            "choose how the task ends if a diagnostic is undefined",
        )  # fmt: skip
    return on_undefined


def end_undefined(on_undefined: str, line: str, returned: Mapping[str, Any], context: Context) -> None:
    """Skip or fail the task if ``on_undefined`` says so; its result is pushed to XCom first, for downstream tasks.

    Args:
        on_undefined: ``publish``, ``skip`` or ``fail``.
        line: the message, which names the undefined diagnostics.
        returned: the task's result.
        context: the task's context.

    Raises:
        AirflowSkipException: for ``skip``.
        AirflowFailException: for ``fail``; a retry would find the same release.
    """
    if on_undefined == PUBLISH:
        return
    context["ti"].xcom_push(key="return_value", value=dict(returned))
    raise (AirflowSkipException if on_undefined == SKIP else AirflowFailException)(line)
