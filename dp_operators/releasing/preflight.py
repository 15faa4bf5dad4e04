"""All checks that can refuse a release before it is charged; a dry run makes the same checks and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic

from dp_operators.budget import ChargeConflict, ChargeState
from dp_operators.releasing.charged_terms import AnyRequest, ChargedRequest
from dp_operators.releasing.errors import ReleaseClosed, as_release_errors
from dp_operators.releasing.first_release import UNFINISHED, pays_for
from dp_operators.releasing.requests import check_budget, check_request, price
from dp_operators.releasing.runners import suited
from spark_jobs.contract.columns import ColumnNeed, MissingColumn
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_checks import check_files, column_names
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.row_choice import choice_key, chooses_rows, steps_of
from spark_jobs.contract.store.objects import check_store, check_writable
from spark_jobs.contract.table_request import TableRequest

if TYPE_CHECKING:
    from dp_operators.budget import Charge
    from dp_operators.releasing.backends import RequestCheck

SPENT = (
    "was ended after rows may have been read for it: it is spent and never published; "
    "request it again under another key"
)


@dataclass(frozen=True, kw_only=True)
class Forecast(Generic[AnyRequest]):
    """What a release would do.

    Attributes:
        charged: what would be released.
        cost: the cost in each of the release's blocks.
        left: what each block has left before the charge; empty if the release is already charged.
        charge: the existing charge that the release would use; None if it would reserve a new one.
        engine: a public line about the engine that would count; empty if the caller named the engine.
    """

    charged: ChargedRequest[AnyRequest]
    cost: Budget
    left: dict[str, Budget]
    charge: Charge | None
    engine: str = ""


def check_before_charge(
    charged: ChargedRequest[Any],
    *,
    runner: RequestCheck,
    allotment: str | None = None,
    writing: bool = True,
) -> dict[str, Budget]:
    """Make every check that can refuse the release, and return what each block that would pay has left.

    Args:
        charged: what to release.
        runner: the runner that would run the application.
        allotment: a sub-budget of the account that must be able to pay as well.
        writing: whether the check of a folder on this machine may create objects, which are removed again; otherwise
            the folder is checked with an unnamed file. In an object store, one object ``.probe`` is created in either
            case, and stays.

    Raises:
        InvalidRequest: the request cannot be served, or its account cannot pay (``BudgetExceeded``).
        LedgerUnavailable: the ledger cannot be reached.
    """
    request, ledger = charged.request, charged.ledger
    try:
        for step in steps_of(request):
            preflight(step)
    except MissingColumn as missing:
        raise _of_files(missing, request) from None
    check_request(request, ledger)
    left = check_budget(request, ledger, allotment)
    (check_store if writing else check_writable)(charged.output)
    for step in steps_of(request):
        runner.check(step)
    check_files(request.table)
    return left


def _of_files(missing: MissingColumn, request: TableRequest) -> InvalidRequest:
    """The refusal of a column that the account does not bind, where the table's files have it."""
    bound = {column.name.lower() for column in request.table.columns or ()}
    unbound = [name for name in column_names(request.table) if name.lower() not in bound]
    need = ColumnNeed(name=missing.name, field=missing.field)
    if need.spelling_in(unbound) is None:
        return missing
    return InvalidRequest(
        missing.field, missing.name, f"is a column of the table's files that account {request.account} does not bind",
        f"have it bound beside the others: `dp-budget bind {request.account}`",
    )  # fmt: skip


def forecast(
    charged: ChargedRequest[AnyRequest],
    *,
    runner: RequestCheck,
    allotment: str | None = None,
) -> Forecast[AnyRequest]:
    """What ``release`` would do with the same arguments; nothing is reserved, run or published.

    Raises:
        InvalidRequest: the release would be refused (``ChargeConflict``: the key pays for another request).
        ReleaseClosed: the key's charge is burnt, or a release would burn it.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    whole, charge = charged.request, charged.charge()
    if charge is not None and charge.counts:
        if not pays_for(charge, whole) or charge.allotment != (allotment or ""):
            raise ChargeConflict.of_other_request(charge)
        if charge.state is ChargeState.BURNT:
            raise ReleaseClosed(f"release {charged.key} {SPENT}")
        if charge.state is ChargeState.RESERVED and charge.request_sha256 != whole.charged_sha256:
            raise ReleaseClosed(f"release {charged.key} {UNFINISHED}: charge {charge.id} would be burnt")
        runner.check(whole)
        return Forecast(charged=charged, cost=charge.cost, left={}, charge=charge)
    unpaid = rest_to_pay(charged)
    with as_release_errors():
        left = check_before_charge(unpaid, runner=runner, allotment=allotment, writing=False)
    return Forecast(
        charged=charged, cost=price(unpaid.request), left=left, charge=None, engine=suited(runner, whole)[1]
    )


def rest_to_pay(charged: ChargedRequest[AnyRequest]) -> ChargedRequest[AnyRequest]:
    """The part of a request that is not charged yet.

    If the request's bound on rows is to be chosen and the choice is charged already, this is the table alone at the
    largest bound; otherwise it is the whole request.
    """
    if not chooses_rows(charged.request):
        return charged
    choice = charged.ledger.find_charge(charged.account, choice_key(charged.key))
    return charged if choice is None or not choice.counts else replace(charged, request=steps_of(charged.request)[-1])
