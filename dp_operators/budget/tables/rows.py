"""Reads the ledger's rows and returns them as values; each function runs its query once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, literal_column, or_, select

from dp_operators.budget.composition import total
from dp_operators.budget.tables.audit import canonical
from dp_operators.budget.tables.mapping import (
    account_of,
    blocks_of,
    budget_of,
    charge_of,
    is_lookup,
    key_list_of,
    lookup_of,
    sub_budget_of,
)
from dp_operators.budget.tables.queries import Query, fetch
from dp_operators.budget.tables.schema import (
    account_tables,
    accounts,
    allotments,
    audit_head,
    block_totals,
    charges,
    key_lists,
    run_keys,
)
from dp_operators.budget.values import Account, Charge, ChargeState, KeyList, RegisteredLookup, SubBudget
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.privacy import Budget
from spark_jobs.contract.values import did_you_mean

_of_account = accounts.c.name == charges.c.account
_named = accounts.c.name == bindparam("account")
_release = and_(charges.c.account == bindparam("account"), charges.c.release_key == bindparam("release"))
_generation = select(func.max(charges.c.generation)).where(_release).scalar_subquery()
_latest = and_(_release, charges.c.generation == _generation)
_terms = tuple(accounts.c[name] for name in ("neighbours", "unit_column", "unit_max_rows", "unit_stays", "blocks"))
_totals = (
    block_totals.c.allotment,
    block_totals.c.block,
    block_totals.c.epsilon,
    block_totals.c.delta,
    block_totals.c.rho,
)
_charges = select(charges, *_terms).join(accounts, _of_account)
_of_payer = or_(block_totals.c.allotment == literal_column("''"), block_totals.c.allotment == bindparam("allotment"))
_allotted = and_(allotments.c.account == accounts.c.name, allotments.c.name == bindparam("allotment"))
_frozen = select(audit_head.c.frozen).scalar_subquery().label("frozen")

_NAMES = Query(lambda _: select(accounts.c.name).order_by(accounts.c.name))
_ACCOUNT = Query(lambda _: select(accounts).where(_named))
_TABLES = Query(
    lambda _: (
        select(account_tables.c.identity, account_tables.c.binding)
        .where(account_tables.c.account == bindparam("account"))
        .order_by(account_tables.c.identity)
    )
)
_KEY_LISTS = Query(lambda _: select(key_lists).where(key_lists.c.account == bindparam("account")))
_RUN_KEY = Query(lambda _: select(run_keys.c.run_key).where(run_keys.c.charge == bindparam("charge")))
_OWNER = Query(lambda _: select(account_tables.c.account).where(account_tables.c.identity == bindparam("table")))
_ALL_OUTPUTS = Query(lambda _: select(accounts.c.name, accounts.c.outputs))
_ALL_TABLES = Query(lambda _: select(account_tables.c.identity, account_tables.c.account))
_ALLOTMENTS = Query(
    lambda _: select(allotments).where(allotments.c.account == bindparam("account")).order_by(allotments.c.name)
)
_SPENT = Query(
    lambda among: select(*_totals).where(
        block_totals.c.account == bindparam("account"), _of_payer, among(block_totals.c.block)
    )
)
_ALL_SPENT = Query(lambda _: select(*_totals).where(block_totals.c.account == bindparam("account")))
_FROZEN = Query(lambda _: select(audit_head.c.frozen))
_CHARGE = Query(lambda _: _charges.add_columns(_frozen).where(charges.c.id == bindparam("charge")))
_LATEST = Query(lambda _: _charges.where(_latest))
_HISTORY = Query(lambda _: _charges.where(charges.c.account == bindparam("account")).order_by(charges.c.entry))
_paid = (charges.c.state, charges.c.blocks, charges.c.epsilon, charges.c.delta, charges.c.rho)
_BY_STATE = Query(
    lambda _: (
        select(*_paid, func.count().label("number"))
        .where(charges.c.account == bindparam("account"), charges.c.state != bindparam("void"))
        .group_by(*_paid)
    )
)
_RESERVED = Query(
    lambda _: _charges.where(
        charges.c.state == literal_column(f"'{ChargeState.RESERVED.value}'"), charges.c.renewed_at < bindparam("before")
    ).order_by(charges.c.entry)
)
_RESERVATION_CONTEXT = Query(
    lambda among: (
        select(accounts, *_totals, charges, allotments, _frozen)
        .select_from(accounts)
        .outerjoin(
            block_totals, and_(block_totals.c.account == accounts.c.name, _of_payer, among(block_totals.c.block))
        )
        .outerjoin(charges, _latest)
        .outerjoin(allotments, _allotted)
        .where(_named)
    )
)

Spent = dict[tuple[str, str], Budget]
"""The sum of reserved, committed and burnt costs, by sub-budget (empty for the account itself) and block."""


@dataclass(frozen=True, kw_only=True)
class ReservationContext:
    """What the decision about a reservation depends on.

    Attributes:
        account: the account, without its tables.
        sub_budget: the requested sub-budget; None if it does not exist.
        spent: what is spent in each requested block that was charged before.
        latest: the latest charge of the release key; None if it has no charge.
        frozen: the reason why the ledger is frozen; empty if it is not frozen.
    """

    account: Account
    sub_budget: SubBudget | None
    spent: Spent
    latest: Charge | None
    frozen: str


def account_names(connection: Connection) -> tuple[str, ...]:
    """The names of all accounts, sorted."""
    return tuple(row.accounts_name for row in fetch(connection, _NAMES, {}))


def find_account(connection: Connection, name: str) -> Account | None:
    """The account with this name; None if it does not exist."""
    rows = fetch(connection, _ACCOUNT, {"account": name})
    if not rows:
        return None
    bound = tables_of(connection, name)
    known = {table: binding for table, binding in bound.items() if binding is not None}
    return replace(account_of(rows[0]), tables=tuple(sorted(bound)), bindings=known)


def get_account(connection: Connection, name: str) -> Account:
    """The account with this name.

    Raises:
        InvalidRequest: no such account.
    """
    account = find_account(connection, name)
    if account is None:
        raise no_account(name, account_names(connection))
    return account


def tables_of(connection: Connection, account: str) -> dict[str, Any]:
    """The tables bound to an account, each with its binding; None for a table that is not described yet."""
    return {
        row.account_tables_identity: None
        if row.account_tables_binding is None
        else json.loads(row.account_tables_binding)
        for row in fetch(connection, _TABLES, {"account": account})
    }


def owner_of(connection: Connection, table: str) -> str | None:
    """The name of the account that a table is bound to; None if it is not bound."""
    return next((str(row.account_tables_account) for row in fetch(connection, _OWNER, {"table": table})), None)


def bound_tables(connection: Connection) -> tuple[tuple[Place, str], ...]:
    """All bound tables, each with the name of its account."""
    rows = fetch(connection, _ALL_TABLES, {})
    return tuple((_bound(str(row.account_tables_identity)), str(row.account_tables_account)) for row in rows)


def bound_outputs(connection: Connection) -> tuple[tuple[Place, str], ...]:
    """All folders of releases, each with the name of its account."""
    rows = fetch(connection, _ALL_OUTPUTS, {})
    return tuple(
        (_bound(output), str(row.accounts_name)) for row in rows for output in json.loads(row.accounts_outputs)
    )


def _bound(identity: str) -> Place:
    """The place of a bound table; an identity from an earlier version that no longer parses is kept as it is."""
    try:
        return Place.parse(identity)
    except InvalidRequest:
        return Place(identity=identity, path=identity)


def key_lists_of(connection: Connection, account: str) -> tuple[KeyList, ...]:
    """The key lists of an account, sorted by name."""
    rows = fetch(connection, _KEY_LISTS, {"account": account})
    return tuple(sorted((key_list_of(row) for row in rows if not is_lookup(row)), key=lambda keys: keys.name))


def registered_names(connection: Connection, account: str) -> frozenset[str]:
    """The names of an account's key lists and lookups."""
    return frozenset(row.key_lists_name for row in fetch(connection, _KEY_LISTS, {"account": account}))


