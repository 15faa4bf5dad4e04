"""Checks of a request against its account, before anything is charged; no table is read."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, TypeVar, cast

from dp_operators.budget.composition import APPROXIMATE, ZCDP
from dp_operators.releasing.earlier_releases import require_as_released
from dp_operators.releasing.federations import with_federation
from dp_operators.releasing.first_release import pays_for
from dp_operators.releasing.saved_models import with_saved_model
from spark_jobs.contract.account import AccountState
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import ALL, INTERVAL
from spark_jobs.contract.expressions.parser import check_filter
from spark_jobs.contract.places import Place
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.objects import require_store
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.version_order import no_order

if TYPE_CHECKING:
    from datetime import datetime

    from dp_operators.budget import Account, Charge, PrivacyLedger

AnyRequest = TypeVar("AnyRequest", bound=TableRequest)
_SHOWN = Decimal("1e-15")


def price(request: TableRequest) -> Budget:
    """The cost that the ledger reserves for ``request`` in each of its blocks: the request's whole budget."""
    return request.budget


def check_request(request: TableRequest, ledger: PrivacyLedger) -> Account:
    """The account that would pay for ``request``.

    Raises:
        InvalidRequest: the request names no account, or an output that is not the account's; the account does not
            exist; the table is bound to no account or to another one, or is a symbolic link, or is not declared to only
            gain rows and the request is a stream's; the relation, unit or blocks are not the account's; or a model or
            function differs from the earlier release that it names.
        LedgerUnavailable: the ledger cannot be reached.
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
            remedy="request the account's relation: costs under different relations do not add up",
        )
    if request.unit != account.unit:
        raise InvalidRequest(
            "unit",
            value=request.unit.describe(),
            requirement=f"account {account.name} protects {account.unit.describe()}",
            remedy="request the account's unit: costs for different units do not add up",
        )
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
            "table", value=request.table.identity,
            requirement="must only gain rows, as a fact that the account's administrator declares, for a stream: a row "
            "that moves from one step to another would be counted in both",
            remedy=f"have it declared: `dp-budget bind {account.name} --append-only`",
        )  # fmt: skip
    if request.follow is None and binding.order is None:
        raise no_order(request.table.snapshot.name)


def complete(request: AnyRequest, ledger: PrivacyLedger) -> AnyRequest:
    """``request`` with its account's binding of the table: format, columns, version and blocks.

    The hash of a saved pipeline and the agreement of a federation are filled in too (``with_saved_model``,
    ``with_federation``). The release's folder keeps the completed
    request, so that a later change of the binding does not affect it.

    Raises:
        InvalidRequest: there is no such account, the table is not bound to it or was bound without its columns, the
            request itself gives fields of the binding, or it cannot be released on these terms; or see
            ``with_saved_model`` and ``with_federation``.
        LedgerUnavailable: the ledger cannot be reached.
    """
    if isinstance(request, ReleaseRequest):
        request = cast("AnyRequest", with_federation(with_saved_model(request, ledger)))
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
    blocks = request.blocks
    if isinstance(request, StreamRequest) and blocks == (INTERVAL,):
        blocks = interval_blocks(account, request.first_instant, request.last_instant)
    account.require_blocks(tuple(sorted(set(blocks))))
    terms = TableBinding.parse(binding)
    table = request.table.model_copy(update={"version_order": None}).completed(terms)
    if isinstance(request, StreamRequest) and request.follow is None:
        table = table.model_copy(update={"version_order": terms.order})
    expression = None if blocks == (ALL,) else account.blocks
    return request.changed(table=table, blocks=blocks, block_expression=expression)


def _account_of(request: TableRequest, ledger: PrivacyLedger) -> Account:
    """The account that the request names, to which its table must be bound.

    Raises:
        InvalidRequest: the request names no account or no output, there is no such account, or the table is bound to
            no account or to another one.
        LedgerUnavailable: the ledger cannot be reached.
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
    """The blocks of ``account`` that together cover a run's data interval.

    Raises:
        InvalidRequest: the run has no interval, the account has no blocks by time, or a block is only partly
            in the interval.
    """
    if account.blocks is None:
        raise InvalidRequest(
            "blocks",
            value=INTERVAL,
            requirement=f"needs an account with blocks by time, and account {account.name} has one block",
            remedy=f"name {ALL!r}",
        )
    if start is None or end is None or start == end:
        raise InvalidRequest(
            "blocks",
            value=INTERVAL,
            requirement="needs a scheduled, backfilled or partitioned run; this run has no data interval",
            remedy="let the DAG's schedule or a backfill run it, give the run a partition key, or name the blocks",
        )
    return account.blocks.covering(start, end)


def check_budget(request: TableRequest, ledger: PrivacyLedger, allotment: str | None = None) -> dict[str, Budget]:
    """What each block that would pay for ``request`` has left, if all of them can pay now; nothing is reserved.

    Raises:
        BudgetExceeded: a block cannot pay.
        InvalidRequest: there is no such block or sub-budget.
        LedgerUnavailable: the ledger cannot be reached.
    """
    name, _ = require_charged(request)
    cost = price(request)
    return ledger.affordable(name, epsilon=cost.epsilon, delta=cost.delta, blocks=request.blocks, allotment=allotment)


def require_charged(request: TableRequest) -> tuple[str, str]:
    """The account and the normalized output folder of a request that is to be charged.

    Raises:
        InvalidRequest: one of them is missing, or the output names no folder.
    """
    if request.account is None:
        raise InvalidRequest("account", requirement="is required", remedy="name the ledger account that pays")
    if request.output is None:
        raise InvalidRequest("output", requirement="is required", remedy="name the folder that holds releases")
    return request.account, Place.of_folder(request.output, what="output").folder


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
            "output",
            value=output,
            requirement=f"account {account.name} is bound to no folder for its releases",
            remedy=f"have one bound: `dp-budget bind-outputs {account.name} {output}`",
        )
    if not any(Place.parse(bound).contains(place) for bound in account.outputs):
        raise InvalidRequest(
            "output",
            value=output,
            requirement=f"must lie within a folder of account {account.name}: {', '.join(account.outputs)}",
            remedy="name a folder there, or have another bound: `dp-budget bind-outputs`",
        )
    place.require_real(what="output")


def require_own_output(request: TableRequest, ledger: PrivacyLedger, key: str) -> None:
    """Refuse an output folder that is not bound to the account, before anything is written there.

    A release that this request has already begun under ``key`` may go on, even if the binding has changed since. To
    recognise one, the stored request of ``key`` may be read.

    Raises:
        InvalidRequest: see ``require_output``.
        ReleaseError: the store failed.
        LedgerUnavailable: the ledger cannot be reached.
    """
    name, output = require_charged(request)
    begun = ledger.find_charge(name, key)
    if begun is None or not pays_for(begun, request):
        require_output(output, ledger.account(name))


def account_state(ledger: PrivacyLedger, charge: Charge) -> AccountState:
    """The account's figures for a report, to 15 decimals, in the charged block that has the least left.

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
