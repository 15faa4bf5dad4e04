"""Conversion between the ledger's values and database rows; query columns are prefixed with their table's name."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import lru_cache
from typing import Any

from dp_operators.budget.tables.audit import canonical
from dp_operators.budget.values import (
    Account,
    Charge,
    ChargeState,
    KeyList,
    RegisteredLookup,
    SubBudget,
    exact_budget,
)
from spark_jobs.contract.expressions.blocks import BlockExpression
from spark_jobs.contract.options.lookups import Lookup, content_of
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit, plain


def amounts(budget: Budget) -> dict[str, str | None]:
    """The values of a budget's columns."""
    rho = None if budget.rho is None else plain(budget.rho)
    return {"epsilon": plain(budget.epsilon), "delta": plain(budget.delta), "rho": rho}


# blocks that were charged together have equal amounts
@lru_cache(maxsize=1024)
def budget_of(epsilon: str, delta: str, rho: str | None) -> Budget:
    """The budget in the columns of a row."""
    return exact_budget(Decimal(epsilon), Decimal(delta), None if rho is None else Decimal(rho))


def account_row(account: Account) -> dict[str, Any]:
    """The row of an account; its tables have rows of their own."""
    return {
        "name": account.name,
        "composition": account.composition,
        **amounts(account.cap),
        "neighbours": account.neighbours.value,
        "unit_column": account.unit.column,
        "unit_max_rows": account.unit.max_rows,
        "opened_at": account.opened_at,
        "opened_by": account.opened_by,
        "blocks": None if account.blocks is None else canonical(account.blocks.model_dump(mode="json")),
        "unit_stays": int(account.unit_stays),
        "slack": plain(account.slack),
        "public_sizes": int(account.public_sizes),
        "outputs": canonical(account.outputs),
        "requester_approves": int(account.requester_approves),
    }


def table_rows(account: Account) -> list[dict[str, Any]]:
    """The rows of an account's tables."""
    return [
        {"identity": table, "account": account.name, "binding": binding_text(account.bindings.get(table))}
        for table in account.tables
    ]


def binding_text(binding: Any) -> str | None:
    """A table's binding as its column stores it."""
    return None if binding is None else canonical(binding)


def key_list_row(keys: KeyList) -> dict[str, Any]:
    """The row of a key list."""
    return {**vars(keys), "keys": canonical(keys.keys)}


def sub_budget_row(sub_budget: SubBudget) -> dict[str, Any]:
    """The row of a sub-budget."""
    return {
        "account": sub_budget.account,
        "name": sub_budget.name,
        **amounts(sub_budget.cap),
        "slack": plain(sub_budget.slack),
    }


def blocks_of(expression: str | None, written: str) -> tuple[str, ...]:
    """The names of a charge's blocks, from the columns of its blocks and of its account's block expression."""
    blocks = tuple(json.loads(written))
    # few charges have ranges
    return blocks if expression is None or ".." not in written else _expression(expression).expand(blocks)


def charge_row(charge: Charge) -> dict[str, Any]:
    """The row of a charge."""
    return {
        "id": charge.id,
        "account": charge.account,
        "release_key": charge.release,
        "generation": charge.generation,
        "entry": charge.entry,
        "state": charge.state.value,
        **amounts(charge.cost),
        "blocks": canonical(charge.blocks),
        "events": canonical(charge.events),
        "request_sha256": charge.request_sha256,
        "manifest_sha256": charge.manifest_sha256,
        "actor": charge.actor,
        "reserved_at": charge.reserved_at,
        "renewed_at": charge.renewed_at,
        "settled_at": charge.settled_at,
        "allotment": charge.allotment,
        "drawn_events": texts(charge.drawn_events),
        "figures": texts(charge.figures),
        "runs": charge.runs,
        "open_runs": canonical(charge.open_runs),
        "draw_sha256": charge.draw_sha256,
    }


def texts(values: tuple[Any, ...] | None) -> str | None:
    """Events or figures as their column stores them; None if they are not known."""
    return None if values is None else canonical(values)


def account_details(account: Account) -> dict[str, Any]:
    """The log's details of a new account, without its actor, time and name."""
    row = account_row(account)
    about = {name: value for name, value in row.items() if name not in ("name", "opened_at", "opened_by")}
    return {**about, "outputs": account.outputs, "tables": account.tables, "bindings": account.bindings}


def charge_details(charge: Charge, account: Account) -> dict[str, Any]:
    """The log's details of a new charge, without its actor, time and id and what earlier entries imply.

    Consecutive blocks by time are written as one range, in the log and in the charge's row.
    """
    return {
        "release_key": charge.release,
        "generation": charge.generation,
        **amounts(charge.cost),
        "blocks": account.compacted(charge.blocks),
        "events": charge.events,
        "request_sha256": charge.request_sha256,
        "allotment": charge.allotment,
        "runs": charge.runs,
    }