def lookups_of(connection: Connection, account: str) -> tuple[RegisteredLookup, ...]:
    """The lookups of an account, sorted by name."""
    rows = fetch(connection, _KEY_LISTS, {"account": account})
    return tuple(sorted((lookup_of(row) for row in rows if is_lookup(row)), key=lambda one: one.lookup.name))


def run_key(connection: Connection, charge_id: str) -> str | None:
    """The secret of a charge's runs, in hexadecimal digits; None if this role cannot see one."""
    rows = fetch(connection, _RUN_KEY, {"charge": charge_id})
    return str(rows[0].run_keys_run_key) if rows else None


def sub_budgets_of(connection: Connection, account: str) -> tuple[SubBudget, ...]:
    """The sub-budgets of an account, sorted by name."""
    return tuple(sub_budget_of(row) for row in fetch(connection, _ALLOTMENTS, {"account": account}))


def find_sub_budget(connection: Connection, account: str, name: str) -> SubBudget | None:
    """The sub-budget of an account with this name; None if it does not exist."""
    return next((entry for entry in sub_budgets_of(connection, account) if entry.name == name), None)


def get_sub_budget(connection: Connection, account: str, name: str) -> SubBudget:
    """The sub-budget of an account with this name.

    Raises:
        InvalidRequest: no such sub-budget.
    """
    sub_budget = find_sub_budget(connection, account, name)
    if sub_budget is None:
        raise no_sub_budget(account, name)
    return sub_budget


