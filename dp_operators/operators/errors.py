"""How a refusal, an exhausted budget or a ledger out of reach ends a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from spark_jobs.contract.errors import InvalidRequest


class LedgerAway(AirflowException):
    """The ledger is locked or cannot be reached; a retry may find it."""


@contextmanager
def as_airflow_errors() -> Iterator[None]:
    """End the task with the one line that says why, and let Airflow retry only what a retry can help.

    Raises:
        AirflowFailException: for what stays as it is: a bad request, an exceeded budget, a key that paid for another
            request, a release that breaks its contract. Airflow does not retry it.
        AirflowException: for what may pass: a ledger that cannot be reached (``LedgerAway``), an application that died.
            The charge stays reserved, and a retry goes on with it.
    """
    from dp_operators.budget import LedgerUnavailable
    from dp_operators.releasing import ReleaseError

    try:
        yield
    except InvalidRequest as refused:
        raise AirflowFailException(str(refused)) from None
    except LedgerUnavailable as away:
        raise LedgerAway(str(away)) from None
    except ReleaseError as error:
        outcome = AirflowException if error.retryable else AirflowFailException
        raise outcome(str(error)) from None
