"""Counters and gauges in Airflow's own metrics: what releases cost, and why some were refused.

Every figure is public: it comes from the ledger or from a manifest. A metric with tags has the account, the kind or the
reason as a tag; as StatsD without tags would mix them up, each is sent a second time with these in its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.observability import stats

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figures import undefined_kinds

if TYPE_CHECKING:
    from dp_operators.operators.events import ReleaseEvent, StreamEvent

RELEASES, SHARE_LEFT = "privacy.releases", "privacy.share_left"
REFUSALS, UNDEFINED = "privacy.refusals", "privacy.undefined_figures"


def count_release(event: ReleaseEvent) -> None:
    """Count a published release and its undefined figures, and set the gauge of what its account has left."""
    count_event(event)
    for kind in undefined_kinds(event.published.status):
        _incr(UNDEFINED, kind=kind)


def count_event(event: ReleaseEvent | StreamEvent) -> None:
    """Count what was published by one task, and set the gauge of what its account has left."""
    _incr(RELEASES, account=event.account)
    share = float(event.share_left)
    stats.gauge(SHARE_LEFT, share, tags={"account": event.account})
    stats.gauge(f"{SHARE_LEFT}.{_part(event.account)}", share)


@contextmanager
def refusals_counted() -> Iterator[None]:
    """Count an error that ends a release, by its class in words: ``budget_exceeded``, ``invalid_request`` and so on."""
    from dp_operators.budget import LedgerUnavailable
    from dp_operators.releasing import ReleaseError

    try:
        yield
    except (InvalidRequest, LedgerUnavailable, ReleaseError) as error:
        _incr(REFUSALS, reason=re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower())
        raise


def _incr(name: str, **tag: str) -> None:
    [value] = tag.values()
    stats.incr(name, tags=tag)
    stats.incr(f"{name}.{_part(value)}")


def _part(text: str) -> str:
    """A text as a part of a metric's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)