def spent_in(connection: Connection, account: str, blocks: Iterable[str], allotment: str = "") -> Spent:
    """What the account and one of its sub-budgets have spent in those of ``blocks`` that were ever charged."""
    return _spent(fetch(connection, _SPENT, {"account": account, "blocks": list(blocks), "allotment": allotment}))


def all_spent(connection: Connection, account: str) -> Spent:
    """What the account and its sub-budgets have spent in every block that was ever charged."""
    return _spent(fetch(connection, _ALL_SPENT, {"account": account}))


def spent_by_state(connection: Connection, account: Account) -> dict[str, dict[ChargeState, Budget]]:
    """What the charges in each state but ``void`` have spent in each block that they pay from, as exact sums."""
    expression = None if account.blocks is None else canonical(account.blocks.model_dump(mode="json"))
    paid: defaultdict[str, list[Any]] = defaultdict(list)
    for row in fetch(connection, _BY_STATE, {"account": account.name, "void": ChargeState.VOID.value}):
        cost = (row.number, row.charges_epsilon, row.charges_delta, row.charges_rho)
        for block in account.paying(blocks_of(expression, row.charges_blocks)):
            paid[block].append((row.charges_state, *cost))
    sums = cache(_sums_by_state)  # many blocks have paid the same
    return {block: sums(tuple(sorted(costs, key=repr))) for block, costs in paid.items()}


def _sums_by_state(costs: tuple[tuple[str, int, str, str, str | None], ...]) -> dict[ChargeState, Budget]:
    spent: defaultdict[ChargeState, list[Budget]] = defaultdict(list)
    for state, number, *cost in costs:
        spent[ChargeState(state)] += [budget_of(*cost)] * number
    return {state: total(budgets) for state, budgets in spent.items()}


def frozen(connection: Connection) -> str:
    """The reason why the ledger is frozen; empty if it is not frozen."""
    return str(fetch(connection, _FROZEN, {})[0].audit_head_frozen)


def get_charge(connection: Connection, charge_id: str) -> Charge:
    """The charge with this id.

    Raises:
        InvalidRequest: no such charge.
    """
    return charge_in_context(connection, charge_id)[0]