def settlement_details(before: Charge, after: Charge) -> dict[str, Any]:
    """The log's details of a charge's end."""
    details: dict[str, Any] = {"manifest_sha256": after.manifest_sha256}
    if after.drawn_events is not None:
        details["events"] = after.drawn_events
    if after.figures is not None:
        details["figures"] = after.figures
    if after.draw_sha256 != before.draw_sha256:
        details["draw_sha256"] = after.draw_sha256
    return details


def account_of(row: Any) -> Account:
    """The account in a row, without its tables."""
    expression = row.accounts_blocks
    return Account(
        name=row.accounts_name,
        cap=budget_of(row.accounts_epsilon, row.accounts_delta, row.accounts_rho),
        composition=row.accounts_composition,
        slack=Decimal(row.accounts_slack),
        neighbours=Neighbours(row.accounts_neighbours),
        unit=_unit(row),
        tables=(),
        blocks=None if expression is None else _expression(expression),
        unit_stays=bool(row.accounts_unit_stays),
        public_sizes=bool(row.accounts_public_sizes),
        outputs=tuple(json.loads(row.accounts_outputs)),
        requester_approves=bool(row.accounts_requester_approves),
        opened_at=row.accounts_opened_at,
        opened_by=row.accounts_opened_by,
    )


def sub_budget_of(row: Any) -> SubBudget:
    """The sub-budget in a row."""
    return SubBudget(
        account=row.allotments_account,
        name=row.allotments_name,
        cap=budget_of(row.allotments_epsilon, row.allotments_delta, row.allotments_rho),
        slack=Decimal(row.allotments_slack),
    )


def is_lookup(row: Any) -> bool:
    """Whether a row of the table of lists holds a lookup, which is a JSON object, rather than a list of keys."""
    return bool(row.key_lists_keys.startswith("{"))


def lookup_row(lookup: RegisteredLookup) -> dict[str, Any]:
    """The row of a lookup."""
    content = lookup.lookup
    return {
        "account": lookup.account,
        "name": content.name,
        "sha256": content.sha256,
        "keys": content_of(content.key, content.value, content.entries),
        "registered_at": lookup.registered_at,
        "registered_by": lookup.registered_by,
    }


def lookup_of(row: Any) -> RegisteredLookup:
    """The lookup in a row."""
    named = {"name": row.key_lists_name, "sha256": row.key_lists_sha256}
    return RegisteredLookup(
        account=row.key_lists_account,
        lookup=Lookup.parse({**named, **json.loads(row.key_lists_keys)}),
        registered_at=row.key_lists_registered_at,
        registered_by=row.key_lists_registered_by,
    )


def key_list_of(row: Any) -> KeyList:
    """The key list in a row."""
    return KeyList(
        account=row.key_lists_account,
        name=row.key_lists_name,
        sha256=row.key_lists_sha256,
        keys=tuple(json.loads(row.key_lists_keys)),
        registered_at=row.key_lists_registered_at,
        registered_by=row.key_lists_registered_by,
    )


def _expression(text: str) -> BlockExpression:
    return BlockExpression.parse(json.loads(text))


def _unit(row: Any) -> PrivacyUnit:
    return PrivacyUnit(column=row.accounts_unit_column, max_rows=row.accounts_unit_max_rows)


def charge_of(row: Any) -> Charge:
    """The charge in a row, with its account's neighbour relation and privacy unit."""
    return Charge(
        id=row.charges_id,
        account=row.charges_account,
        release=row.charges_release_key,
        generation=row.charges_generation,
        entry=row.charges_entry,
        state=ChargeState(row.charges_state),
        cost=budget_of(row.charges_epsilon, row.charges_delta, row.charges_rho),
        blocks=blocks_of(row.accounts_blocks, row.charges_blocks),
        allotment=row.charges_allotment,
        events=tuple(json.loads(row.charges_events)),
        neighbours=Neighbours(row.accounts_neighbours),
        unit=_unit(row),
        request_sha256=row.charges_request_sha256,
        manifest_sha256=row.charges_manifest_sha256,
        actor=row.charges_actor,
        reserved_at=row.charges_reserved_at,
        renewed_at=row.charges_renewed_at,
        settled_at=row.charges_settled_at,
        drawn_events=None if row.charges_drawn_events is None else tuple(json.loads(row.charges_drawn_events)),
        figures=None if row.charges_figures is None else tuple(json.loads(row.charges_figures)),
        runs=row.charges_runs,
        open_runs=tuple(json.loads(row.charges_open_runs)),
        draw_sha256=row.charges_draw_sha256,
    )
