"""``dp-budget keys``: public lists of group keys, registered by an administrator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dp_operators.budget.cli import Actor, AnAccount, LedgerUrl, actor_or_user, open_ledger
from spark_jobs.contract.public_groups import KeyFile, read_keys

app = typer.Typer(
    help="Public lists of group keys that requests may name, registered by an administrator.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

_Name = Annotated[str, typer.Argument(help="The list's name in the account.")]


@app.command()
def register(
    account: AnAccount,
    name: _Name,
    file: Annotated[
        str,
        typer.Argument(
            help="A public file: made without the table, or released. It is a .csv with a header, .json or .parquet."
        ),
    ],
    column: Annotated[str | None, typer.Option(help="The column of keys, if the file has several columns.")] = None,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Register the keys in a file; repeating the command changes nothing, and a list is never changed."""
    keys = read_keys(KeyFile(path=file if "://" in file else str(Path(file).absolute()), column=column))
    key_list = open_ledger(ledger).register_keys(account, name, keys, actor=actor_or_user(actor))
    typer.echo(
        f"list {key_list.name} of account {key_list.account} has {len(key_list.keys)} keys, sha256 {key_list.sha256}"
    )


@app.command("list")
def list_keys(account: AnAccount, ledger: LedgerUrl = None) -> None:
    """List the key lists that are registered for an account."""
    for key_list in open_ledger(ledger).key_lists(account):
        registered = f"sha256 {key_list.sha256}, registered by {key_list.registered_by}"
        typer.echo(f"{key_list.name}: {len(key_list.keys)} keys, {registered}")


@app.command("show")
def show_keys(account: AnAccount, name: _Name, ledger: LedgerUrl = None) -> None:
    """Print the keys of a list, one a line."""
    typer.echo("\n".join(str(key) for key in open_ledger(ledger).key_list(account, name).keys))
