"""What a release would cost, and whether its account could be charged for it at all; never looks at data."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from dp_operators.budget.composition import APPROXIMATE, ZCDP
from dp_operators.releasing.earlier_releases import require_as_released
from dp_operators.releasing.first_release import pays_for
from dp_operators.releasing.saved_models import with_saved_model
from spark_jobs.contract.account import AccountState
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import ALL, INTERVAL
from spark_jobs.contract.expressions.parser import check_filter
from spark_jobs.contract.places import Place
from spark_jobs.contract.privacy import Budget, plain
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.objects import require_store

if TYPE_CHECKING:
    from datetime import datetime

    from dp_operators.budget import Account, Charge, PrivacyLedger

_SHOWN = Decimal("1e-15")


def price(request: ReleaseRequest) -> Budget:
    """What the ledger is asked to reserve for ``request``, in each of its blocks: its whole budget."""
    return request.budget


def check_request(request: ReleaseRequest, ledger: PrivacyLedger) -> Account:
    """The account that would pay for ``request``.

    Raises:
        InvalidRequest: the request names no account, or no folder of its account's for the release; its account does
            not exist; its table is bound to no account or to another, or is a symbolic link; its relation, unit or
            blocks are not the account's; or it holds something else than the earlier releases that it names.
        LedgerUnavailable: the ledger cannot be asked.
    """
    account = _account_of(request, ledger)
    require_output(require_charged(request)[1], account)
    account.require_blocks(tuple(sorted(set(request.blocks))))
    if request.block_filter is not None:
        check_filter(request.block_filter)
    request.table.pinned.require_real(what="table.path")
    if request.neighbours is not account.neighbours:
        raise InvalidRequest(
            "neighbours",
            value=request.neighbours.value,
            requirement=f"account {account.name} counts in {account.neighbours.value}",
            remedy="ask for the account's relation: costs in different relations do not add up",
        )
    if request.unit != account.unit:
        raise InvalidRequest(
            "unit",
            value=request.unit.describe(),
            requirement=f"account {account.name} protects {account.unit.describe()}",
            remedy="ask for the account's unit: costs for different units do not add up",
        )
    require_as_released(request, ledger)
    return account


def complete(request: ReleaseRequest, ledger: PrivacyLedger) -> ReleaseRequest:
    """``request`` with all that its account says of the table: how it is read, its columns, versions and blocks.

    And with the hash of a saved pipeline (``with_saved_model``). The copy that a release's folder keeps has all of it
    and stays as it is.

    Raises:
        InvalidRequest: there is no such account, its table is not bound to it or was bound without its columns, or the
            request says some of that itself, or cannot be released on these terms; or see ``with_saved_model``.
        LedgerUnavailable: the ledger cannot be asked.
    """
    request = with_saved_model(request, ledger)
    account = _account_of(request, ledger)
    binding = account.bindings.get(request.table.identity)
    if binding is None:
        raise InvalidRequest(
            "table",
            value=request.table.identity,
            requirement=f"must have its columns bound to account {account.name}, which was opened without them",
            remedy=f"have them bound: `dp-budget bind {account.name}`",
        )
    if request.block_expression not in (None, account.blocks):
        raise InvalidRequest(
            "block_expression",
            value=str(request.block_expression),
            requirement=f"must be that of account {account.name}, {account.blocks or 'which has none'}",
            remedy="leave it out: it is the account's",
        )
    account.require_blocks(tuple(sorted(set(request.blocks))))
    table = request.table.completed(TableBinding.parse(binding))
    expression = None if request.blocks == (ALL,) else account.blocks
    return ReleaseRequest.parse({**dict(request), "table": table, "block_expression": expression})


def _account_of(request: ReleaseRequest, ledger: PrivacyLedger) -> Account:
    """The account that the request names, which must be its table's.

    Raises:
        InvalidRequest: the request names no account or no output, there is no such account, or its table is bound to
            none or to another.
        LedgerUnavailable: the ledger cannot be asked.
    """
    name, _ = require_charged(request)
    account = ledger.account(name)
    identity = request.table.identity
    bound_to = ledger.account_for_table(identity)
    if bound_to.name != account.name:
        raise InvalidRequest(
            "account",
            value=name,
            requirement=f"table {identity} is bound to account {bound_to.name}",
            remedy="name that account, or another table",
        )
    return account


def interval_blocks(account: Account, start: datetime | None, end: datetime | None) -> tuple[str, ...]:
    """The blocks of ``account`` that a run's data interval is made of.

    Raises:
        InvalidRequest: the run has no interval, or the account no blocks by time, or the interval cuts one.
    """
    if account.blocks is None:
        raise InvalidRequest(
            "blocks",
            value=INTERVAL,
            requirement=f"is for accounts with blocks by time, and account {account.name} has one block",
            remedy=f"name {ALL!r}",
        )
    if start is None or end is None or start == end:
        raise InvalidRequest(
            "blocks",
            value=INTERVAL,
            requirement="is for runs of a timetable, or of a partition; this run is about no interval",
            remedy="let the DAG's schedule or a backfill run it, give the run a partition key, or name the blocks",
        )
    return account.blocks.covering(start, end)


def check_budget(request: ReleaseRequest, ledger: PrivacyLedger, allotment: str | None = None) -> dict[str, Budget]:
    """What each block that would pay for ``request`` has left, if all could bear it now; no reservation.

    Raises:
        BudgetExceeded: one could not.
        InvalidRequest: no such block or allotment.
        LedgerUnavailable: the ledger cannot be asked.
    """
    name, _ = require_charged(request)
    cost = price(request)
    return ledger.affordable(name, epsilon=cost.epsilon, delta=cost.delta, blocks=request.blocks, allotment=allotment)


def events(request: ReleaseRequest) -> tuple[dict[str, str], ...]:
    """What the request's mechanisms spend together, as the ledger keeps it for tighter accounting."""
    cost = price(request)
    if cost.delta == 0:
        return ({"mechanism": "pure", "epsilon": plain(cost.epsilon)},)
    return ({"mechanism": "approximate", "epsilon": plain(cost.epsilon), "delta": plain(cost.delta)},)


