"""Which failures of a task that asks the ledger are worth a retry, and how soon."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import RetryPolicy
from airflow.sdk.definitions.retry_policy import RetryDecision

from dp_operators.operators.errors import LedgerAway
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from airflow.sdk import Context

SOON = timedelta(seconds=30)


class PrivacyRetryPolicy(RetryPolicy):
    """A ledger that is locked or out of reach is asked again soon; what stays as it is fails at once.

    An exceeded budget, a bad request, a release key that paid for another request, a role without the grant: no retry
    changes them, so none is made, however many the task has left. The operators of this provider tell Airflow so by
    themselves. The policy is for tasks of your own that use ``PrivacyLedgerHook``, and for the operators where a locked
    ledger shall be asked sooner than the task's ``retry_delay`` says. Other failures are the task's own.

    Args:
        soon: how long to wait for a ledger that is locked or out of reach.
    """

    def __init__(self, *, soon: timedelta = SOON) -> None:
        self.soon = soon

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """What to do about ``exception``; asked in the worker."""
        # not at the top: every process that reads a DAG imports this module
        from dp_operators.budget import LedgerUnavailable
        from dp_operators.releasing import ReleaseError

        if isinstance(exception, InvalidRequest):
            return RetryDecision.fail(reason=str(exception))
        if isinstance(exception, LedgerUnavailable | LedgerAway):
            return RetryDecision.retry(delay=self.soon, reason=str(exception))
        if isinstance(exception, ReleaseError) and not exception.retryable:
            return RetryDecision.fail(reason=str(exception))
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"__type": type(self).__name__, "soon": self.soon.total_seconds()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> PrivacyRetryPolicy:
        """The policy that ``serialize`` described."""
        return cls(soon=timedelta(seconds=data["soon"]))
