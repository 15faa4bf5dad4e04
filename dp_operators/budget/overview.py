"""What the pages about accounts show, read by a fixed number of queries, however many blocks and charges there are."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, Select, bindparam, case, cast, func, literal_column, select

from dp_operators.budget.burn_down import RATE_DAYS, BurnDown
from dp_operators.budget.composition import added, fraction_spent, limits_of, zero_cost
from dp_operators.budget.tables.audit import canonical
from dp_operators.budget.tables.mapping import account_of, budget_of, charge_of
from dp_operators.budget.tables.queries import Query, fetch
from dp_operators.budget.tables.rows import no_account, sub_budgets_of
from dp_operators.budget.tables.schema import account_tables, accounts, audit_head, block_totals, charges
from dp_operators.budget.values import ALL, Account, Charge, ChargeState, SubBudget, exact_budget
from spark_jobs.contract.privacy import Budget

_EMPTY: ColumnElement[str] = literal_column("''")
_VOID: ColumnElement[str] = literal_column(f"'{ChargeState.VOID.value}'")
_ESCAPE = "!"
_ANY = "%"
_FIRST_DAY, _NO_LAST_DAY = "0000", "9999"

_day = func.substr(charges.c.reserved_at, literal_column("1"), literal_column("10")).label("day")
_frozen = select(audit_head.c.frozen).scalar_subquery().label("frozen")
# where charges add up across blocks, every charge pays from one
_read = case(
    (accounts.c.unit_stays == literal_column("0"), literal_column(f"""'["{ALL}"]'""")), else_=charges.c.blocks
).label("read")


def _like(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    return column.like(bindparam(name), escape=_ESCAPE)


def _total(column: ColumnElement[str]) -> ColumnElement[float]:
    return func.coalesce(func.sum(cast(column, Float)), literal_column("0"))


_days = (
    select(
        charges.c.account,
        _read,
        _day,
        _total(charges.c.epsilon).label("epsilon"),
        _total(charges.c.delta).label("delta"),
        _total(charges.c.rho).label("rho"),
        func.count().label("number"),
    )
    .join(accounts, accounts.c.name == charges.c.account)
    .where(charges.c.state != _VOID, charges.c.reserved_at >= bindparam("since"))
    .group_by(charges.c.account, _read, _day)
)
_terms = (
    select(accounts, account_tables.c.identity, account_tables.c.binding, _frozen)
    .outerjoin(account_tables, account_tables.c.account == accounts.c.name)
    .order_by(accounts.c.name, account_tables.c.identity)
)
_totals = select(block_totals).where(block_totals.c.allotment == _EMPTY)
_of_account = charges.c.account == bindparam("account")
_wanted = (
    _like(charges.c.state, "state"),
    _like(func.lower(charges.c.release_key + literal_column("' '") + charges.c.actor), "text"),
    charges.c.reserved_at >= bindparam("since"),
    charges.c.reserved_at < bindparam("until"),
)


def _page(*wanted: ColumnElement[bool]) -> Select[Any]:
    ids = select(charges.c.id).where(_of_account, *wanted).order_by(charges.c.entry.desc())
    shown = ids.limit(bindparam("limit")).offset(bindparam("offset")).subquery()
    number = select(func.count()).select_from(charges).where(_of_account, *wanted).scalar_subquery().label("number")
    terms = (accounts.c[name] for name in ("neighbours", "unit_column", "unit_max_rows", "blocks"))
    joined = select(charges, *terms, number).join(accounts, accounts.c.name == charges.c.account)
    return joined.where(charges.c.id.in_(select(shown.c.id))).order_by(charges.c.entry.desc())


_ALL_TERMS = Query(lambda _: _terms)
_TERMS = Query(lambda _: _terms.where(accounts.c.name == bindparam("account")))
_ALL_TOTALS = Query(lambda _: _totals)
_TOTALS = Query(lambda _: _totals.where(block_totals.c.account == bindparam("account")))
_ALL_DAYS = Query(lambda _: _days)
_DAYS = Query(
    lambda _: _days.where(
        _of_account,
        # a range may contain the block; the rest is decided in Python
        _like(_read, "block") | _read.like(literal_column("'%..%'")),
    )
)
_PAGE = Query(lambda _: _page())
_FILTERED_PAGE = Query(lambda _: _page(*_wanted))


@dataclass(frozen=True, kw_only=True)
class ChargeFilter:
    """Which charges of an account to read, newest first.

    Attributes:
        state: their state; None for all.
        text: a part of the release key or of the actor's name, in upper or lower case.
        since, until: the first and the last day (UTC) of their reservation.
        limit, offset: the most charges to read, and how many of the newest to skip.
    """

    state: ChargeState | None = None
    text: str = ""
    since: date | None = None
    until: date | None = None
    limit: int = 50
    offset: int = 0

    @property
    def narrows(self) -> bool:
        """Whether the filter can leave out charges, apart from ``limit`` and ``offset``."""
        return bool(self.state or self.text or self.since or self.until)

    def parameters(self) -> dict[str, Any]:
        """The parameters of the query."""
        return {
            "state": _ANY if self.state is None else self.state.value,
            "text": f"%{_escaped(self.text.lower())}%",
            "since": _FIRST_DAY if self.since is None else self.since.isoformat(),
            "until": _NO_LAST_DAY if self.until is None or self.until == date.max else _next(self.until),
            "limit": self.limit,
            "offset": self.offset,
        }


@dataclass(frozen=True, kw_only=True)
class ChargePage:
    """Some charges of an account, newest first, and how many there are in all."""

    charges: tuple[Charge, ...]
    number: int


@dataclass(frozen=True, kw_only=True)
class AccountOverview:
    """An account and how its budget is used up.

    Attributes:
        account: the account.
        spent: what is spent in each block that was charged, in the order of the blocks; before the first charge, one
            entry for ``all``, which stands for any block.
        tightest: the block with the least budget left.
        burn_down: how the share that the tightest block has left went down.
        frozen: the reason why the ledger is frozen; empty if it is not frozen.
    """

    account: Account
    spent: Mapping[str, Budget]
    tightest: str
    burn_down: BurnDown
    frozen: str


def overviews(connection: Connection, today: date) -> tuple[AccountOverview, ...]:
    """All accounts, sorted by name, by three queries; their burn-down goes back ``RATE_DAYS`` days."""
    since = today - timedelta(days=RATE_DAYS)
    totals: defaultdict[str, list[Any]] = defaultdict(list)
    days: defaultdict[str, list[Any]] = defaultdict(list)
    described = _accounts(fetch(connection, _ALL_TERMS, {}))
    for row in fetch(connection, _ALL_TOTALS, {}):
        totals[row.block_totals_account].append(row)
    for row in fetch(connection, _ALL_DAYS, {"since": since.isoformat()}):
        days[row.charges_account].append(row)
    return tuple(
        _overview(account, _spent(account, totals[account.name]), frozen, days[account.name], since, today)
        for account, frozen in described
    )


def overview(connection: Connection, name: str, today: date) -> tuple[AccountOverview, tuple[SubBudget, ...]]:
    """One account with its sub-budgets, by four queries; its burn-down begins when it was opened.

    Raises:
        InvalidRequest: there is no such account.
    """
    described = _accounts(fetch(connection, _TERMS, {"account": name}))
    if not described:
        raise no_account(name)
    [(account, frozen)] = described
    spent = _spent(account, fetch(connection, _TOTALS, {"account": name}))
    block = f"%{_escaped(canonical(_tightest(account, spent)))}%"
    days = fetch(connection, _DAYS, {"account": name, "since": _FIRST_DAY, "block": block})
    opened = date.fromisoformat(account.opened_at[:10])
    return _overview(account, spent, frozen, days, opened, today), sub_budgets_of(connection, name)


def charge_page(connection: Connection, name: str, wanted: ChargeFilter) -> ChargePage:
    """The charges of an account that match the filter, by one query."""
    rows = fetch(connection, _FILTERED_PAGE if wanted.narrows else _PAGE, {"account": name, **wanted.parameters()})
    return ChargePage(charges=tuple(map(charge_of, rows)), number=rows[0].number if rows else 0)


def _accounts(rows: Iterable[Any]) -> list[tuple[Account, str]]:
    """The accounts in rows with one bound table each, and why the ledger is frozen."""
    by_name: dict[str, tuple[Account, str]] = {}
    bound: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for row in rows:
        name = row.accounts_name
        if name not in by_name:
            by_name[name] = account_of(row), str(row.frozen)
        if row.account_tables_identity is not None:
            bound[name][row.account_tables_identity] = row.account_tables_binding
    return [(replace(account, **_tables(bound[name])), frozen) for name, (account, frozen) in by_name.items()]


def _tables(bound: Mapping[str, str | None]) -> dict[str, Any]:
    known = {table: json.loads(binding) for table, binding in bound.items() if binding is not None}
    return {"tables": tuple(sorted(bound)), "bindings": known}


def _spent(account: Account, rows: Iterable[Any]) -> dict[str, Budget]:
    by_block = account.blocks is not None and account.unit_stays
    parsed = cache(budget_of)  # many blocks have spent the same
    spent = {
        row.block_totals_block: parsed(row.block_totals_epsilon, row.block_totals_delta, row.block_totals_rho)
        for row in rows
        if row.block_totals_block != ALL or not by_block
    }
    return dict(sorted(spent.items())) or {ALL: zero_cost(account.composition)}


def _tightest(account: Account, spent: Mapping[str, Budget]) -> str:
    limits = limits_of(account.composition, account.cap, account.slack)
    distinct = {id(total): total for total in spent.values()}
    shares = {number: fraction_spent(limits, total) for number, total in distinct.items()}
    return max(spent, key=lambda block: (shares[id(spent[block])], block))


def _overview(
    account: Account, spent: Mapping[str, Budget], frozen: str, days: Sequence[Any], since: date, today: date
) -> AccountOverview:
    tightest = _tightest(account, spent)
    of_day: dict[date, Budget] = {}
    numbers: defaultdict[date, int] = defaultdict(int)
    for row in days:
        names = json.loads(row.read)
        if ".." in row.read and account.blocks is not None:
            names = account.blocks.expand(names)
        if tightest in names:
            day = date.fromisoformat(row.day)
            cost = exact_budget(*(Decimal(str(amount)) for amount in (row.epsilon, row.delta, row.rho)))
            numbers[day] += row.number
            of_day[day] = added(of_day[day], cost) if day in of_day else cost
    return AccountOverview(
        account=account,
        spent=spent,
        tightest=tightest,
        burn_down=BurnDown.of(
            limits_of(account.composition, account.cap, account.slack),
            spent[tightest],
            dict(sorted(of_day.items())),
            since=since,
            today=today,
            opened=date.fromisoformat(account.opened_at[:10]),
            charges=numbers,
        ),
        frozen=frozen,
    )


def _next(day: date) -> str:
    return (day + timedelta(days=1)).isoformat()


def _escaped(text: str) -> str:
    for special in (_ESCAPE, "%", "_"):
        text = text.replace(special, f"{_ESCAPE}{special}")
    return text