def require_charged(request: ReleaseRequest) -> tuple[str, str]:
    """The account of a request that is to be charged, and the folder of releases, in its one spelling.

    Raises:
        InvalidRequest: it lacks one of them, or its output names no folder.
    """
    if request.account is None:
        raise InvalidRequest("account", requirement="is required", remedy="name the ledger account that pays")
    if request.output is None:
        raise InvalidRequest("output", requirement="is required", remedy="name the folder that holds releases")
    return request.account, Place.of_folder(request.output, what="output").folder


def require_output(output: str, account: Account) -> None:
    """Refuse a folder of releases that is not the account's.

    Accounts share none, so what lies there, release keys too, is the account's own.

    Raises:
        InvalidRequest: it is not, a symbolic link leads away from it, or its store cannot hold releases.
    """
    require_store(output)
    place = Place.of_folder(output, what="output")
    if not account.outputs:
        raise InvalidRequest(
            "output",
            value=output,
            requirement=f"account {account.name} is bound to no folder for its releases",
            remedy=f"have one bound: `dp-budget bind-outputs {account.name} {output}`",
        )
    if not any(Place.parse(bound).holds(place) for bound in account.outputs):
        raise InvalidRequest(
            "output",
            value=output,
            requirement=f"must lie within what account {account.name} is bound to: {', '.join(account.outputs)}",
            remedy="name a folder there, or have another bound: `dp-budget bind-outputs`",
        )
    place.require_real(what="output")


def require_own_output(request: ReleaseRequest, ledger: PrivacyLedger, key: str) -> None:
    """Refuse another account's folder before anything is written there, or read but for the request of ``key``.

    A release that this very request has begun under ``key`` goes on where it began, whatever was bound since.

    Raises:
        InvalidRequest: as ``require_output``.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be asked.
    """
    name, output = require_charged(request)
    begun = ledger.find_charge(name, key)
    if begun is None or not pays_for(begun, request):
        require_output(output, ledger.account(name))


def account_state(ledger: PrivacyLedger, charge: Charge) -> AccountState:
    """The figures of the charged block that has the least left, as a report shows them: to 15 decimals.

    Raises:
        LedgerUnavailable: the ledger cannot be asked.
    """
    account = ledger.account(charge.account)
    kind = "approximate" if account.composition == APPROXIMATE else "pure"
    left = ledger.remaining_by_block(account.name, kind=kind)
    block = min(account.paying(charge.blocks), key=lambda name: (left[name].epsilon, name))
    spent = ledger.blocks(account.name).get(block, charge.cost)
    counted = account.composition == ZCDP
    return AccountState(
        name=account.name,
        composition=account.composition,
        block=block,
        cap=_shown(account.cap, rho=counted),
        spent_before=_shown(spent, charge.cost, rho=counted),
        charged=_shown(charge.cost, rho=counted),
        remaining=_shown(left[block], rho=counted),
        allotment=charge.allotment,
    )


def _shown(total: Budget, *less: Budget, rho: bool) -> Budget:
    """``total`` less the others, for reading; the ledger itself never rounds.

    Not below 0: where a charge is given back while its figures are read, they are those of no release.
    """

    def rest(currency: str) -> Decimal:
        amounts = [getattr(budget, currency) or Decimal(0) for budget in (total, *less)]
        return max(amounts[0] - sum(amounts[1:]), Decimal(0)).quantize(_SHOWN)

    with localcontext(prec=200):
        return Budget(epsilon=rest("epsilon"), delta=rest("delta"), rho=rest("rho") if rho else None)
