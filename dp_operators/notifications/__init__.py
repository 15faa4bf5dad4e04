"""Airflow notifiers: of what an account has left, and of alarms of a stream."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from dp_operators.notifications.alarms import StreamAlarmNotifier as StreamAlarmNotifier
    from dp_operators.notifications.budget import PrivacyBudgetNotifier as PrivacyBudgetNotifier
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "alarms": "StreamAlarmNotifier",
            "budget": "PrivacyBudgetNotifier",
        },
    )
