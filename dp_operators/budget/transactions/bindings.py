"""What an administrator binds to an account: tables, folders of releases, public lists of keys, who may approve."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, insert, update

from dp_operators.budget.tables import audit, mapping, rows
from dp_operators.budget.tables.audit import canonical
from dp_operators.budget.tables.schema import account_tables, accounts, key_lists
from dp_operators.budget.transactions.charges import require_thawed
from dp_operators.budget.transactions.overlaps import require_separate_outputs, require_separate_tables
from dp_operators.budget.values import Account, KeyList, RegisteredLookup
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.domains import Domain, ListedValues
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.lookups import Lookup
from spark_jobs.contract.values import did_you_mean


@dataclass(frozen=True, kw_only=True)
class Bind:
    """A table of an account and its description."""

    account: str
    table: str
    binding: Mapping[str, Any]
    actor: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ChangeDomains:
    """The new domains of some columns of a bound table; None for a column that loses its domain."""

    account: str
    table: str
    domains: Mapping[str, Domain | None]
    actor: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class BindOutputs:
    """The folders that an account's releases may be written to."""

    account: str
    outputs: tuple[str, ...]
    actor: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class SetApprovals:
    """Whether a person may approve the higher cap that they asked for."""

    account: str
    requester_approves: bool
    actor: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Register:
    """A public list of keys that the requests of an account may name."""

    account: str
    name: str
    keys: tuple[Any, ...]
    actor: str


@dataclass(frozen=True, kw_only=True)
class RegisterLookup:
    """A public lookup that the requests of an account may name."""

    account: str
    lookup: Lookup
    actor: str


def bind_table(connection: Connection, wanted: Bind) -> Account:
    """Bind the description of a table to an account; if the table belongs to no account, it is assigned to this one.

    If the table is already bound to this account with the same description, nothing changes.

    Raises:
        InvalidRequest: no such account, the table belongs to another account, or the earlier description would change
            in a way that ``TableBinding.require_extends`` does not allow.
    """
    account = rows.get_account(connection, wanted.account)
    before = account.bindings.get(wanted.table)
    if before == wanted.binding:
        return account
    if wanted.table not in account.tables:
        require_separate_tables(connection, account.name, (wanted.table,))
    binding = TableBinding.parse(wanted.binding)
    binding.require_terms(account.unit, account.blocks)
    if before is not None:
        binding.require_extends(TableBinding.parse(before), blocks=account.blocks)
    _require_lists(connection, account, binding)
    require_thawed(rows.frozen(connection))
    entry = audit.NewEntry(
        actor=wanted.actor,
        action=audit.TABLE_BOUND,
        account=account.name,
        reason=wanted.reason,
        details={"table": wanted.table, "binding": wanted.binding},
    )
    audit.append(connection, entry)
    row = {"account": account.name, "binding": mapping.binding_text(wanted.binding)}
    if wanted.table in account.tables:
        connection.execute(update(account_tables).where(account_tables.c.identity == wanted.table).values(row))
    else:
        connection.execute(insert(account_tables), {"identity": wanted.table, **row})
    return replace(
        account,
        tables=tuple(sorted({*account.tables, wanted.table})),
        bindings={**account.bindings, wanted.table: wanted.binding},
    )


def change_domains(connection: Connection, wanted: ChangeDomains) -> Account:
    """Change the domains of columns of a bound table; streams and releases that have begun keep the earlier ones.

    Raises:
        InvalidRequest: no such account, table, column or key list, or a domain contradicts its column's type.
    """
    account = rows.get_account(connection, wanted.account)
    before = account.bindings.get(wanted.table)
    if before is None:
        raise InvalidRequest(
            "table", wanted.table, f"must have its columns bound to account {account.name}",
            f"have the columns bound: `dp-budget bind {account.name}`",
        )  # fmt: skip
    binding = TableBinding.parse(before).with_domains(wanted.domains)
    after = binding.model_dump(mode="json")
    if after == before:
        return account
    _require_lists(connection, account, binding)
    require_thawed(rows.frozen(connection))
    texts = {name: None if domain is None else str(domain) for name, domain in wanted.domains.items()}
    entry = audit.NewEntry(
        actor=wanted.actor,
        action=audit.DOMAINS_CHANGED,
        account=account.name,
        reason=wanted.reason,
        details={"table": wanted.table, "domains": texts},
    )
    audit.append(connection, entry)
    row = {"binding": mapping.binding_text(with_domain_texts(before, texts))}
    connection.execute(update(account_tables).where(account_tables.c.identity == wanted.table).values(row))
    return replace(account, bindings={**account.bindings, wanted.table: after})


def with_domain_texts(binding: Mapping[str, Any], domains: Mapping[str, str | None]) -> dict[str, Any]:
    """The fields of a binding after a change of some columns' domains, given as texts; None removes a domain."""
    columns = []
    for column in binding["columns"]:
        fields = {name: value for name, value in column.items() if name != "domain" or column["name"] not in domains}
        text = domains.get(column["name"])
        columns.append(fields if text is None else {**fields, "domain": text})
    return {**binding, "columns": columns}


