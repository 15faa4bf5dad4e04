"""Counters and gauges in Airflow's own metrics: what releases cost, and why some were refused.

Every figure is public: it comes from the ledger or from a manifest. A metric has the account, the kind or the reason as
a tag. StatsD without tags would mix these up, so each metric is sent a second time with the tag's value in its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import Stats

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figures import undefined_kinds

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader
    from dp_operators.tasks.events import ReleaseEvent, StreamEvent

RELEASES, SHARE_LEFT, STALE = "privacy.releases", "privacy.share_left", "privacy.stale_reservations"
REFUSALS, UNDEFINED = "privacy.refusals", "privacy.undefined_figures"


def count_release(event: ReleaseEvent) -> None:
    """Count a published release and its undefined figures, and set the gauge of what its account has left."""
    count_event(event)
    for kind in undefined_kinds(event.published.status):
        _incr(UNDEFINED, kind=kind)


def count_event(event: ReleaseEvent | StreamEvent) -> None:
    """Count what one task has published, and set the gauge of what its account has left."""
    _incr(RELEASES, account=event.account)
    _gauge(SHARE_LEFT, float(event.share_left), account=event.account)


def count_stale(account: str, ledger: LedgerReader) -> None:
    """Set the gauge of an account's stale reservations: those without a sign of life for a day."""
    number = sum(charge.account == account for charge in ledger.stale(timedelta(days=1)))
    _gauge(STALE, number, account=account)


@contextmanager
def refusals_counted() -> Iterator[None]:
    """Count an error that ends a release, by the name of its class: ``budget_exceeded``, ``invalid_request``, ..."""
    from dp_operators.budget import LedgerUnavailable
    from dp_operators.releasing import ReleaseError

    try:
        yield
    except (InvalidRequest, LedgerUnavailable, ReleaseError) as error:
        _incr(REFUSALS, reason=re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower())
        raise


def _gauge(name: str, value: float, *, account: str) -> None:
    Stats.gauge(name, value, tags={"account": account})
    Stats.gauge(f"{name}.{_part(account)}", value)


def _incr(name: str, **tag: str) -> None:
    [value] = tag.values()
    Stats.incr(name, tags=tag)
    Stats.incr(f"{name}.{_part(value)}")


def _part(text: str) -> str:
    """A text as a part of a metric's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)
