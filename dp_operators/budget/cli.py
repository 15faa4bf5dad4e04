"""``dp-budget``: the ledger on the command line."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Sequence
from enum import IntEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from dp_operators.budget import reports
from dp_operators.budget.composition import APPROXIMATE
from dp_operators.budget.errors import LedgerUnavailable
from dp_operators.budget.ledger import PrivacyLedger
from dp_operators.budget.table_schemas import binding_of, shown
from dp_operators.budget.values import Account
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import PrivacyUnit, plain

URL_VARIABLE = "DP_LEDGER_URL"
DISTRIBUTION = "airflow-provider-dp-diagnostics"


class Exit(IntEnum):
    """How ``dp-budget`` ends; a signal ends it with 128 and its number."""

    DONE = 0
    FAILED = 1
    REFUSED = 2
    UNAVAILABLE = 3


app = typer.Typer(
    name="dp-budget",
    help="The privacy ledger: accounts, what they may spend, and what they have spent.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def show_version(wanted: bool) -> None:
    """Print the version of the program and end, where it is asked for."""
    if wanted:
        typer.echo(f"dp-budget {version(DISTRIBUTION)}")
        raise typer.Exit


LedgerUrl = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar=URL_VARIABLE,
        help="URL of the ledger. Prefer the variable: others see a command line, and the password in it.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Tight = Annotated[
    bool, typer.Option("--tight", help="Tell too what all charges cost if decided beforehand; for information only.")
]
AnAccount = Annotated[str, typer.Argument(help="The account's name.")]
Schema = Annotated[
    Path | None,
    typer.Option(help="What has the table's columns: a Parquet file or folder, a csv file, or a JSON file of them."),
]
Columns = Annotated[str | None, typer.Option(help="The columns with their types: 'id int, paid decimal(10,2)'.")]
Form = Annotated[str | None, typer.Option("--format", help="parquet, csv or catalog; by default the schema's.")]
VersionColumns = Annotated[
    list[str] | None, typer.Option("--version-column", help="A partition column that is the version; may be repeated.")
]
VersionFolders = Annotated[
    int | None, typer.Option(help="How many folders deep a version lies below the table; 1 by default.", min=1)
]
PublicColumns = Annotated[
    list[str] | None,
    typer.Option("--public-column", help="A column that is public and that a replacement keeps; may be repeated."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask whether what is bound is right.")]


@app.command()
def migrate(ledger: LedgerUrl = None) -> None:
    """Make the ledger's tables, or bring them to this version's schema."""
    opened = open_ledger(ledger)
    opened.migrate()
    typer.echo(f"the ledger {opened.name} is ready")


@app.command("open")
def open_account(
    account: AnAccount,
    epsilon: Annotated[str | None, typer.Option(help="The cap: what the charges of a block may add up to.")] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(help="A table it pays for: absolute path, URI or catalog:db.name; may be repeated."),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(help="A folder or URI that its releases may go to, and no other account's; may be repeated."),
    ] = None,
    neighbours: Annotated[str, typer.Option(help="add_remove or replace_one.")] = "add_remove",
    unit_column: Annotated[str | None, typer.Option(help="Column that names the privacy unit; else a row.")] = None,
    max_rows: Annotated[int, typer.Option(help="Rows of one unit that are used at most.")] = 1,
    composition: Annotated[str, typer.Option(help="How charges add up: pure, zcdp or approximate.")] = "pure",
    delta: Annotated[str, typer.Option(help="The cap's delta; for zcdp, where epsilon is told. 0 for pure.")] = "0",
    rho: Annotated[str | None, typer.Option(help="The cap of a zcdp account, instead of epsilon.")] = None,
    slack: Annotated[
        str | None, typer.Option(help="Part of an approximate cap's delta for adding up squares; half by default.")
    ] = None,
    blocks: Annotated[
        str | None, typer.Option(help="How rows fall into blocks, e.g. 'day(visited_at)' or 'value(region)'.")
    ] = None,
    unit_stays: Annotated[
        bool | None,
        typer.Option(help="Whether a unit lies in one block for ever; if not, charges add up across blocks."),
    ] = None,
    schema: Schema = None,
    columns: Columns = None,
    form: Form = None,
    version_column: VersionColumns = None,
    version_folders: VersionFolders = None,
    public_column: PublicColumns = None,
    yes: Yes = False,
    actor: Annotated[str | None, typer.Option(help="Who opens it; the user of this machine if not given.")] = None,
    ledger: LedgerUrl = None,
) -> None:
    """Open an account for a dataset; the same account again is found open.

    What is said of columns is of the one table; `dp-budget bind` says it of others, or later.
    """
    described = {
        "schema": schema,
        "columns": columns,
        "form": form,
        "version_columns": version_column,
        "version_folders": version_folders,
        "public_columns": public_column,
    }
    tables = _tables(table or [], {name: value for name, value in described.items() if value is not None}, yes=yes)
    opened = open_ledger(ledger).open_account(
        account,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        slack=slack,
        composition=composition,
        neighbours=neighbours,
        unit=PrivacyUnit(column=unit_column, max_rows=max_rows),
        tables=tables,
        outputs=output or (),
        blocks=blocks,
        unit_stays=unit_stays,
        actor=user() if actor is None else actor,
    )
    typer.echo(_opened(opened))


@app.command()
def show(
    account: Annotated[str | None, typer.Argument(help="The account's name; all of them if not given.")] = None,
    kind: Annotated[str | None, typer.Option(help="Charge that is asked about: pure, gaussian or approximate.")] = None,
    tight: Tight = False,
    as_json: AsJson = False,
    ledger: LedgerUrl = None,
) -> None:
    """Show accounts: their caps, what is spent, what is left."""
    opened = open_ledger(ledger)
    accounts = opened.accounts() if account is None else (opened.account(account),)
    summaries = [account_json(opened, entry, kind=kind, tight=tight) for entry in accounts]
    _print(summaries if account is None else summaries[0], reports.accounts_table(summaries, kind), as_json=as_json)


@app.command()
def history(
    account: AnAccount,
    log: Annotated[bool, typer.Option("--log", help="Show the audit log's entries instead of the charges.")] = False,
    as_json: AsJson = False,
    ledger: LedgerUrl = None,
) -> None:
    """Show an account's charges, oldest first."""
    opened = open_ledger(ledger)
    charges = opened.history(account)
    if log:
        entries = opened.log(account)
        _print([reports.entry_json(entry) for entry in entries], reports.entries_table(entries), as_json=as_json)
    else:
        _print([reports.charge_json(charge) for charge in charges], reports.charges_table(charges), as_json=as_json)


