"""A sensor that waits for an alarm of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from dp_operators.tasks.errors import as_airflow_errors

if TYPE_CHECKING:
    from airflow.sdk import Context


class StreamAlarmSensor(BaseSensorOperator):
    """Succeeds once a condition of a stream's monitors holds at its newest step, for any of its counts.

    It reads ``alarms.json`` in the stream's folder, which each run of ``CountStreamOperator`` and ``dp-budget stream``
    writes, and costs nothing. XCom gets the alarms in force, newest first.

    Args:
        stream: URI of the stream's folder, such as the ``uri`` that its task returns; templated.
        monitors: the monitors to wait for, by their positions in the request, from 0; by default all of them.

    Raises:
        AirflowFailException: ``stream`` is not in a supported store.
        AirflowException: the store failed; a retry may help.
    """

    template_fields: Sequence[str] = ("stream",)
    ui_color = "#f5ecdf"

    def __init__(self, *, stream: str, monitors: Sequence[int] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.monitors = monitors

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once for an alarm in force."""
        from dp_operators.releasing.stream_views import stream_alarms

        with as_airflow_errors():
            alarms = stream_alarms(self.stream)
        if alarms is None:
            self.log.info("%s has no alarms.json yet; only a stream with monitors has one", self.stream)
            return PokeReturnValue(is_done=False)
        wanted = set(range(len(alarms.holds)) if self.monitors is None else self.monitors)
        number = sum(holds for monitor, holds in enumerate(alarms.holds) if monitor in wanted)
        listed = [alarm for alarm in alarms.newest if alarm.in_force and alarm.monitor in wanted]
        self.log.info("%d conditions hold at step %d of %s", number, alarms.steps - 1, self.stream)
        for alarm in listed:
            self.log.warning("alarm: %s", alarm.line())
        return PokeReturnValue(is_done=number > 0, xcom_value=[alarm.model_dump(mode="json") for alarm in listed])
