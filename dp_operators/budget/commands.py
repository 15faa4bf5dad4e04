"""``dp-budget``'s commands for whoever answers for the ledger: caps, allotments, copies of the log, restores, moves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dp_operators.budget import reports
from dp_operators.budget.cli import (
    AnAccount,
    Columns,
    Form,
    LedgerUrl,
    PublicColumns,
    Schema,
    Tight,
    VersionColumns,
    VersionFolders,
    Yes,
    account_json,
    confirm,
    open_ledger,
    user,
)
from dp_operators.budget.grants import grants
from dp_operators.budget.table_schemas import binding_of
from dp_operators.budget.values import Account
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.privacy import plain

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Reason = Annotated[str, typer.Option(help="Why; it goes into the audit log.")]
Actor = Annotated[str | None, typer.Option(help="Who answers for it; the user of this machine if not given.")]
Amount = Annotated[str | None, typer.Option(help="What is not given stays as it is.")]


@app.command("raise")
def raise_cap(
    account: AnAccount,
    reason: Reason,
    epsilon: Amount = None,
    delta: Amount = None,
    rho: Amount = None,
    allotment: Annotated[str | None, typer.Option(help="Raise the cap of this allotment instead.")] = None,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Raise the cap of an account, or of an allotment in it; no cap is ever lowered."""
    raised = open_ledger(ledger).raise_cap(
        account,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        allotment=allotment,
        actor=_actor(actor),
        reason=reason,
    )
    what = "account" if isinstance(raised, Account) else "allotment"
    typer.echo(f"{what} {raised.name} has a cap of epsilon {plain(raised.cap.epsilon)}")


@app.command()
def bind(
    account: AnAccount,
    reason: Reason,
    table: Annotated[str | None, typer.Option(help="The table; may be left out where the account has one.")] = None,
    schema: Schema = None,
    columns: Columns = None,
    form: Form = None,
    version_column: VersionColumns = None,
    version_folders: VersionFolders = None,
    public_column: PublicColumns = None,
    yes: Yes = False,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Bind what a table of an account is: columns, types, versions, public columns; columns can be added later.

    Nothing can be charged to an account for a table without its columns. What is not given stays as it was bound.
    """
    opened = open_ledger(ledger)
    known = opened.account(account)
    if table is None and len(known.tables) != 1:
        raise InvalidRequest(
            "table", requirement=f"must be named, for account {account} has {', '.join(known.tables) or 'none'}",
            remedy="name it by --table",
        )  # fmt: skip
    identity = Place.parse(known.tables[0] if table is None else table, what="table").identity
    binding = binding_of(
        identity,
        schema=schema,
        columns=columns,
        form=form,
        version_columns=version_column or (),
        version_folders=version_folders,
        public_columns=public_column or (),
        before=known.bindings.get(identity),
    )
    confirm(binding, yes=yes)
    opened.bind_table(account, binding, actor=_actor(actor), reason=reason)
    typer.echo(f"table {identity} is bound to account {account} with {len(binding.columns)} columns")


@app.command()
def allot(
    account: AnAccount,
    name: Annotated[str, typer.Argument(help="The allotment's name: a team's, or a DAG's.")],
    epsilon: Annotated[str | None, typer.Option(help="Its cap.")] = None,
    delta: Annotated[str | None, typer.Option(help="Its cap's delta, for approximate accounts.")] = None,
    rho: Annotated[str | None, typer.Option(help="Its cap, for zcdp accounts, instead of epsilon.")] = None,
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Make an allotment: a cap of its own within an account; a charge to it must fit both."""
    sub_budget = open_ledger(ledger).allot(
        account, name, epsilon=epsilon, delta=delta, rho=rho, actor=_actor(actor), reason=reason
    )
    typer.echo(f"allotment {sub_budget.name} of account {account} has a cap of epsilon {plain(sub_budget.cap.epsilon)}")


@app.command("bind-outputs")
def bind_outputs(
    account: AnAccount,
    output: Annotated[list[str], typer.Argument(help="Folders or URIs: all that its releases may go to from now on.")],
    reason: Reason,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Say where an account's releases may go; the folders of other accounts, and tables, are refused."""
    bound = open_ledger(ledger).bind_outputs(account, output, actor=_actor(actor), reason=reason)
    typer.echo(f"releases of account {bound.name} go to {', '.join(bound.outputs)}")


@app.command()
def export(
    form: Annotated[str, typer.Option("--format", help="csv (the audit log) or json (everything).")] = "json",
    output: Annotated[Path | None, typer.Option(help="File to write; standard output if not given.")] = None,
    tight: Tight = False,
    ledger: LedgerUrl = None,
) -> None:
    """Write the audit log, and as JSON the accounts and charges too, for an auditor."""
    opened = open_ledger(ledger)
    if form == "csv":
        text = reports.log_csv(opened.log())
    elif form == "json":
        accounts = [account_json(opened, account, tight=tight) for account in opened.accounts()]
        charges = [charge for account in opened.accounts() for charge in opened.history(account.name)]
        text = reports.ledger_json(opened.head(), accounts, charges, opened.log())
    else:
        raise InvalidRequest("format", value=form, requirement="must be csv or json", remedy="choose one")
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidRequest(
            "output", value=str(output), requirement="must be a file that can be written", remedy=type(error).__name__
        ) from None
    typer.echo(f"wrote {output}")


@app.command()
def freeze(reason: Reason, actor: Actor = None, ledger: LedgerUrl = None) -> None:
    """Let nothing be written until `thaw`: the first thing to do with a ledger that was restored from a backup."""
    opened = open_ledger(ledger)
    opened.freeze(actor=_actor(actor), reason=reason)
    typer.echo(f"the ledger {opened.name} is frozen")


@app.command()
def thaw(reason: Reason, actor: Actor = None, ledger: LedgerUrl = None) -> None:
    """Let everything be written again, once every folder of releases is reconciled."""
    opened = open_ledger(ledger)
    opened.thaw(actor=_actor(actor), reason=reason)
    typer.echo(f"the ledger {opened.name} may be written")


@app.command()
def move(
    to: Annotated[str, typer.Option(envvar="DP_LEDGER_TO", help="URL of the new, empty database.")],
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Move the ledger to another database, as from SQLite to PostgreSQL; the old one stays, frozen."""
    from dp_operators.budget.transfer import move as moved

    target = open_ledger(to)
    head = moved(open_ledger(ledger), target, actor=_actor(actor))
    typer.echo(f"the ledger is {target.name} now, sound up to entry {head.seq}, {head.hash}")


@app.command("grants")
def show_grants(
    role: Annotated[str, typer.Argument(help="A role of the PostgreSQL server.")],
    may: Annotated[str, typer.Option(help="view, charge or administer.")],
    account: Annotated[str | None, typer.Option(help="The one account it is about; all of them if not given.")] = None,
    allotment: Annotated[
        str | None, typer.Option(help="The one allotment of the account that may be charged: for the role of a team.")
    ] = None,
) -> None:
    """Print the SQL that lets a role of the server do its part, and nothing else."""
    typer.echo("\n".join(grants(role, may, account=account, allotment=allotment)))


def _actor(given: str | None) -> str:
    return user() if given is None else given
