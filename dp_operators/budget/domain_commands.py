"""``dp-budget domains``: what the columns of an account's tables may hold."""

from __future__ import annotations

from typing import Annotated

import typer

from dp_operators.budget.cli import Actor, AnAccount, LedgerUrl, actor_or_user, open_ledger
from dp_operators.budget.table_schemas import column_lines
from dp_operators.budget.values import Account
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.column_text import domain_of
from spark_jobs.contract.domains import Domain
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def domains(
    account: AnAccount,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A column and what it may hold: 'age between 0 and 120'; may be repeated."),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column that loses its domain; may be repeated.")] = None,
    table: Annotated[str | None, typer.Option(help="The table; by default the account's only table.")] = None,
    reason: Annotated[
        str | None, typer.Option(help="Why; it is written into the audit log. Needed for a change.")
    ] = None,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Show what the columns of an account's tables may hold, or change it.

    A domain is public knowledge, such as the possible answers of a questionnaire; it must not be read from the table's
    rows. A stream or a release that has begun keeps the domains that it began with.
    """
    opened = open_ledger(ledger)
    known = opened.account(account)
    changes = changed_domains(set_ or (), drop or ())
    if changes:
        if not reason:
            raise InvalidRequest("reason", None, "is required for a change", "say why with --reason")
        identity = table_of(known, table)
        known = opened.change_domains(account, identity, changes, actor=actor_or_user(actor), reason=reason)
    for identity in known.tables if table is None else (table_of(known, table),):
        typer.echo(f"table {identity}")
        binding = known.bindings.get(identity)
        lines = ["  no columns are bound yet"] if binding is None else column_lines(TableBinding.parse(binding))
        typer.echo("\n".join(lines))


def changed_domains(set_: list[str] | tuple[()], drop: list[str] | tuple[()]) -> dict[str, Domain | None]:
    """The changes of domains that the command's options ask for.

    Raises:
        InvalidRequest: an option is not a column with its domain, or a column is named twice.
    """
    given: list[tuple[str, Domain | None]] = [*map(domain_of, set_), *((name, None) for name in drop)]
    changes = dict(given)
    if len(changes) < len(given):
        raise InvalidRequest("domain", None, "must be given once for each column", "leave out the repeated domain")
    return changes


def table_of(account: Account, table: str | None) -> str:
    """The identity of the named table, or of the account's only one.

    Raises:
        InvalidRequest: the account has several tables, or none, and none is named.
    """
    if table is None and len(account.tables) != 1:
        raise InvalidRequest(
            "table", None, f"must be given: account {account.name} has {', '.join(account.tables) or 'no table'}",
            "name it with --table",
        )  # fmt: skip
    return Place.parse(account.tables[0] if table is None else table, what="table").identity
