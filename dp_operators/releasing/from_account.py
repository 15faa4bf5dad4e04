"""The parts of a request that its account fixes: the payer, table, output, privacy unit, neighbours and blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.bound_columns import BoundColumn
from spark_jobs.contract.domain_checks import Domains, require_period
from spark_jobs.contract.domains import ListedValues
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import ALL, INTERVAL, BlockBy, BlockExpression
from spark_jobs.contract.places import CATALOG, DATABASE, Place
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.table_request import TableRequest

if TYPE_CHECKING:
    from dp_operators.budget import Account, PrivacyLedger


def account_of(fields: Mapping[str, Any], ledger: PrivacyLedger) -> Account:
    """The account that a request names, to which its table must be bound.

    Raises:
        InvalidRequest: the request names no account, there is no such account, or the table is bound to no account or
            to another one.
        LedgerUnavailable: the ledger cannot be reached.
    """
    if fields.get("account") is None:
        raise InvalidRequest("account", None, "is required", "name the ledger account that pays")
    account = ledger.account(fields["account"])
    place = _named_table(fields)
    if place is None:
        return account
    bound_to = ledger.account_for_table(place.identity, named=account)
    if bound_to.name != account.name:
        raise InvalidRequest(
            "account", account.name, f"table {place.identity} is bound to account {bound_to.name}",
            "name that account, or another table",
        )  # fmt: skip
    return account


def from_account(fields: Mapping[str, Any], account: Account) -> dict[str, Any]:
    """The fields of a request, completed with the missing ones that its account fixes.

    Raises:
        InvalidRequest: the account has several tables or outputs, or none.
    """
    filled = dict(fields)
    if _named_table(fields) is None and isinstance(fields.get("table", {}), Mapping):
        identity = _only("table", account.tables, account)
        filled["table"] = {**fields.get("table", {}), **_names(identity)}
    if fields.get("output") is None:
        filled["output"] = _only("output", account.outputs, account)
    if fields.get("neighbours") is None:
        filled["neighbours"] = account.neighbours.value
    unit = fields.get("unit")
    own = account.unit.model_dump(mode="json")
    if unit is None:
        filled["unit"] = own
    elif isinstance(unit, Mapping) and unit.get("max_rows") is None and unit.get("column") == account.unit.column:
        filled["unit"] = {**unit, "max_rows": own["max_rows"]}
    return filled


def lists_of(columns: Iterable[BoundColumn], account: Account, ledger: PrivacyLedger) -> dict[str, tuple[Any, ...]]:
    """The keys of the registered lists that the domains of columns name.

    Raises:
        InvalidRequest: a list is not registered.
        LedgerUnavailable: the ledger cannot be reached.
    """
    named = {c.domain.list for c in columns if isinstance(c.domain, ListedValues) and c.domain.list is not None}
    return {name: ledger.key_list(account.name, name).keys for name in sorted(named)}


def blocks_on(
    request: TableRequest, account: Account, domains: Domains
) -> tuple[tuple[str, ...], BlockExpression | None]:
    """The blocks of a request, as its account has them, and the expression that assigns rows to blocks.

    Raises:
        InvalidRequest: the blocks are not the account's, the request gives an expression that is not the account's, or
            the blocks or the stream lie outside the period of the time column.
    """
    if request.block_expression not in (None, account.blocks):
        raise InvalidRequest(
            "block_expression", str(request.block_expression),
            f"must be that of account {account.name}, which is {account.blocks or 'none'}",
            "leave it out: it is filled in from the account",
        )  # fmt: skip
    blocks = request.blocks
    if isinstance(request, StreamRequest):
        begins, ends = request.first_instant, request.last_instant
        require_period(request.time, begins, ends, domains, "start")
        if blocks == (INTERVAL,):
            blocks = interval_blocks(account, begins, ends)
    account.require_blocks(tuple(sorted(set(blocks))))
    expression = None if blocks == (ALL,) else account.blocks
    if expression is not None and expression.by is not BlockBy.VALUE:
        for begins, ends in expression.spans(blocks):
            require_period(expression.column, begins, ends, domains, "blocks")
    return blocks, expression


def interval_blocks(account: Account, start: datetime | None, end: datetime | None) -> tuple[str, ...]:
    """The blocks of ``account`` that together cover a run's data interval.

    Raises:
        InvalidRequest: the run has no interval, the account has no blocks by time, or a block is only partly
            in the interval.
    """
    if account.blocks is None:
        raise InvalidRequest(
            "blocks", INTERVAL, f"needs an account with blocks by time, and account {account.name} has one block",
            f"name {ALL!r}",
        )  # fmt: skip
    if start is None or end is None or start == end:
        raise InvalidRequest(
            "blocks", INTERVAL, "needs a scheduled, backfilled or partitioned run; this run has no data interval",
            "let the DAG's schedule or a backfill run it, give the run a partition key, or name the blocks",
        )  # fmt: skip
    return account.blocks.covering(start, end)


def _named_table(fields: Mapping[str, Any]) -> Place | None:
    """The table that a request names; None if it names none, or has no table that could be read."""
    table = fields.get("table")
    if not isinstance(table, Mapping):
        return None
    if table.get("path") is not None:
        return Place.of_folder(str(table["path"]))
    if table.get("name") is None:
        return None
    name = str(table["name"])
    return Place.of_database(name) if name.startswith(DATABASE) else Place.of_catalog(name)


def _names(identity: str) -> dict[str, str]:
    """The field of a request's table that names it."""
    if identity.startswith(CATALOG):
        return {"name": identity.removeprefix(CATALOG)}
    return {"name" if identity.startswith(DATABASE) else "path": identity}


def _only(what: str, names: tuple[str, ...], account: Account) -> str:
    if len(names) == 1:
        return names[0]
    has = f"has {', '.join(names)}" if names else f"is bound to no {what}"
    remedy = (
        f"name one as {what}" if names else f"have one bound: `dp-budget bind{'-outputs' if what == 'output' else ''}`"
    )
    raise InvalidRequest(what, None, f"is required: account {account.name} {has}", remedy)
