"""An Airflow sensor that waits for budget."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from dp_operators.sensors.budget import PrivacyBudgetSensor as PrivacyBudgetSensor
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "budget": "PrivacyBudgetSensor",
        },
    )
