"""``dp-budget lookup``: public lookups, registered by an administrator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dp_operators.budget.cli import Actor, AnAccount, LedgerUrl, actor_or_user, open_ledger
from dp_operators.budget.values import RegisteredLookup
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.public_tables import read_lookup

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def lookup(
    account: AnAccount,
    name: Annotated[
        str | None, typer.Argument(help="The lookup's name in the account; by default, all are listed.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Argument(
            help="A public file to register, made without the table: a .csv with a header, .json or .parquet, with one "
            "row for each key. Without it, the lookup is printed."
        ),
    ] = None,
    key: Annotated[str | None, typer.Option(help="The file's column of keys; the first of two by default.")] = None,
    value: Annotated[
        str | None, typer.Option(help="The file's column of values; the second of two by default.")
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option("--hash", help="The SHA-256 that the lookup must have; the command prints that of each lookup."),
    ] = None,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Register a public lookup, a value for each key, by which requests group rows; or show the registered ones.

    SQL names it in JOIN, and other requests as `lookup` of a dimension. Repeating the command changes nothing, and a
    lookup is never changed.
    """
    opened = open_ledger(ledger)
    if name is None or file is None:
        if any(option is not None for option in (key, value, sha256)):
            raise InvalidRequest("file", None, "is required with these options", "name the file to register")
        known = opened.lookups(account) if name is None else (opened.lookup(account, name),)
        lines = [one_line(one) for one in known]
        if name is not None:
            lines += [f"{entry[0]}\t{entry[1]}" for entry in known[0].lookup.entries]
        typer.echo("\n".join(lines) if lines else f"account {account} has no lookups")
        return
    content = read_lookup(file if "://" in file else str(Path(file).absolute()), key=key, value=value)
    given = {"name": name, **content, **({} if sha256 is None else {"sha256": sha256})}
    typer.echo(one_line(opened.register_lookup(account, given, actor=actor_or_user(actor))))


def one_line(registered: RegisteredLookup) -> str:
    """A lookup in one line."""
    of = registered.lookup
    return (
        f"lookup {of.name} of account {registered.account}: {len(of.entries):,} keys, {of.key} to {of.value} "
        f"({len(of.levels):,} values), sha256 {of.sha256}, registered by {registered.registered_by}"
    )
