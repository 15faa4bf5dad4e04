"""A trigger that waits for a Spark application without a worker; it only reads states, so it may safely run twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

LOOK_SECONDS = 30.0
PATIENCE_SECONDS = 600.0
"""How long the backend may not know the application before the task goes on and reads the store."""


class ApplicationTrigger(BaseTrigger):
    """Checks at intervals whether an application has ended; ends the application if a user ends the waiting task.

    Args:
        runner: the task's runner.
        spark_conn_id: the task's connection, whose backend knows the application.
        handle: the fields of the application's ``dp_operators.releasing.Handle``, which holds no secret.
        run: the number of the run, which the event returns to the task.
        interval: seconds between two checks.
    """

    def __init__(
        self, *, runner: str, spark_conn_id: str, handle: Mapping[str, str], run: int, interval: float = LOOK_SECONDS
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.runner = runner
        self.spark_conn_id = spark_conn_id
        self.handle = dict(handle)
        self.application_run = run  # `run` is the method that Airflow calls
        self.interval = interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and the arguments that reconstruct the trigger."""
        return (
            "dp_operators.triggers.application.ApplicationTrigger",
            {
                "runner": self.runner,
                "spark_conn_id": self.spark_conn_id,
                "handle": self.handle,
                "run": self.application_run,
                "interval": self.interval,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check until the application has ended, then yield one event, ``{"run", "state"}``."""
        known = time.monotonic()
        while (state := await sync_to_async(self._look)()) != "ended":
            known = time.monotonic() if state == "running" else known
            if time.monotonic() - known > PATIENCE_SECONDS:
                break
            await asyncio.sleep(self.interval)
        yield TriggerEvent({"run": self.application_run, "state": state})  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """End the application, because a user cleared the waiting task or marked it as ended."""
        await sync_to_async(self._kill)()

    def _look(self) -> str:
        from dp_operators.releasing import Handle, RunState

        try:
            return str(self._backend().look(Handle(**self.handle)))
        except Exception:  # such as a secrets backend that does not answer: another look may succeed
            self.log.warning("the connection %s could not be read", self.spark_conn_id)
            return str(RunState.UNKNOWN)

    def _kill(self) -> None:
        from dp_operators.releasing import Handle

        self._backend().kill(Handle(**self.handle))

    def _backend(self) -> Any:
        from dp_operators.tasks.runners import make_runner

        return make_runner(self.runner, master=None, spark_conn_id=self.spark_conn_id, conf=None, private_dir=None)
