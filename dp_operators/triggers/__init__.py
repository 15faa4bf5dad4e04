"""Airflow triggers that wait for budget, or for an application, without a worker."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from dp_operators.triggers.application import ApplicationTrigger as ApplicationTrigger
    from dp_operators.triggers.budget import PrivacyBudgetTrigger as PrivacyBudgetTrigger
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "application": "ApplicationTrigger",
            "budget": "PrivacyBudgetTrigger",
        },
    )
