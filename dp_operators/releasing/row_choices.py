"""The choice of a bound on the rows of a unit, which is released before its table (``contract.row_choice``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dp_operators.releasing.charged_terms import ChargedRequest
from dp_operators.releasing.errors import UNCHARGED, as_release_errors
from dp_operators.releasing.preflight import check_before_charge, rest_to_pay
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.row_choice import choice_key, choice_of, require_bound
from spark_jobs.contract.store.failpoints import failpoint

if TYPE_CHECKING:
    from dp_operators.releasing.backends import RequestCheck


def after_choice(
    charged: ChargedRequest[ReleaseRequest],
    released: Callable[[ChargedRequest[ReleaseRequest]], object],
    *,
    runner: RequestCheck,
    allotment: str | None,
) -> ChargedRequest[ReleaseRequest]:
    """Release the choice of a table's bound on the rows of a unit; return the table's request with the chosen bound.

    A request whose bound need not be chosen is returned unchanged. Before the choice is charged, every check that can
    refuse the choice or the table is made, and the account must be able to pay for both. If another release spends the
    budget in between, the table waits for budget, and a retry uses the same choice.

    Args:
        charged: the request of a table, whose bound may have to be chosen.
        released: makes a release, or finds the one that exists.
        runner: the runner that would run the application.
        allotment: a sub-budget that must be able to pay as well.

    Raises:
        InvalidRequest: the choice or the table would be refused, or the account cannot pay for both.
        ReleaseError: the choice was not released.
        LedgerUnavailable: the ledger cannot be reached; try again.
    """
    if not charged.request.chooses_rows:
        return charged
    if rest_to_pay(charged) is charged:
        with as_release_errors(UNCHARGED):
            check_before_charge(charged, runner=runner, allotment=allotment)
    failpoint("before_choice")
    released(ChargedRequest.of(choice_of(charged.request), charged.ledger, choice_key(charged.key)))
    failpoint("after_choice")
    table = ChargedRequest.of(charged.written, charged.ledger, charged.key)
    require_bound(table.request)
    return table
