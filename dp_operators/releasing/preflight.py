"""All that can refuse a release before it is charged; a dry run asks the same, and changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_operators.budget import ChargeConflict, ChargeState
from dp_operators.releasing.errors import ReleaseClosed, as_release_errors
from dp_operators.releasing.first_release import UNFINISHED, pays_for
from dp_operators.releasing.requests import check_budget, check_request, require_charged
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.objects import check_store, check_writable

if TYPE_CHECKING:
    from dp_operators.budget import Charge, PrivacyLedger
    from dp_operators.releasing.runners import Runner

SPENT = "was ended after rows may have been read for it: it is spent and never published; ask again under another key"


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a release would do.

    Attributes:
        account: the account that pays.
        cost: of the release, in each of its blocks.
        left: what each block has left, before the charge; empty where the release is charged already.
        charge: the charge that the release would go on with; None where it would make one.
    """

    account: str
    cost: Budget
    left: dict[str, Budget]
    charge: Charge | None


def check_before_charge(
    request: ReleaseRequest,
    *,
    ledger: PrivacyLedger,
    runner: Runner,
    allotment: str | None = None,
    writing: bool = True,
) -> dict[str, Budget]:
    """What each block that would pay has left, once nothing is known that could refuse the release.

    Args:
        request: what to release, completed by the account's terms.
        ledger: pays.
        runner: would run the application.
        allotment: an allotment of the account that has to bear the cost as well.
        writing: whether the output may be tried by objects that are removed again. If not, folders of this machine are
            tried by files without a name, and an object store all the same: there is no other way to know.

    Raises:
        InvalidRequest: it cannot be served, or paid (``BudgetExceeded``).
        LedgerUnavailable: the ledger cannot be asked.
    """
    preflight(request)
    check_request(request, ledger)
    left = check_budget(request, ledger, allotment)
    _, output = require_charged(request)
    (check_store if writing else check_writable)(output)
    runner.check(request)
    return left


def forecast(
    request: ReleaseRequest, *, ledger: PrivacyLedger, runner: Runner, key: str, allotment: str | None = None
) -> Forecast:
    """What ``release`` would do with the same arguments; nothing is reserved, run or published.

    Raises:
        InvalidRequest: it would be refused (``ChargeConflict``: the key pays for another request).
        ReleaseClosed: what the key paid for was given back after its noise was drawn.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    account, _ = require_charged(request)
    charge = ledger.find_charge(account, key)
    if charge is not None and charge.state is not ChargeState.VOID:
        if not pays_for(charge, request) or charge.allotment != (allotment or ""):
            raise ChargeConflict(
                "release",
                value=key,
                requirement=f"is {charge.state} for another request, cost or blocks, by charge {charge.id}",
                remedy="a release key pays for one request: use another key",
            )
        if charge.state is ChargeState.BURNT:
            raise ReleaseClosed(f"release {key} {SPENT}")
        if charge.state is ChargeState.RESERVED and charge.request_sha256 != request.sha256:
            raise ReleaseClosed(f"release {key} {UNFINISHED}: charge {charge.id} would be burnt")
        runner.check(request)
        return Forecast(account=account, cost=charge.cost, left={}, charge=charge)
    with as_release_errors():
        left = check_before_charge(request, ledger=ledger, runner=runner, allotment=allotment, writing=False)
    return Forecast(account=account, cost=request.budget, left=left, charge=None)
