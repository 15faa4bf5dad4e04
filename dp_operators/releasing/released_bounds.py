"""Bounds on the rows of a unit that a release has chosen, read from that release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dp_operators.releasing.committed_releases import committed_release
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.row_bound import ReleasedBound

if TYPE_CHECKING:
    from dp_operators.budget import LedgerReader

CHOICE = "rows_per_unit"
_FIELD = "diagnostics.max_rows"


def released_bound(uri: object, ledger: LedgerReader) -> dict[str, Any]:
    """The bound in a published release, in the form that a request's ``max_rows`` takes.

    Args:
        uri: the release's folder.
        ledger: the ledger that paid for the release; it is only read.

    Raises:
        InvalidRequest: see ``committed_release``; or the release has chosen no bound.
        ReleaseFailed: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    committed = committed_release(uri, ledger, what=_FIELD, earlier=True)
    release = committed.release
    if CHOICE not in release.results:
        raise InvalidRequest(
            _FIELD,
            committed.uri,
            "must be a release that has chosen a number of rows of a unit",
            f"name a release of {CHOICE}",
        )
    return ReleasedBound(
        rows=release.results[CHOICE]["bound"],
        epsilon=ledger.charge(release.charge_id or "").cost.epsilon,
        released_by=release.key or "",
        release=committed.uri,
    ).model_dump(mode="json")
