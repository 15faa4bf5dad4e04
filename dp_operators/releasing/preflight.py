"""All checks that can refuse a release before it is charged; a dry run makes the same checks and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from dp_operators.budget import ChargeConflict, ChargeState
from dp_operators.releasing.charged_terms import complete, on_terms
from dp_operators.releasing.errors import ReleaseClosed, as_release_errors
from dp_operators.releasing.federations import key_of
from dp_operators.releasing.first_release import UNFINISHED, first_key, pays_for
from dp_operators.releasing.requests import check_budget, check_request, require_charged
from spark_jobs.contract.columns import ColumnNeed, MissingColumn
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_checks import check_files, column_names
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.store.objects import check_store, check_writable
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.written import AnyRequest, Written

if TYPE_CHECKING:
    from dp_operators.budget import Charge, PrivacyLedger
    from dp_operators.releasing.backends import RequestCheck
    from spark_jobs.contract.request import ReleaseRequest

SPENT = (
    "was ended after rows may have been read for it: it is spent and never published; "
    "request it again under another key"
)


@dataclass(frozen=True, kw_only=True)
class Forecast(Generic[AnyRequest]):
    """What a release would do.

    Attributes:
        account: the account that pays.
        cost: the cost in each of the release's blocks.
        left: what each block has left before the charge; empty if the release is charged already.
        charge: the existing charge that the release would use; None if it would reserve a new one.
        request: what would be released, on its account's terms.
    """

    account: str
    cost: Budget
    left: dict[str, Budget]
    charge: Charge | None
    request: AnyRequest


def check_before_charge(
    request: TableRequest,
    *,
    ledger: PrivacyLedger,
    runner: RequestCheck,
    allotment: str | None = None,
    writing: bool = True,
) -> dict[str, Budget]:
    """Make every check that can refuse the release, and return what each block that would pay has left.

    Args:
        request: what to release, completed by the account's terms.
        ledger: holds the account that would pay.
        runner: would run the application.
        allotment: a sub-budget of the account that must be able to pay as well.
        writing: whether the check of the output may create objects, which it removes again. If False, a folder on this
            machine is checked with an unnamed file; an object store can only be checked by creating an object.

    Raises:
        InvalidRequest: the request cannot be served, or its account cannot pay (``BudgetExceeded``).
        LedgerUnavailable: the ledger cannot be reached.
    """
    try:
        preflight(request)
    except MissingColumn as missing:
        raise _of_files(missing, request) from None
    check_request(request, ledger)
    left = check_budget(request, ledger, allotment)
    _, output = require_charged(request)
    (check_store if writing else check_writable)(output)
    runner.check(request)
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
    request: AnyRequest | Written[AnyRequest],
    *,
    ledger: PrivacyLedger,
    runner: RequestCheck,
    key: str,
    allotment: str | None = None,
) -> Forecast[AnyRequest]:
    """What ``release`` would do with the same arguments; nothing is reserved, run or published.

    Raises:
        InvalidRequest: the release would be refused (``ChargeConflict``: the key pays for another request).
        ReleaseClosed: the key's charge is burnt, or would be.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    whole, key = on_terms(request, ledger, key)
    account, _ = require_charged(whole)
    charge = ledger.find_charge(account, key)
    if charge is not None and charge.counts:
        if not pays_for(charge, whole) or charge.allotment != (allotment or ""):
            raise ChargeConflict.of_other_request(charge)
        if charge.state is ChargeState.BURNT:
            raise ReleaseClosed(f"release {key} {SPENT}")
        if charge.state is ChargeState.RESERVED and charge.request_sha256 != whole.charged_sha256:
            raise ReleaseClosed(f"release {key} {UNFINISHED}: charge {charge.id} would be burnt")
        runner.check(whole)
        return Forecast(account=account, cost=charge.cost, left={}, charge=charge, request=whole)
    with as_release_errors():
        left = check_before_charge(whole, ledger=ledger, runner=runner, allotment=allotment, writing=False)
    return Forecast(account=account, cost=whole.budget, left=left, charge=None, request=whole)


def default_key(request: ReleaseRequest | Written[ReleaseRequest], ledger: PrivacyLedger) -> str:
    """The release key of a request that is given none: the same for equal requests, wherever they are run.

    It is made of what is written, so that a later change of the account does not make another release of it.

    Raises:
        InvalidRequest: the account cannot be charged for the request.
        LedgerUnavailable: the ledger cannot be reached.
    """
    written = f"cli/{request.sha256}"
    try:
        completed = complete(request, ledger)
    except InvalidRequest:
        # on today's terms it may be refused where a charge was made on earlier ones
        if request.account is None or ledger.find_charge(request.account, written) is None:
            raise
        return written
    if isinstance(request, Written):
        return key_of(completed, written)
    return key_of(completed, first_key(completed, ledger, written=request) or written)
