"""Translates the provider's errors into Airflow's exceptions, which decide whether a task is retried."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from spark_jobs.contract.errors import InvalidRequest


class LedgerUnreachable(AirflowException):
    """The ledger is locked or cannot be reached; a retry may succeed."""


@contextmanager
def as_airflow_errors() -> Iterator[None]:
    """Turn an error into the Airflow exception that fails or retries the task, with the same one-line message.

    Raises:
        AirflowFailException: a retry cannot help: a bad request, an exceeded budget, a key that paid for another
            request, or a draft that breaks the release contract.
        AirflowException: a retry may help: the ledger cannot be reached (``LedgerUnreachable``), or the application
            failed. The charge stays reserved, and a retry continues with it.
    """
    from dp_operators.budget import LedgerUnavailable
    from dp_operators.releasing import ReleaseError

    try:
        yield
    except InvalidRequest as refused:
        raise AirflowFailException(str(refused)) from None
    except LedgerUnavailable as unavailable:
        raise LedgerUnreachable(str(unavailable)) from None
    except ReleaseError as error:
        outcome = AirflowException if error.retryable else AirflowFailException
        raise outcome(str(error)) from None