def charge_in_context(connection: Connection, charge_id: str) -> tuple[Charge, bool, str]:
    """The charge with this id, and what a change of the charge depends on.

    The second value is whether each block of its account pays for itself (``unit_stays``), the third is the reason why
    the ledger is frozen (empty if it is not).

    Raises:
        InvalidRequest: no such charge.
    """
    rows = fetch(connection, _CHARGE, {"charge": charge_id})
    if not rows:
        raise InvalidRequest("charge", charge_id, "must be a charge of this ledger", "`dp-budget history` lists them")
    return charge_of(rows[0]), bool(rows[0].accounts_unit_stays), str(rows[0].frozen)


def reserved_before(connection: Connection, moment: str) -> tuple[Charge, ...]:
    """The reservations without a heartbeat since ``moment``, in the order of their reservation."""
    return tuple(charge_of(row) for row in fetch(connection, _RESERVED, {"before": moment}))


def latest_charge(connection: Connection, account: str, release: str) -> Charge | None:
    """The latest charge of a release key; None if the key was never charged."""
    rows = fetch(connection, _LATEST, {"account": account, "release": release})
    return charge_of(rows[0]) if rows else None


def charges_of(connection: Connection, account: str) -> tuple[Charge, ...]:
    """All charges of an account, in the order of their reservation."""
    return tuple(charge_of(row) for row in fetch(connection, _HISTORY, {"account": account}))


_SEES_ALL = """
SELECT NOT row_security_active('audit_log') OR EXISTS (
    SELECT FROM pg_policies WHERE tablename = 'audit_log' AND cmd = 'SELECT' AND qual = 'true' AND EXISTS (
        SELECT FROM unnest(roles) AS granted WHERE CASE granted WHEN 'public' THEN true
        ELSE pg_has_role(granted, 'USAGE') END)) AS yes
"""


def sees_all(connection: Connection) -> bool:
    """Whether row-level security lets this role see every account."""
    return connection.dialect.name != "postgresql" or bool(fetch(connection, _SEES_ALL, {})[0].yes)


def reservation_context(
    connection: Connection, account: str, release: str, blocks: Iterable[str], allotment: str
) -> ReservationContext:
    """What a reservation depends on, read by one query; ``blocks`` must include ``all`` if ``all`` may pay.

    Raises:
        InvalidRequest: no such account.
    """
    parameters = {"account": account, "release": release, "blocks": list(blocks), "allotment": allotment}
    rows = fetch(connection, _RESERVATION_CONTEXT, parameters)
    if not rows:
        raise no_account(account)
    first = rows[0]
    return ReservationContext(
        account=account_of(first),
        sub_budget=None if first.allotments_name is None else sub_budget_of(first),
        spent=_spent(rows),
        latest=None if first.charges_id is None else charge_of(first),
        frozen=str(first.frozen),
    )


def no_account(name: str, known: Iterable[str] = ()) -> InvalidRequest:
    """The error for an account that does not exist; it suggests one of the accounts that the caller can see."""
    return InvalidRequest(
        "account", name, "must be an open account",
        f"`dp-budget show` lists them, `open` opens one{did_you_mean(name, known)}",
    )  # fmt: skip


def no_sub_budget(account: str, name: str) -> InvalidRequest:
    """The error for a sub-budget that does not exist."""
    return InvalidRequest(
        "allotment", name, f"must be a sub-budget of account {account}",
        "`dp-budget allot` creates one; leave it out to charge the account alone",
    )  # fmt: skip


def _spent(rows: Iterable[Any]) -> Spent:
    return {
        (row.block_totals_allotment, row.block_totals_block): budget_of(
            row.block_totals_epsilon, row.block_totals_delta, row.block_totals_rho
        )
        for row in rows
        if row.block_totals_block is not None
    }


def unbound_table(table: str, named: Account | None) -> InvalidRequest:
    """The error for a table that no account has; if it was moved or copied, its people have a budget already."""
    first = "ACCOUNT" if named is None else named.name
    has = "" if named is None else f"; account {named.name} has {', '.join(named.tables) or 'none'}"
    return InvalidRequest(
        "table", table, f"must be bound to an account of the ledger{has}",
        "correct the name; if the table was moved, renamed or copied, its people have an account already: "
        f"`dp-budget bind {first} --table {table}`; open an account only for people who have none",
    )  # fmt: skip