def _require_lists(connection: Connection, account: Account, binding: TableBinding) -> None:
    """Reject domains that name key lists which are not registered for the account."""
    named = {c.name: c.domain.list for c in binding.columns if isinstance(c.domain, ListedValues) and c.domain.list}
    known = {keys.name for keys in rows.key_lists_of(connection, account.name)} if named else set()
    for column, name in named.items():
        if name not in known:
            raise InvalidRequest(
                f"domain of {column}", f"in @{name}",
                f"must name a key list that is registered for account {account.name}",
                f"register it first: `dp-budget keys register`{did_you_mean(name, known)}",
            )  # fmt: skip


def bind_outputs(connection: Connection, wanted: BindOutputs) -> Account:
    """Bind the folders that an account's releases may be written to, in place of its earlier folders.

    Raises:
        InvalidRequest: no such account, or a folder overlaps with a table or with a folder of another account.
    """
    account = rows.get_account(connection, wanted.account)
    if account.outputs == wanted.outputs:
        return account
    require_separate_outputs(connection, account.name, wanted.outputs, ())
    require_thawed(rows.frozen(connection))
    entry = audit.NewEntry(
        actor=wanted.actor,
        action=audit.OUTPUTS_BOUND,
        account=account.name,
        reason=wanted.reason,
        details={"outputs": wanted.outputs},
    )
    audit.append(connection, entry)
    changed = {"outputs": canonical(wanted.outputs)}
    connection.execute(update(accounts).where(accounts.c.name == account.name).values(changed))
    return replace(account, outputs=wanted.outputs)


def set_approvals(connection: Connection, wanted: SetApprovals) -> Account:
    """Say whether a person may approve the higher cap that they asked for; the same setting again changes nothing.

    Raises:
        InvalidRequest: no such account.
    """
    account = rows.get_account(connection, wanted.account)
    if account.requester_approves == wanted.requester_approves:
        return account
    require_thawed(rows.frozen(connection))
    changed = {"requester_approves": int(wanted.requester_approves)}
    entry = audit.NewEntry(
        actor=wanted.actor,
        action=audit.APPROVALS_SET,
        account=account.name,
        reason=wanted.reason,
        details=changed,
    )
    audit.append(connection, entry)
    connection.execute(update(accounts).where(accounts.c.name == account.name).values(changed))
    return replace(account, requester_approves=wanted.requester_approves)


def register_keys(connection: Connection, wanted: Register) -> KeyList:
    """Register a list of keys for an account; a list that is registered with the same keys is returned.

    Raises:
        InvalidRequest: no such account, or other keys are registered under this name.
    """
    account = rows.get_account(connection, wanted.account)
    text = canonical(wanted.keys)
    key_list = KeyList(
        account=account.name,
        name=wanted.name,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        keys=wanted.keys,
        registered_at=audit.now(),
        registered_by=wanted.actor,
    )
    registered = next((keys for keys in rows.key_lists_of(connection, account.name) if keys.name == wanted.name), None)
    if registered is not None and registered.sha256 == key_list.sha256:
        return registered
    _require_free(connection, account.name, wanted.name, "keys")
    _append_list(connection, key_list.registered_at, wanted, wanted.name, key_list.sha256)
    connection.execute(insert(key_lists), mapping.key_list_row(key_list))
    return key_list


def register_lookup(connection: Connection, wanted: RegisterLookup) -> RegisteredLookup:
    """Register a lookup for an account; one that is registered with the same content is returned.

    Raises:
        InvalidRequest: no such account, or something else is registered under this name.
    """
    account = rows.get_account(connection, wanted.account)
    lookup = RegisteredLookup(
        account=account.name, lookup=wanted.lookup, registered_at=audit.now(), registered_by=wanted.actor
    )
    named = wanted.lookup.name
    registered = next((one for one in rows.lookups_of(connection, account.name) if one.lookup.name == named), None)
    if registered is not None and registered.lookup.sha256 == wanted.lookup.sha256:
        return registered
    _require_free(connection, account.name, named, "entries")
    _append_list(connection, lookup.registered_at, wanted, named, wanted.lookup.sha256)
    connection.execute(insert(key_lists), mapping.lookup_row(lookup))
    return lookup


def _require_free(connection: Connection, account: str, name: str, what: str) -> None:
    """Reject a name that a list or a lookup has; neither is ever changed."""
    if name in rows.registered_names(connection, account):
        raise InvalidRequest(
            "name", name, f"is registered for account {account} with other {what}",
            f"register these {what} under another name",
        )  # fmt: skip
    require_thawed(rows.frozen(connection))


def _append_list(connection: Connection, at: str, wanted: Register | RegisterLookup, name: str, sha256: str) -> None:
    entry = audit.NewEntry(
        at=at,
        actor=wanted.actor,
        action=audit.KEYS_REGISTERED,
        account=wanted.account,
        details={"name": name, "sha256": sha256},
    )
    audit.append(connection, entry)
