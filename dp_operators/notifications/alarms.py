"""A notifier for alarms of the monitors of a stream."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

from airflow.sdk import BaseNotifier

from dp_operators.notifications.budget import Notify, _awaited
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.stream_alarms import StreamAlarms

if TYPE_CHECKING:
    from airflow.sdk import Context


class StreamAlarmNotifier(BaseNotifier):
    """Notifies of each alarm that began with the steps of a run; use it as the ``on_success_callback`` of its task.

    The monitors watch every count of the stream. The run that releases the step at which a condition begins to hold
    sends one line for it; while the condition goes on to hold, no further line is sent. The notifier reads only what
    the task has returned.

    Args:
        notify: takes the line, e.g. a function that sends a mail, and may be asynchronous; by default the line is
            logged as a warning.
        limit: the most lines for one run; one more line then gives the number of alarms left out.
    """

    def __init__(self, *, notify: Notify | None = None, limit: int = 20) -> None:
        super().__init__()
        self.send = notify or self._warn  # `notify` is a method of every notifier
        self.limit = limit

    def notify(self, context: Context) -> None:
        """Send a line for each alarm that began with this run."""
        for line in self._lines(context):
            sent = self.send(line)
            if inspect.isawaitable(sent):
                asyncio.run(_awaited(sent))

    def _lines(self, context: Context) -> list[str]:
        task = context["ti"]
        returned = task.xcom_pull(task_ids=task.task_id) or {}
        try:
            alarms = StreamAlarms.of(returned["alarms"])
        except (InvalidRequest, KeyError, TypeError):
            return []
        begun = alarms.begun_from(int(returned["first"])) if returned["released"] else ()
        lines = [f"{returned['uri']}: {alarm.line()}" for alarm in begun[: self.limit]]
        if len(begun) > self.limit:
            lines.append(f"{returned['uri']}: {len(begun) - self.limit} more alarms are listed; alarms.parquet has all")
        return lines

    def _warn(self, line: str) -> None:
        self.log.warning("%s", line)
