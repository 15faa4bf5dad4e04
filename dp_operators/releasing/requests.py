"""Checks of a request against its account, before anything is charged; no table is read."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

from dp_operators.budget.composition import APPROXIMATE, ZCDP
from dp_operators.releasing.charged_terms import ChargedRequest, require_charged
from dp_operators.releasing.earlier_releases import require_as_released
from dp_operators.releasing.first_release import pays_for
from dp_operators.releasing.from_account import account_of
from spark_jobs.contract.account import AccountState
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.filters import check_filter
from spark_jobs.contract.places import Place
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.objects import require_store
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.version_order import no_order

if TYPE_CHECKING:
    from dp_operators.budget import Account, Charge, PrivacyLedger

_SHOWN = Decimal("1e-15")


def price(request: TableRequest) -> Budget:
    """The cost that the ledger reserves for ``request`` in each of its blocks: the request's whole budget."""
    return request.budget.charged


def check_request(request: TableRequest, ledger: PrivacyLedger) -> Account:
    """The account that would pay for ``request``.

    Raises:
        InvalidRequest: the request names no account, or an output that is not the account's; the account does not
            exist; the table is bound to no account or to another one, or is a symbolic link; a stream cannot use the
            table, because the table is not declared append-only or has no order of versions; the relation, unit or
            blocks are not the account's; or a model or function differs from the earlier release that it names.
        LedgerUnavailable: the ledger cannot be reached.
    """
    named = {"path": request.table.path, "name": request.table.name}
    account = account_of({"account": request.account, "table": named}, ledger)
    require_output(require_charged(request)[1], account)
    account.require_blocks(tuple(sorted(set(request.blocks))))
    if request.block_filter is not None:
        check_filter(request.block_filter)
    request.table.pinned.require_real(what="table.path")
    if request.neighbours is not account.neighbours:
        raise InvalidRequest(
            "neighbours", request.neighbours.value,
            f"must be that of account {account.name}, which is {account.neighbours.value}",
            "leave neighbours out: costs under different relations cannot be added up",
        )  # fmt: skip
    if request.unit != account.unit:
        raise InvalidRequest(
            "unit", request.unit.describe(),
            f"must be that of account {account.name}, which is {account.unit.describe()}",
            "leave unit out: costs for different units cannot be added up",
        )  # fmt: skip
    if isinstance(request, ReleaseRequest):
        require_as_released(request, ledger)
    elif isinstance(request, StreamRequest):
        _require_stream(request, account)
    return account


def _require_stream(request: StreamRequest, account: Account) -> None:
    """Refuse a stream whose table may change although nothing keeps what was used of it, or has versions without order.

    Raises:
        InvalidRequest: it is one.
    """
    binding = TableBinding.parse(account.bindings[request.table.identity])
    if request.places is None and not binding.append_only:
        raise InvalidRequest(
            "table", request.table.identity,
            "must be a table that only gains rows, as a fact that the account's administrator has declared, for a "
            "stream, because a row that moves from one step to another would be counted in both",
            f"have this fact declared: `dp-budget bind {account.name} --append-only`",
        )  # fmt: skip
    if request.follow is None and binding.order is None:
        raise no_order(request.table.snapshot.name)


def check_budget(request: TableRequest, ledger: PrivacyLedger, allotment: str | None = None) -> dict[str, Budget]:
    """What each block that would pay for ``request`` has left, if all of them can pay now; nothing is reserved.

    Raises:
        BudgetExceeded: a block cannot pay.
        InvalidRequest: there is no such block or sub-budget.
        LedgerUnavailable: the ledger cannot be reached.
    """
    name, _ = require_charged(request)
    cost = price(request)
    return ledger.affordable(
        name, epsilon=cost.epsilon, delta=cost.delta, rho=cost.rho, blocks=request.blocks, allotment=allotment
    )


def require_output(output: str, account: Account) -> None:
    """Refuse an output folder that is not bound to the account.

    No two accounts share a folder, so its release keys are the account's own.

    Raises:
        InvalidRequest: the folder is not the account's, a symbolic link leads out of it, or its store cannot hold
            releases.
    """
    require_store(output)
    place = Place.of_folder(output, what="output")
    if not account.outputs:
        raise InvalidRequest(
            "output", output, f"must lie within a folder of account {account.name}, which has no folder for its "
            "releases yet",
            f"have a folder bound: `dp-budget bind-outputs {account.name} {output}`",
        )  # fmt: skip
    if not any(Place.parse(bound).contains(place) for bound in account.outputs):
        raise InvalidRequest(
            "output", output, f"must lie within a folder of account {account.name}: {', '.join(account.outputs)}",
            "name a folder within one of these, or have another folder bound: `dp-budget bind-outputs`",
        )  # fmt: skip
    place.require_real(what="output")


def require_own_output(charged: ChargedRequest[Any]) -> None:
    """Refuse an output folder that is not bound to the account, before anything is written there.

    A release that this request has already begun under its key may continue, even if the binding has changed since. To
    recognise such a release, the stored request of the key may be read.

    Raises:
        InvalidRequest: see ``require_output``.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    begun = charged.charge()
    if begun is None or not pays_for(begun, charged.request):
        require_output(charged.output, charged.ledger.account(charged.account))


def account_state(ledger: PrivacyLedger, charge: Charge) -> AccountState:
    """The account's figures for a report, to 15 decimals, for the charged block that has the least left.

    Raises:
        LedgerUnavailable: the ledger cannot be reached.
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
        cap=_rounded_rest(account.cap, rho=counted),
        spent_before=_rounded_rest(spent, charge.cost, rho=counted),
        charged=_rounded_rest(charge.cost, rho=counted),
        remaining=_rounded_rest(left[block], rho=counted),
        allotment=charge.allotment,
    )


def _rounded_rest(total: Budget, *less: Budget, rho: bool) -> Budget:
    """``total`` minus the others, rounded for display; the ledger itself never rounds.

    Never below 0, although a charge that is given back while its figures are read could make it so.
    """

    def rest(currency: str) -> Decimal:
        amounts = [getattr(budget, currency) or Decimal(0) for budget in (total, *less)]
        return max(amounts[0] - sum(amounts[1:]), Decimal(0)).quantize(_SHOWN)

    with localcontext(prec=200):
        return Budget(epsilon=rest("epsilon"), delta=rest("delta"), rho=rest("rho") if rho else None)
