"""Everything recomputed from the audit log alone, and held against the ledger's tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import Connection, Table, select

from dp_operators.budget.audit import (
    ALLOTTED,
    FROZEN,
    OPENED,
    RAISED,
    THAWED,
    broken_links,
    canonical,
    read_entries,
    read_head,
)
from dp_operators.budget.composition import added, fits, is_raise, limits_of, nothing, taken_off
from dp_operators.budget.rows import amounts, budget_of, frozen, sees_all
from dp_operators.budget.schema import account_tables, accounts, allotments, block_totals, charges
from dp_operators.budget.values import ALL, AuditEntry, ChargeState, Verification
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.privacy import Budget

_Rows = dict[tuple[Any, ...], dict[str, Any]]


class Replay:
    """The ledger's rows as the audit log tells them, one entry after the other."""

    def __init__(self) -> None:
        self.accounts: _Rows = {}
        self.account_tables: _Rows = {}
        self.allotments: _Rows = {}
        self.block_totals: _Rows = {}
        self.charges: _Rows = {}
        self.frozen = ""
        self._steps: dict[str, Callable[[AuditEntry, dict[str, Any]], Iterator[str]]] = {
            OPENED: self._opened,
            RAISED: self._raised,
            ALLOTTED: self._allotted,
            FROZEN: self._frozen,
            THAWED: self._frozen,
            ChargeState.RESERVED: self._reserved,
            ChargeState.COMMITTED: self._settled,
            ChargeState.BURNT: self._settled,
            ChargeState.VOID: self._settled,
        }

    def step(self, entry: AuditEntry) -> Iterator[str]:
        """Take one entry in; what is wrong with it, in words."""
        details = json.loads(entry.details)
        step = self._steps.get(entry.action)
        if step is None:
            yield f"entry {entry.seq}: {entry.action} is no action of this ledger"
        else:
            yield from step(entry, details)

    def _opened(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        if (entry.account,) in self.accounts:
            yield f"entry {entry.seq}: opens account {entry.account} again"
        tables = details.pop("tables")
        self.accounts[entry.account,] = {
            "name": entry.account,
            # what earlier schemas' entries do not say
            "blocks": None,
            "unit_stays": 1,
            "slack": "0",
            "public_sizes": 0,
            **details,
            "opened_at": entry.at,
            "opened_by": entry.actor,
        }
        for table in tables:
            if (table,) in self.account_tables:
                yield f"entry {entry.seq}: binds table {table} to a second account"
            self.account_tables[table,] = {"identity": table, "account": entry.account}
        self._set_total((entry.account, "", ALL), nothing(details["composition"]))

    def _raised(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        name = details["allotment"]
        row = self.allotments[entry.account, name] if name else self.accounts[entry.account,]
        before = _amount(row)
        row.update({currency: details[currency] for currency in ("epsilon", "delta", "rho", "slack")})
        if "public_sizes" in details:
            row["public_sizes"] = details["public_sizes"]
        if not is_raise(self.accounts[entry.account,]["composition"], before, _amount(row)):
            yield f"entry {entry.seq}: lowers the cap of account {entry.account}"
        if not (entry.actor and entry.reason):
            yield f"entry {entry.seq}: raises a cap without an author and a reason"

    def _allotted(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        name = details["name"]
        if (entry.account, name) in self.allotments:
            yield f"entry {entry.seq}: makes allotment {name} of account {entry.account} again"
        self.allotments[entry.account, name] = {"account": entry.account, **details}

    def _frozen(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        self.frozen = entry.reason if entry.action == FROZEN else ""
        yield from ()

    def _reserved(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        cost, allotment = _amount(details), details.get("allotment", "")
        self.charges[entry.charge,] = {
            "id": entry.charge,
            "account": entry.account,
            "entry": entry.seq,
            **details,
            "allotment": allotment,
            "blocks": canonical(details["blocks"]),
            "events": canonical(details["events"]),
            "state": ChargeState.RESERVED.value,
            "manifest_sha256": None,
            "actor": entry.actor,
            "reserved_at": entry.at,
            "settled_at": None,
            "drawn_events": None,
        }
        account = self.accounts[entry.account,]
        caps = {"": account} | ({allotment: self.allotments[entry.account, allotment]} if allotment else {})
        for place in self._paying(entry, details["blocks"], allotment):
            _, purse, block = place
            cap = caps[purse]
            total = added(self._total(place), cost)
            if not fits(limits_of(account["composition"], _amount(cap), Decimal(cap["slack"])), total):
                where = f"block {block} of account {entry.account}"
                yield f"entry {entry.seq}: takes {f'allotment {purse} in {where}' if purse else where} over its cap"
            self._set_total(place, total)

    def _settled(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        charge = self.charges[entry.charge,]
        if charge["state"] != ChargeState.RESERVED:
            yield f"entry {entry.seq}: settles charge {entry.charge} again"
        charge.update(state=entry.action, manifest_sha256=details["manifest_sha256"], settled_at=entry.at)
        if "events" in details:
            charge["drawn_events"] = canonical(details["events"])
        if entry.action == ChargeState.VOID:
            for place in self._paying(entry, json.loads(charge["blocks"]), charge["allotment"]):
                self._set_total(place, taken_off(self._total(place), _amount(charge)))

    def _paying(self, entry: AuditEntry, blocks: list[str], allotment: str) -> list[tuple[str, str, str]]:
        paying = blocks if self.accounts[entry.account,]["unit_stays"] else [ALL]
        return [(entry.account, purse, block) for purse in dict.fromkeys(["", allotment]) for block in paying]

    def _total(self, place: tuple[str, str, str]) -> Budget:
        row = self.block_totals.get(place)
        return nothing(self.accounts[place[0],]["composition"]) if row is None else _amount(row)

    def _set_total(self, place: tuple[str, str, str], total: Budget) -> None:
        account, allotment, block = place
        row = {"account": account, "allotment": allotment, "block": block, **amounts(total)}
        self.block_totals[place] = row


def _amount(row: Mapping[str, Any]) -> Budget:
    return budget_of(row["epsilon"], row["delta"], row["rho"])


def verify(connection: Connection) -> Verification:
    """Whether the log is whole and every row of the ledger is what the log says.

    Raises:
        RequestRefused: the database shows this role only a part of it.
    """
    if not sees_all(connection):
        raise RequestRefused(
            "ledger",
            bound="must be seen whole to be verified, and this role sees some of its accounts",
            remedy="ask with a role that may view them all: `dp-budget grants ROLE --may view`",
        )
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
        ("allotment", allotments, replay.allotments),
        ("total", block_totals, replay.block_totals),
        ("charge", charges, replay.charges),
    ):
        findings.extend(_differences(connection, what, table, told))
    if frozen(connection) != replay.frozen:
        findings.append(f"the ledger is frozen: {frozen(connection) or 'no'}, the log says {replay.frozen or 'no'}")
    return Verification(head=head, findings=tuple(findings))


def _differences(connection: Connection, what: str, table: Table, told: Mapping[Any, Any]) -> Iterator[str]:
    # a heartbeat is not logged
    columns = [column for column in table.columns if column.name != "renewed_at"]
    keys = [column.name for column in table.primary_key.columns]
    found: set[tuple[Any, ...]] = set()
    for row in connection.execute(select(*columns), execution_options={"yield_per": 1000}):
        key = tuple(row._mapping[name] for name in keys)
        found.add(key)
        name = f"{what} {', '.join(str(part) for part in key if part != '')}"
        if key not in told:
            if table is block_totals and _is_nothing(row._mapping):
                continue  # a block that somebody was about to charge
            yield f"{name}: is not in the log"
            continue
        for column in columns:
            kept, logged = row._mapping[column.name], told[key].get(column.name)
            if kept != logged:
                yield f"{name}: {column.name} is {kept}, the log says {logged}"
    for key in told.keys() - found:
        if table is not block_totals or not _is_nothing(told[key]):
            yield f"{what} {', '.join(str(part) for part in key if part != '')}: is missing"


def _is_nothing(row: Any) -> bool:
    return row["epsilon"] == row["delta"] == "0" and row["rho"] in (None, "0")