@app.command()
def verify(as_json: AsJson = False, ledger: LedgerUrl = None) -> None:
    """Recompute the whole ledger from its audit log, and say what differs; exit code 1 if anything does."""
    result = open_ledger(ledger).verification()
    head = {"seq": result.head.seq, "hash": result.head.hash}
    report = {"sound": result.ok, "head": head, "findings": list(result.findings)}
    sound = f"the ledger is sound up to entry {result.head.seq}, {result.head.hash}"
    _print(report, "\n".join(result.findings) or sound, as_json=as_json)
    if not result.ok:
        raise typer.Exit(Exit.FAILED)


def account_json(
    ledger: PrivacyLedger, account: Account, *, kind: str | None = None, tight: bool = False
) -> dict[str, Any]:
    """An account with its blocks, and what each may still be charged, in plain JSON types."""
    kind = kind or ("approximate" if account.composition == APPROXIMATE else "pure")
    left = ledger.remaining_by_block(account.name, kind=kind)
    fixed = {block: ledger.non_adaptive_bound(account.name, block) for block in left} if tight else None
    return reports.account_json(account, ledger.history(account.name), left, ledger.sub_budgets(account.name), fixed)


def _opened(opened: Account) -> str:
    """What was opened, and what is left to be bound, on one line."""
    names = ", ".join(opened.tables) or "no table yet"
    scope = "in all" if opened.blocks is None or not opened.unit_stays else f"in each block of {opened.blocks}"
    unbound = sorted(set(opened.tables) - set(opened.bindings))
    then = (
        f"; before anything is charged, bind the columns of {', '.join(unbound)}: `dp-budget bind`" if unbound else ""
    )
    outputs = ", ".join(opened.outputs) or "no folder yet"
    summary = f"account {opened.name} is open: epsilon {plain(opened.cap.epsilon)} {scope}, for {names}; "
    return f"{summary}its releases go to {outputs}{then}"


def _tables(names: list[str], described: dict[str, Any], *, yes: bool) -> list[str] | list[TableBinding]:
    """The tables of a new account: as they are named, or the one of which something is said, once that is confirmed."""
    if not described:
        return names
    if len(names) != 1:
        raise InvalidRequest(
            "table", value=len(names), requirement="must be one where its columns are given",
            remedy="open the account with one table, and bind the others by `dp-budget bind`",
        )  # fmt: skip
    binding = binding_of(names[0], **described)
    confirm(binding, yes=yes)
    return [binding]


def confirm(binding: TableBinding, *, yes: bool) -> None:
    """Show what is to be bound, and ask whether it is right.

    Raises:
        InvalidRequest: it is not, or nobody is there to say so.
    """
    typer.echo(shown(binding), err=True)
    try:
        agreed = yes or typer.confirm("Bind the table so, for good?", err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise InvalidRequest(
            "binding", requirement="was not confirmed, and nothing was written", remedy="answer y, or give --yes"
        )


def open_ledger(url: str | None) -> PrivacyLedger:
    """The ledger at ``url``.

    Raises:
        InvalidRequest: no URL, or none of a ledger.
    """
    if not url:
        raise InvalidRequest("ledger", requirement="must be given", remedy=f"set {URL_VARIABLE} or use --ledger")
    return PrivacyLedger(url)


def user() -> str:
    """Who runs this program, as far as the machine knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def run(program: typer.Typer, arguments: Sequence[str] | None = None) -> int:
    """Run a command line, say in one line on stderr why it failed, and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        status = typer.main.get_command(program).main(args=given, prog_name="dp-budget", standalone_mode=False)
    except InvalidRequest as refused:
        return _failed(str(refused), Exit.REFUSED)
    except LedgerUnavailable as away:
        return _failed(str(away), Exit.UNAVAILABLE)
    except Exception as error:
        format_message = getattr(error, "format_message", None)  # an error of the command line itself
        if format_message is None:
            raise
        return _failed(format_message(), Exit.REFUSED)
    return status if isinstance(status, int) else Exit.DONE


def main() -> None:
    """The console script."""
    sys.exit(run(app))


def _failed(line: str, status: Exit) -> int:
    typer.echo(f"dp-budget: {' '.join(line.split())}", err=True)
    return int(status)


def _print(data: Any, text: str, *, as_json: bool) -> None:
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False) if as_json else text)


if __name__ == "__main__":
    main()
