"""The commands of ``dp-budget`` for the ledger's administrator: caps, bindings, exports, freezes, moves and grants."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dp_operators.budget import reports
from dp_operators.budget.cli import (
    Actor,
    AnAccount,
    Described,
    LedgerUrl,
    Rho,
    Tight,
    Yes,
    account_json,
    actor_or_user,
    confirm,
    open_ledger,
)
from dp_operators.budget.domain_commands import table_of
from dp_operators.budget.option_groups import with_option_groups
from dp_operators.budget.table_schemas import binding_of
from dp_operators.budget.tables.grants import grants
from dp_operators.budget.values import Account
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import plain

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Reason = Annotated[str, typer.Option(help="Why; it is written into the audit log.")]
Amount = Annotated[str | None, typer.Option(help="The new amount; by default it stays as it is.")]


@app.command("raise")
def raise_cap(
    account: AnAccount,
    reason: Reason,
    epsilon: Amount = None,
    delta: Amount = None,
    rho: Amount = None,
    allotment: Annotated[str | None, typer.Option(help="The sub-budget whose cap is raised instead.")] = None,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Raise the cap of an account or of one of its sub-budgets; a cap is never lowered."""
    raised = open_ledger(ledger).raise_cap(
        account,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        allotment=allotment,
        actor=actor_or_user(actor),
        reason=reason,
    )
    what = "account" if isinstance(raised, Account) else "sub-budget"
    typer.echo(f"{what} {raised.name} has a cap of epsilon {plain(raised.cap.epsilon)}")


@app.command()
@with_option_groups
def bind(
    account: AnAccount,
    reason: Reason,
    *,
    table: Annotated[str | None, typer.Option(help="The table; by default the account's only table.")] = None,
    described: Described,
    yes: Yes = False,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Bind the description of a table: columns, types, versions, public columns, facts; some can be added later.

    A table must be described before it can be charged. Options that are not given leave the earlier binding as it is.
    """
    opened = open_ledger(ledger)
    known = opened.account(account)
    identity = table_of(known, table)
    binding = binding_of(
        identity,
        **described.given(),
        before=known.bindings.get(identity),
    )
    confirm(binding, yes=yes)
    opened.bind_table(account, binding, actor=actor_or_user(actor), reason=reason)
    typer.echo(f"table {identity} is bound to account {account} with {len(binding.columns)} columns")


@app.command()
def allot(
    account: AnAccount,
    name: Annotated[str, typer.Argument(help="The sub-budget's name, such as a team or a DAG.")],
    epsilon: Annotated[str | None, typer.Option(help="Its cap.")] = None,
    delta: Annotated[str | None, typer.Option(help="Its cap's delta, in an approximate account.")] = None,
    rho: Rho = None,
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Create a sub-budget: a cap within an account; a charge to it must fit in both."""
    sub_budget = open_ledger(ledger).allot(
        account, name, epsilon=epsilon, delta=delta, rho=rho, actor=actor_or_user(actor), reason=reason
    )
    typer.echo(
        f"sub-budget {sub_budget.name} of account {account} has a cap of epsilon {plain(sub_budget.cap.epsilon)}"
    )


@app.command("bind-outputs")
def bind_outputs(
    account: AnAccount,
    output: Annotated[
        list[str], typer.Argument(help="All folders or URIs that its releases may be written to from now on.")
    ],
    reason: Reason,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Bind the folders for an account's releases; folders of other accounts, and tables, are rejected."""
    bound = open_ledger(ledger).bind_outputs(account, output, actor=actor_or_user(actor), reason=reason)
    typer.echo(f"releases of account {bound.name} go to {', '.join(bound.outputs)}")


@app.command()
def approvals(
    account: AnAccount,
    by_requester: Annotated[
        bool,
        typer.Option(
            "--by-requester/--not-by-requester", help="Whether a person may approve the cap that they asked for."
        ),
    ],
    reason: Reason,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Say whether a person may approve the higher cap that they asked for themselves; by default they may not."""
    changed = open_ledger(ledger).set_approvals(
        account, requester_approves=by_requester, actor=actor_or_user(actor), reason=reason
    )
    may = "may" if changed.requester_approves else "may not"
    typer.echo(f"whoever asks for a higher cap of account {changed.name} {may} approve it")


@app.command()
def export(
    form: Annotated[str, typer.Option("--format", help="csv (the audit log) or json (everything).")] = "json",
    output: Annotated[Path | None, typer.Option(help="The file to write; by default standard output.")] = None,
    tight: Tight = False,
    ledger: LedgerUrl = None,
) -> None:
    """Write the audit log, and in JSON also the accounts and charges, for an auditor."""
    opened = open_ledger(ledger)
    if form == "csv":
        text = reports.log_csv(opened.log())
    elif form == "json":
        accounts = [account_json(opened, account, tight=tight) for account in opened.accounts()]
        charges = [charge for account in opened.accounts() for charge in opened.history(account.name)]
        text = reports.ledger_json(opened.head(), accounts, charges, opened.log())
    else:
        raise InvalidRequest("format", form, "must be csv or json", "choose one")
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise InvalidRequest("output", str(output), "must be a writable file", type(error).__name__) from None
    typer.echo(f"wrote {output}")


@app.command()
def freeze(reason: Reason, actor: Actor = None, ledger: LedgerUrl = None) -> None:
    """Reject every change until `thaw`: the first step after a ledger was restored from a backup."""
    opened = open_ledger(ledger)
    opened.freeze(actor=actor_or_user(actor), reason=reason)
    typer.echo(f"the ledger {opened.name} is frozen")


@app.command()
def thaw(reason: Reason, actor: Actor = None, ledger: LedgerUrl = None) -> None:
    """Allow changes again, once every folder of releases is reconciled."""
    opened = open_ledger(ledger)
    opened.thaw(actor=actor_or_user(actor), reason=reason)
    typer.echo(f"the ledger {opened.name} is no longer frozen")


@app.command()
def move(
    to: Annotated[str, typer.Option(envvar="DP_LEDGER_TO", help="URL of the new, empty database.")],
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Move the ledger to another database, such as from SQLite to PostgreSQL; the old one is never live again."""
    from dp_operators.budget.transfer import move as moved

    target = open_ledger(to)
    head = moved(open_ledger(ledger), target, actor=actor_or_user(actor))
    typer.echo(f"the ledger is now {target.name}, sound up to entry {head.seq}, {head.hash}")


@app.command("grants")
def show_grants(
    role: Annotated[str, typer.Argument(help="A role of the PostgreSQL server.")],
    may: Annotated[str, typer.Option(help="view, charge or administer.")],
    account: Annotated[
        str | None, typer.Option(help="The one account that the role may use; by default all accounts.")
    ] = None,
    allotment: Annotated[
        str | None, typer.Option(help="The one sub-budget of the account that the role may charge.")
    ] = None,
) -> None:
    """Print the SQL that grants a role of the database server the privileges that it needs, and no others."""
    typer.echo("\n".join(grants(role, may, account=account, allotment=allotment)))
