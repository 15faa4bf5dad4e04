"""``dp-budget keys``: lists of groups that an administrator answers for being public."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dp_operators.budget.cli import AnAccount, LedgerUrl, open_ledger, user
from spark_jobs.contract.public_groups import KeyFile, read_keys

app = typer.Typer(
    help="Lists of keys of groups that requests may name: public ones, which an administrator registers.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

_Name = Annotated[str, typer.Argument(help="The list's name in the account.")]


@app.command()
def register(
    account: AnAccount,
    name: _Name,
    file: Annotated[
        str, typer.Argument(help="A public file made without the table: .csv with a header, .json or .parquet.")
    ],
    column: Annotated[str | None, typer.Option(help="Its column of keys, where it has several.")] = None,
    actor: Annotated[
        str | None, typer.Option(help="Who answers for it; the user of this machine if not given.")
    ] = None,
    ledger: LedgerUrl = None,
) -> None:
    """Register the keys in a file; the same list again is found, and a list is never changed."""
    keys = read_keys(KeyFile(path=file if "://" in file else str(Path(file).absolute()), column=column))
    key_list = open_ledger(ledger).register_keys(account, name, keys, actor=user() if actor is None else actor)
    typer.echo(
        f"list {key_list.name} of account {key_list.account} has {len(key_list.keys)} keys, sha256 {key_list.sha256}"
    )


@app.command("list")
def list_keys(account: AnAccount, ledger: LedgerUrl = None) -> None:
    """List what is registered for an account."""
    for key_list in open_ledger(ledger).key_lists(account):
        registered = f"sha256 {key_list.sha256}, registered by {key_list.registered_by}"
        typer.echo(f"{key_list.name}: {len(key_list.keys)} keys, {registered}")


@app.command("show")
def show_keys(account: AnAccount, name: _Name, ledger: LedgerUrl = None) -> None:
    """Print the keys of a list, one a line."""
    typer.echo("\n".join(str(key) for key in open_ledger(ledger).key_list(account, name).keys))
