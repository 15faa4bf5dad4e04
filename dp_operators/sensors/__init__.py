"""Airflow sensors that wait for budget, and for an alarm of a stream."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from dp_operators.sensors.alarms import StreamAlarmSensor as StreamAlarmSensor
    from dp_operators.sensors.budget import PrivacyBudgetSensor as PrivacyBudgetSensor
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "alarms": "StreamAlarmSensor",
            "budget": "PrivacyBudgetSensor",
        },
    )
