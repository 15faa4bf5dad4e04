"""Everything recomputed from the audit log alone, and held against the ledger's tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import Connection, Table, select

from dp_operators.budget.audit import OPENED, broken_links, canonical, read_entries, read_head
from dp_operators.budget.composition import added, fits, taken_off
from dp_operators.budget.rows import amounts, budget_of
from dp_operators.budget.schema import account_tables, accounts, block_totals, charges
from dp_operators.budget.values import ALL, AuditEntry, ChargeState, Verification, exact_budget
from spark_jobs.contract.privacy import Budget

_Rows = dict[tuple[Any, ...], dict[str, Any]]


class Replay:
    """The ledger's rows as the audit log tells them, one entry after the other."""

    def __init__(self) -> None:
        self.accounts: _Rows = {}
        self.account_tables: _Rows = {}
        self.block_totals: _Rows = {}
        self.charges: _Rows = {}

    def step(self, entry: AuditEntry) -> Iterator[str]:
        """Take one entry in; what is wrong with it, in words."""
        details = json.loads(entry.details)
        if entry.action == OPENED:
            yield from self._opened(entry, details)
        elif entry.action == ChargeState.RESERVED:
            yield from self._reserved(entry, details)
        elif entry.action in (ChargeState.COMMITTED, ChargeState.BURNT, ChargeState.VOID):
            yield from self._settled(entry, details)
        else:
            yield f"entry {entry.seq}: {entry.action} is no action of this ledger"

    def _opened(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        if (entry.account,) in self.accounts:
            yield f"entry {entry.seq}: opens account {entry.account} again"
        tables = details.pop("tables")
        self.accounts[entry.account,] = {
            "name": entry.account,
            **details,
            "opened_at": entry.at,
            "opened_by": entry.actor,
        }
        for table in tables:
            if (table,) in self.account_tables:
                yield f"entry {entry.seq}: binds table {table} to a second account"
            self.account_tables[table,] = {"identity": table, "account": entry.account}
        self._set_total(entry.account, ALL, exact_budget(Decimal(0)))

    def _reserved(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        blocks, cost = details["blocks"], _amount(details)
        self.charges[entry.charge,] = {
            "id": entry.charge,
            "account": entry.account,
            "entry": entry.seq,
            **details,
            "blocks": canonical(blocks),
            "spent_before": canonical({block: amounts(self._total(entry.account, block)) for block in blocks}),
            "events": canonical(details["events"]),
            "state": ChargeState.RESERVED.value,
            "manifest_sha256": None,
            "actor": entry.actor,
            "reserved_at": entry.at,
            "settled_at": None,
        }
        cap = _amount(self.accounts[entry.account,])
        for block in blocks:
            total = added(self._total(entry.account, block), cost)
            if not fits(cap, total):
                yield f"entry {entry.seq}: takes block {block} of account {entry.account} over its cap"
            self._set_total(entry.account, block, total)

    def _settled(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        charge = self.charges[entry.charge,]
        if charge["state"] != ChargeState.RESERVED:
            yield f"entry {entry.seq}: settles charge {entry.charge} again"
        charge.update(state=entry.action, manifest_sha256=details["manifest_sha256"], settled_at=entry.at)
        if entry.action == ChargeState.VOID:
            for block in json.loads(charge["blocks"]):
                self._set_total(entry.account, block, taken_off(self._total(entry.account, block), _amount(charge)))

    def _total(self, account: str, block: str) -> Budget:
        return _amount(self.block_totals[account, block])

    def _set_total(self, account: str, block: str, total: Budget) -> None:
        self.block_totals[account, block] = {"account": account, "block": block, **amounts(total)}


def _amount(row: Mapping[str, Any]) -> Budget:
    return budget_of(row["epsilon"], row["delta"], row["rho"])


def verify(connection: Connection) -> Verification:
    """Whether the log is whole and every row of the ledger is what the log says."""
    head = read_head(connection)
    findings: list[str] = []
    replay = Replay()

    def replayed() -> Iterator[AuditEntry]:
        for entry in read_entries(connection):
            try:
                findings.extend(replay.step(entry))
            except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation):
                findings.append(f"entry {entry.seq}: cannot be replayed")
            yield entry

    findings[:0] = list(broken_links(replayed(), head))
    for what, table, told in (
        ("account", accounts, replay.accounts),
        ("table", account_tables, replay.account_tables),
        ("total", block_totals, replay.block_totals),
        ("charge", charges, replay.charges),
    ):
        findings.extend(_differences(connection, what, table, told))
    return Verification(head=head, findings=tuple(findings))


def _differences(connection: Connection, what: str, table: Table, told: Mapping[Any, Any]) -> Iterator[str]:
    # a heartbeat is not logged
    columns = [column for column in table.columns if column.name != "renewed_at"]
    keys = [column.name for column in table.primary_key.columns]
    found: set[tuple[Any, ...]] = set()
    for row in connection.execute(select(*columns), execution_options={"yield_per": 1000}):
        key = tuple(row._mapping[name] for name in keys)
        found.add(key)
        name = f"{what} {', '.join(map(str, key))}"
        if key not in told:
            yield f"{name}: is not in the log"
            continue
        for column in columns:
            kept, logged = row._mapping[column.name], told[key].get(column.name)
            if kept != logged:
                yield f"{name}: {column.name} is {kept}, the log says {logged}"
    for key in told.keys() - found:
        yield f"{what} {', '.join(map(str, key))}: is missing"
