"""The JSON API of the page *Privacy budget*: it gives the same facts as the page, to the same users."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, Response

from dp_operators.budget import ChargeState, LedgerReader
from dp_operators.budget.overview import AccountOverview, ChargeFilter
from dp_operators.budget.reports import amounts_json, charge_json
from dp_operators.plugins.access import HEADERS, Ledger, Readable, readable_ledgers
from dp_operators.plugins.filters import Wanted
from dp_operators.plugins.releases import published_release


def _with_headers(response: Response) -> None:
    response.headers.update(HEADERS)


router = APIRouter(dependencies=[Depends(_with_headers)])


@router.get("/ledgers")
def ledgers(user: GetUserDep) -> dict[str, Any]:
    """The ledgers that the user may see."""
    return {"ledgers": readable_ledgers(user)}


@router.get("/{connection_id}/accounts")
def accounts(connection_id: Readable, ledger: Ledger) -> dict[str, Any]:
    """The accounts of a ledger."""
    return {"accounts": [_overview(overview) for overview in ledger.overviews()]}


@router.get("/{connection_id}/account")
def account(connection_id: Readable, ledger: Ledger, name: str) -> dict[str, Any]:
    """One account, with what each block has spent."""
    overview, sub_budgets, _ = ledger.overview(name, ChargeFilter(limit=0))
    spent = {block: amounts_json(total) for block, total in overview.spent.items()}
    parts = {part.name: amounts_json(part.cap) for part in sub_budgets}
    return {**_overview(overview), "sub_budgets": parts, "spent": spent}


@router.get("/{connection_id}/charges")
def charges(connection_id: Readable, ledger: Ledger, name: str, wanted: Wanted) -> dict[str, Any]:
    """The charges of an account that match the filters, newest first."""
    return _charges(ledger, name, wanted)


@router.get("/{connection_id}/releases")
def releases(connection_id: Readable, ledger: Ledger, name: str, wanted: Wanted) -> dict[str, Any]:
    """The committed charges of an account that match the filters, newest first."""
    return _charges(ledger, name, replace(wanted, state=ChargeState.COMMITTED))


@router.get("/{connection_id}/release")
def release(connection_id: Readable, ledger: Ledger, account: str, key: str) -> dict[str, Any]:
    """The manifest of a published release."""
    return dict(published_release(ledger, account, key).release.model_dump(mode="json"))


def _charges(ledger: LedgerReader, name: str, wanted: ChargeFilter) -> dict[str, Any]:
    page = ledger.charges(name, wanted)
    return {"charges": [charge_json(charge) for charge in page.charges], "number": page.number}


def _overview(overview: AccountOverview) -> dict[str, Any]:
    account, burn_down = overview.account, overview.burn_down
    return {
        "name": account.name,
        "cap": amounts_json(account.cap),
        "composition": account.composition,
        "neighbours": account.neighbours.value,
        "replaced_within": account.replaced_within or None,
        "unit": {"column": account.unit.column, "max_rows": account.unit.max_rows},
        "tables": list(account.tables),
        "outputs": list(account.outputs),
        "tightest_block": overview.tightest,
        "share_left": burn_down.left,
        "share_spent_a_day": burn_down.rate,
        "days_left": burn_down.days_left,
        "too_early_to_say": burn_down.early,
        "frozen": overview.frozen,
    }
