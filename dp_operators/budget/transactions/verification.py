"""Recomputes the ledger from the audit log alone, and compares the result with the tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import Connection, Table, select

from dp_operators.budget.composition import added, fits, is_raise, limits_of, subtracted, zero_cost
from dp_operators.budget.tables.audit import (
    ALLOTTED,
    APPROVALS_SET,
    ARRIVED,
    DOMAINS_CHANGED,
    DRAW_RECORDED,
    FROZEN,
    GENESIS,
    KEYS_REGISTERED,
    MOVED,
    OPENED,
    OUTPUTS_BOUND,
    RAISED,
    RUN_ENDED,
    RUN_STARTED,
    STEPS_RECORDED,
    TABLE_BOUND,
    THAWED,
    broken_links,
    canonical,
    copy_of,
    moved_to,
    read_entries,
    read_head,
)
from dp_operators.budget.tables.mapping import amounts, blocks_of, budget_of
from dp_operators.budget.tables.rows import frozen, sees_all
from dp_operators.budget.tables.schema import (
    account_tables,
    accounts,
    allotments,
    block_totals,
    charges,
    key_lists,
    stream_steps,
)
from dp_operators.budget.transactions.bindings import with_domain_texts
from dp_operators.budget.values import ALL, AuditEntry, ChargeState, Verification
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget

# heartbeats are not logged; keys are logged by their hash; the last change's author and reason are in the log
_NOT_LOGGED = ("renewed_at", "keys", "changed_by", "change_reason")
# PostgreSQL stores JSON text as it was written
_JSON = ("blocks", "events", "drawn_events", "figures")

_Rows = dict[tuple[Any, ...], dict[str, Any]]


class Replay:
    """The ledger's rows, as the entries of the audit log rebuild them one after another."""

    def __init__(self) -> None:
        self.accounts: _Rows = {}
        self.account_tables: _Rows = {}
        self.allotments: _Rows = {}
        self.block_totals: _Rows = {}
        self.charges: _Rows = {}
        self.key_lists: _Rows = {}
        self.stream_steps: _Rows = {}
        self._stream_heads: dict[str, tuple[int, str]] = {}
        self.frozen = self.moved = ""
        self._steps: dict[str, Callable[[AuditEntry, dict[str, Any]], Iterator[str]]] = {
            OPENED: self._opened,
            RAISED: self._raised,
            ALLOTTED: self._allotted,
            TABLE_BOUND: self._table_bound,
            DOMAINS_CHANGED: self._domains_changed,
            OUTPUTS_BOUND: self._outputs_bound,
            KEYS_REGISTERED: self._keys_registered,
            APPROVALS_SET: self._approvals_set,
            FROZEN: self._frozen,
            THAWED: self._frozen,
            MOVED: self._moved,
            ARRIVED: self._arrived,
            ChargeState.RESERVED: self._reserved,
            RUN_STARTED: self._run_started,
            RUN_ENDED: self._run_ended,
            DRAW_RECORDED: self._draw_recorded,
            STEPS_RECORDED: self._steps_recorded,
            ChargeState.COMMITTED: self._ended,
            ChargeState.BURNT: self._ended,
            ChargeState.VOID: self._ended,
        }

    def step(self, entry: AuditEntry) -> Iterator[str]:
        """Apply one entry, and describe what is wrong with it."""
        details = json.loads(entry.details)
        step = self._steps.get(entry.action)
        if self.moved and entry.action != ARRIVED:
            yield f"entry {entry.seq}: follows the move to {self.moved}"
        if step is None:
            yield f"entry {entry.seq}: {entry.action} is not an action of this ledger"
        else:
            yield from step(entry, details)

    def _opened(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        if (entry.account,) in self.accounts:
            yield f"entry {entry.seq}: opens account {entry.account} again"
        tables, bindings = details.pop("tables"), details.pop("bindings")
        self.accounts[entry.account,] = {
            "name": entry.account,
            **details,
            "outputs": canonical(details["outputs"]),
            "opened_at": entry.at,
            "opened_by": entry.actor,
        }
        for table in tables:
            if (table,) in self.account_tables:
                yield f"entry {entry.seq}: binds table {table} to a second account"
            self._bind(entry.account, table, bindings.get(table))
        self._set_total((entry.account, "", ALL), zero_cost(details["composition"]))

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
            yield f"entry {entry.seq}: creates sub-budget {name} of account {entry.account} again"
        self.allotments[entry.account, name] = {"account": entry.account, **details}

    def _table_bound(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        table = details["table"]
        before = self.account_tables.get((table,))
        if before is not None and before["account"] != entry.account:
            yield f"entry {entry.seq}: binds table {table} to a second account"
        self._bind(entry.account, table, details["binding"])

    def _bind(self, account: str, table: str, binding: Any) -> None:
        row = {"identity": table, "account": account, "binding": None if binding is None else canonical(binding)}
        self.account_tables[table,] = row

    def _domains_changed(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        row = self.account_tables.get((details["table"],))
        if row is None or row["binding"] is None or row["account"] != entry.account:
            yield f"entry {entry.seq}: changes domains of table {details['table']}, which is not bound to the account"
            return
        if not (entry.actor and entry.reason):
            yield f"entry {entry.seq}: changes domains without an author and a reason"
        self._bind(entry.account, details["table"], with_domain_texts(json.loads(row["binding"]), details["domains"]))

    def _outputs_bound(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        self.accounts[entry.account,]["outputs"] = canonical(details["outputs"])
        yield from ()

    def _approvals_set(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        self.accounts[entry.account,]["requester_approves"] = details["requester_approves"]
        if not (entry.actor and entry.reason):
            yield f"entry {entry.seq}: says who approves without an author and a reason"

    def _keys_registered(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        key = (entry.account, details["name"])
        if key in self.key_lists:
            yield f"entry {entry.seq}: registers keys {details['name']} of account {entry.account} again"
        when = {"registered_at": entry.at, "registered_by": entry.actor}
        self.key_lists[key] = {"account": entry.account, "name": details["name"], "sha256": details["sha256"], **when}

    def _frozen(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        self.frozen = entry.reason if entry.action == FROZEN else ""
        yield from ()

    def _moved(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        self.frozen, self.moved = entry.reason, details["to"]
        yield from ()

    def _arrived(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        if not self.moved:
            yield f"entry {entry.seq}: arrives without having moved"
        self.frozen, self.moved = details["frozen"], ""

    def _reserved(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        cost, allotment = _amount(details), details["allotment"]
        self.charges[entry.charge,] = {
            "id": entry.charge,
            "account": entry.account,
            "entry": entry.seq,
            **details,
            "blocks": canonical(details["blocks"]),
            "events": canonical(details["events"]),
            "state": ChargeState.RESERVED.value,
            "manifest_sha256": None,
            "actor": entry.actor,
            "reserved_at": entry.at,
            "settled_at": None,
            "drawn_events": None,
            "figures": None,
            "open_runs": canonical([1] if details["runs"] else []),
            "draw_sha256": None,
        }
        account = self.accounts[entry.account,]
        caps = {"": account} | ({allotment: self.allotments[entry.account, allotment]} if allotment else {})
        for place in self._paying(entry, canonical(details["blocks"]), allotment):
            _, payer, block = place
            cap = caps[payer]
            total = added(self._total(place), cost)
            if not fits(limits_of(account["composition"], _amount(cap), Decimal(cap["slack"])), total):
                where = f"block {block} of account {entry.account}"
                yield f"entry {entry.seq}: takes {f'sub-budget {payer} in {where}' if payer else where} over its cap"
            self._set_total(place, total)

    def _ended(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        charge = self.charges[entry.charge,]
        if charge["state"] != ChargeState.RESERVED:
            yield f"entry {entry.seq}: ends charge {entry.charge} again"
        if "draw_sha256" in details:
            charge["draw_sha256"] = details["draw_sha256"]
        yield from self._ready(entry, charge)
        charge.update(state=entry.action, manifest_sha256=details["manifest_sha256"], settled_at=entry.at)
        if "events" in details:
            charge["drawn_events"] = canonical(details["events"])
        if "figures" in details:
            charge["figures"] = canonical(details["figures"])
        if entry.action == ChargeState.VOID:
            for place in self._paying(entry, charge["blocks"], charge["allotment"]):
                self._set_total(place, subtracted(self._total(place), _amount(charge)))

    def _ready(self, entry: AuditEntry, charge: dict[str, Any]) -> Iterator[str]:
        drawn = charge["draw_sha256"] is not None
        if entry.action == ChargeState.VOID and (drawn or charge["open_runs"] != "[]"):
            yield f"entry {entry.seq}: gives charge {entry.charge} back, for which rows may have been read"
        if entry.action == ChargeState.COMMITTED and not drawn:
            yield f"entry {entry.seq}: commits charge {entry.charge}, whose draw is not recorded"

    def _run_started(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        charge, number = self.charges[entry.charge,], details["run"]
        if number != charge["runs"] + 1 or charge["state"] not in (ChargeState.RESERVED, ChargeState.COMMITTED):
            yield f"entry {entry.seq}: starts run {number} of charge {entry.charge}, which is not its next"
        charge.update(runs=number, open_runs=canonical([*json.loads(charge["open_runs"]), number]))

    def _run_ended(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        charge, number = self.charges[entry.charge,], details["run"]
        still_open = json.loads(charge["open_runs"])
        if number not in still_open or charge["state"] != ChargeState.RESERVED:
            yield f"entry {entry.seq}: ends run {number} of charge {entry.charge}, which is not open"
        charge["open_runs"] = canonical([run for run in still_open if run != number])

    def _draw_recorded(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        charge = self.charges[entry.charge,]
        if charge["draw_sha256"] is not None or charge["state"] != ChargeState.RESERVED:
            yield f"entry {entry.seq}: records a second draw of charge {entry.charge}"
        charge["draw_sha256"] = details["draw_sha256"]

    def _steps_recorded(self, entry: AuditEntry, details: dict[str, Any]) -> Iterator[str]:
        charge, first = self.charges[entry.charge,], details["first"]
        if (first, details["previous_sha256"]) != self._stream_heads.get(entry.charge, (0, GENESIS)):
            yield f"entry {entry.seq}: records step {first} of charge {entry.charge}, which is not its next"
        if charge["state"] not in (ChargeState.RESERVED, ChargeState.COMMITTED):
            yield f"entry {entry.seq}: records steps of charge {entry.charge}, which is {charge['state']}"
        self._stream_heads[entry.charge] = (first + details["steps"], details["object_sha256"])
        by = {"recorded_at": entry.at, "recorded_by": entry.actor, "reason": entry.reason}
        self.stream_steps[entry.charge, first] = {"charge": entry.charge, **details, **by}

    def _paying(self, entry: AuditEntry, blocks: str, allotment: str) -> list[tuple[str, str, str]]:
        account = self.accounts[entry.account,]
        paying = blocks_of(account["blocks"], blocks) if account["unit_stays"] else (ALL,)
        return [(entry.account, payer, block) for payer in dict.fromkeys(["", allotment]) for block in paying]

    def _total(self, place: tuple[str, str, str]) -> Budget:
        row = self.block_totals.get(place)
        return zero_cost(self.accounts[place[0],]["composition"]) if row is None else _amount(row)

    def _set_total(self, place: tuple[str, str, str], total: Budget) -> None:
        account, allotment, block = place
        row = {"account": account, "allotment": allotment, "block": block, **amounts(total)}
        self.block_totals[place] = row


def _amount(row: Mapping[str, Any]) -> Budget:
    return budget_of(row["epsilon"], row["delta"], row["rho"])


def verify(connection: Connection) -> Verification:
    """Compare the audit log with itself and with every row of the ledger.

    Raises:
        InvalidRequest: the database shows this role only a part of the ledger.
    """
    if not sees_all(connection):
        raise InvalidRequest(
            "ledger", None, "can only be verified by a role that sees all accounts",
            "use such a role: `dp-budget grants ROLE --may view`",
        )  # fmt: skip
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
    for what, table, replayed_rows in (
        ("account", accounts, replay.accounts),
        ("table", account_tables, replay.account_tables),
        ("sub-budget", allotments, replay.allotments),
        ("total", block_totals, replay.block_totals),
        ("keys", key_lists, replay.key_lists),
        ("charge", charges, replay.charges),
        ("steps of charge", stream_steps, replay.stream_steps),
    ):
        findings.extend(_differences(connection, what, table, replayed_rows))
    findings.extend(_other_keys(connection))
    moved = moved_to(connection)
    if replay.moved and moved != replay.moved:
        findings.append(f"the ledger goes on, and the log says that it was moved to {replay.moved}")
    # a copy that is not the ledger yet is frozen, which no entry says
    if frozen(connection) != replay.frozen and not moved.startswith(copy_of("")):
        findings.append(f"the ledger is frozen: {frozen(connection) or 'no'}, the log says {replay.frozen or 'no'}")
    return Verification(head=head, findings=tuple(findings))


def _differences(connection: Connection, what: str, table: Table, replayed_rows: Mapping[Any, Any]) -> Iterator[str]:
    columns = [column for column in table.columns if column.name not in _NOT_LOGGED]
    keys = [column.name for column in table.primary_key.columns]
    stored: set[tuple[Any, ...]] = set()
    for row in connection.execute(select(*columns), execution_options={"yield_per": 1000}):
        key = tuple(row._mapping[name] for name in keys)
        stored.add(key)
        name = f"{what} {', '.join(str(part) for part in key if part != '')}"
        if key not in replayed_rows:
            if table is block_totals and _is_zero(row._mapping):
                continue  # a total of zero, created for a charge that was not made
            yield f"{name}: is not in the log"
            continue
        for column in columns:
            stored_value, logged = row._mapping[column.name], replayed_rows[key].get(column.name)
            if stored_value != logged and not (column.name in _JSON and _same_json(stored_value, logged)):
                yield f"{name}: {column.name} is {stored_value}, the log says {logged}"
    for key in replayed_rows.keys() - stored:
        if table is not block_totals or not _is_zero(replayed_rows[key]):
            yield f"{what} {', '.join(str(part) for part in key if part != '')}: is missing"


def _same_json(stored_value: Any, logged: Any) -> bool:
    try:
        return bool(json.loads(stored_value) == json.loads(logged))
    except (TypeError, ValueError):
        return False


def _other_keys(connection: Connection) -> Iterator[str]:
    for row in connection.execute(select(key_lists), execution_options={"yield_per": 100}):
        if hashlib.sha256(row.keys.encode()).hexdigest() != row.sha256:
            yield f"keys {row.account}, {row.name}: are other keys than those that were registered"


def _is_zero(row: Any) -> bool:
    return row["epsilon"] == row["delta"] == "0" and row["rho"] in (None, "0")
