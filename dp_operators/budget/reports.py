"""Accounts, charges and log entries as JSON and as text tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from decimal import Decimal
from typing import Any

from dp_operators.budget.composition import ZCDP
from dp_operators.budget.figure_history import RecordedFigure
from dp_operators.budget.values import ALL, Account, AuditEntry, Charge, ChargeState, Head, SubBudget, exact_budget
from spark_jobs.contract.csv_cells import csv_line
from spark_jobs.contract.headlines import interval_text, number_text
from spark_jobs.contract.privacy import Budget, plain

_COUNTED = tuple(state for state in ChargeState if state is not ChargeState.VOID)
_FIXED = "if_decided_beforehand"
_FIXED_NOTE = """
if decided beforehand: the cost of all charges together if they and their amounts had been fixed before the first
answer. For charges that were chosen after earlier answers only the account's own sums are a valid bound.
"""


def account_json(
    account: Account,
    spent: Mapping[str, Mapping[ChargeState, Budget]],
    remaining: Mapping[str, Budget],
    sub_budgets: Sequence[SubBudget] = (),
    fixed: Mapping[str, Budget | None] | None = None,
) -> dict[str, Any]:
    """An account in plain JSON types, with what is spent and left in each block that was charged.

    ``spent`` has the sum of the charges in each state, by block; ``fixed`` has each block's non-adaptive bound, if
    bounds are to be reported.
    """
    blocks: dict[str, dict[str, Any]] = {}
    nothing = exact_budget(Decimal(0))
    for block, left in remaining.items():
        sums = spent.get(block, {})
        spending = {state.value: amounts_json(sums.get(state, nothing)) for state in _COUNTED}
        blocks[block] = {**spending, "remaining": amounts_json(left)}
        if fixed is not None:
            bound = fixed[block]
            blocks[block][_FIXED] = None if bound is None else amounts_json(bound)
    return {
        "name": account.name,
        "composition": account.composition,
        "cap": amounts_json(account.cap),
        "neighbours": account.neighbours.value,
        "replaced_within": account.replaced_within or None,
        "unit": {"column": account.unit.column, "max_rows": account.unit.max_rows},
        "tables": list(account.tables),
        "outputs": list(account.outputs),
        "requester_approves": account.requester_approves,
        "block_expression": None if account.blocks is None else str(account.blocks),
        "unit_stays": account.unit_stays,
        "bindings": dict(account.bindings),
        "allotments": {sub_budget.name: amounts_json(sub_budget.cap) for sub_budget in sub_budgets},
        "opened_at": account.opened_at,
        "opened_by": account.opened_by,
        "blocks": blocks,
    }


def charge_json(charge: Charge) -> dict[str, Any]:
    """A charge in plain JSON types."""
    return {
        **vars(charge),
        "state": charge.state.value,
        "cost": amounts_json(charge.cost),
        "blocks": list(charge.blocks),
        "events": list(charge.events),
        "drawn_events": None if charge.drawn_events is None else list(charge.drawn_events),
        "figures": None if charge.figures is None else list(charge.figures),
        "neighbours": charge.neighbours.value,
        "unit": {"column": charge.unit.column, "max_rows": charge.unit.max_rows},
    }


def entry_json(entry: AuditEntry) -> dict[str, Any]:
    """An entry of the audit log in plain JSON types; its ``details`` remain the text that was hashed."""
    return asdict(entry)


def ledger_json(
    head: Head, accounts: Sequence[Mapping[str, Any]], charges: Sequence[Charge], log: Sequence[AuditEntry]
) -> str:
    """The whole ledger as JSON, with the entries of the log as they were hashed."""
    contents = {
        "head": asdict(head),
        "accounts": list(accounts),
        "charges": [charge_json(charge) for charge in charges],
        "log": [entry_json(entry) for entry in log],
    }
    return json.dumps(contents, indent=2, ensure_ascii=False) + "\n"


def log_csv(entries: Iterable[AuditEntry]) -> str:
    """The audit log as CSV, one entry a line."""
    names = [field.name for field in fields(AuditEntry)]
    lines = (csv_line(entry_json(entry)[name] for name in names) for entry in entries)
    return "".join((csv_line(names), *lines))


def accounts_table(accounts: Iterable[Mapping[str, Any]], kind: str | None = None) -> str:
    """The accounts of ``account_json`` as a table, one block a line; ``remaining`` is for one kind of charge.

    Where the accounts have non-adaptive bounds, a note below the table states what they mean.
    """
    note = ""
    header = ["account", "cap", "committed", "burnt", "reserved", "remaining", "protects", "tables"]
    rows = []
    for account in accounts:
        unit = account["unit"]
        protects = "a row" if unit["column"] is None else f"{unit['column']} (at most {unit['max_rows']} rows)"
        if account["replaced_within"]:
            protects = f"{protects}, replaced by another of {account['replaced_within']}"
        tables = ", ".join(account["tables"]) or "-"
        for name, block in account["blocks"].items():
            amounts = [_in_currency(block[state], account) for state in ("committed", "burnt", "reserved")]
            left = _in_currency(block["remaining"], account) if kind is None else _of_kind(block["remaining"], kind)
            where = account["name"] if name == ALL else f"{account['name']} {name}"
            fixed = [_beforehand(block[_FIXED])] if _FIXED in block else []
            header[6:-2] = ["if decided beforehand"] if fixed else []
            note = _FIXED_NOTE if fixed else note
            rows.append((where, _in_currency(account["cap"], account), *amounts, left, *fixed, protects, tables))
    return f"{_table(tuple(header), rows)}\n{note}".rstrip("\n")


def charges_table(charges: Iterable[Charge]) -> str:
    """Charges as a table, one a line."""
    header = ("reserved at (UTC)", "state", "cost", "release", "actor", "charge")
    rows = [
        (
            charge.reserved_at[:19].replace("T", " "),
            charge.state.value,
            charge.cost.amount,
            charge.release,
            charge.actor or "-",
            charge.id,
        )
        for charge in charges
    ]
    return _table(header, rows)


def figures_table(figures: Iterable[RecordedFigure]) -> str:
    """Figures of releases as a table, one a line."""
    header = ("committed at (UTC)", "figure", "value", "these rows", "population", "status", "cost", "release")
    rows = [
        (
            one.at[:19].replace("T", " "),
            one.name,
            number_text(one.value),
            "-" if one.interval is None else interval_text(one.interval),
            "-" if one.population is None else interval_text(one.population),
            one.status,
            one.cost,
            one.release,
        )
        for one in figures
    ]
    return _table(header, rows)


def entries_table(entries: Iterable[AuditEntry]) -> str:
    """Entries of the audit log as a table, one a line."""
    header = ("entry", "at (UTC)", "actor", "action", "charge", "reason", "hash")
    rows = [
        (
            str(entry.seq),
            entry.at[:19].replace("T", " "),
            entry.actor or "-",
            entry.action,
            entry.charge or "-",
            entry.reason or "-",
            entry.hash[:16],
        )
        for entry in entries
    ]
    return _table(header, rows)


def amounts_json(budget: Budget) -> dict[str, str]:
    """A budget in plain JSON types; its amounts are texts, so that no digit is lost."""
    amounts = {"epsilon": plain(budget.epsilon), "delta": plain(budget.delta)}
    return amounts if budget.rho is None else {**amounts, "rho": plain(budget.rho)}


def _in_currency(amounts: Mapping[str, str], account: Mapping[str, Any]) -> str:
    """The amounts that the account adds up, as text."""
    if account["composition"] == ZCDP:
        return f"rho {amounts.get('rho', '0')}"
    return amounts["epsilon"] if amounts["delta"] == "0" else f"{amounts['epsilon']}, {amounts['delta']}"


def _beforehand(amounts: Mapping[str, str] | None) -> str:
    return "-" if amounts is None else f"{amounts['epsilon']} at {amounts['delta']}"


def _of_kind(amounts: Mapping[str, str], kind: str) -> str:
    """The amounts of one charge of a kind, as text."""
    if kind == "gaussian":
        return f"rho {amounts['rho']}"
    return amounts["epsilon"] if kind == "pure" else f"{amounts['epsilon']}, {amounts['delta']}"


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (header, *rows))
    return "\n".join(line.rstrip() for line in lines)
