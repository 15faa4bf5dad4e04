"""Airflow operators: a release, a request for more budget, and how a failed release is retried."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from dp_operators.operators.approval import RequestMoreBudgetOperator as RequestMoreBudgetOperator
    from dp_operators.operators.release import ReleaseDiagnosticsOperator as ReleaseDiagnosticsOperator
    from dp_operators.operators.retrying import PrivacyRetryPolicy as PrivacyRetryPolicy
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "approval": "RequestMoreBudgetOperator",
            "release": "ReleaseDiagnosticsOperator",
            "retrying": "PrivacyRetryPolicy",
        },
    )
