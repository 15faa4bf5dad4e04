"""A retry policy for tasks that use the ledger."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

try:
    from airflow.sdk import RetryPolicy
    from airflow.sdk.definitions.retry_policy import RetryDecision
except ImportError:
    raise ImportError("PrivacyRetryPolicy needs Airflow 3.3 or newer") from None

from dp_operators.tasks.errors import LedgerUnreachable
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Context

SOON = timedelta(seconds=30)


class PrivacyRetryPolicy(RetryPolicy):
    """Retries soon if the ledger is locked or cannot be reached, and fails at once if a retry cannot help.

    No retry helps against an exceeded budget, a bad request, a release key that paid for another request, or a database
    role without the grant, so the task fails even if it has retries left. This provider's operators fail at once
    without the policy, too. Use it for your own tasks that use ``PrivacyLedgerHook``, or to retry an operator sooner
    than its ``retry_delay`` when the ledger is locked. All other errors are retried as the task's settings say.

    Args:
        soon: the delay before a retry if the ledger is locked or cannot be reached.
    """

    def __init__(self, *, soon: timedelta = SOON) -> None:
        self.soon = soon

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Whether to retry after ``exception``, and when; called in the worker."""
        # imported here, because every process that parses a DAG imports this module
        from dp_operators.budget import LedgerUnavailable
        from dp_operators.releasing import ReleaseError

        if isinstance(exception, InvalidRequest):
            return RetryDecision.fail(reason=str(exception))
        if isinstance(exception, LedgerUnavailable | LedgerUnreachable):
            return RetryDecision.retry(delay=self.soon, reason=str(exception))
        if isinstance(exception, ReleaseError) and not exception.retryable:
            return RetryDecision.fail(reason=str(exception))
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """The policy as plain JSON types."""
        return {"__type": type(self).__name__, "soon": self.soon.total_seconds()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> PrivacyRetryPolicy:
        """The policy that ``serialize`` described."""
        return cls(soon=timedelta(seconds=data["soon"]))
