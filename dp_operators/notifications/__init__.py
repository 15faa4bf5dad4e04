"""An Airflow notifier that reports what an account has left."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from dp_operators.notifications.budget import PrivacyBudgetNotifier as PrivacyBudgetNotifier
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "budget": "PrivacyBudgetNotifier",
        },
    )
