"""The commands of ``dp-budget`` that open accounts, show them and verify the ledger."""

from __future__ import annotations

import getpass
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dp_operators.budget import reports
from dp_operators.budget.composition import APPROXIMATE
from dp_operators.budget.errors import LedgerUnavailable
from dp_operators.budget.figure_history import figure_history
from dp_operators.budget.ledger import PrivacyLedger
from dp_operators.budget.option_groups import with_option_groups
from dp_operators.budget.table_looks import report_on_files, same_people
from dp_operators.budget.table_schemas import binding_lines, binding_of
from dp_operators.budget.validation import block_expression
from dp_operators.budget.values import Account
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, PrivacyUnit, plain, replaced_within

URL_VARIABLE = "DP_LEDGER_URL"


class Exit(IntEnum):
    """The exit codes of ``dp-budget``; if a signal ends the program, it returns 128 plus the signal's number."""

    DONE = 0
    FAILED = 1
    REFUSED = 2
    UNAVAILABLE = 3
    GATED = 4


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

LedgerUrl = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar=URL_VARIABLE,
        help="URL of the ledger. Prefer the variable: other users can read a command line and the password in it.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Tight = Annotated[
    bool, typer.Option("--tight", help="Also report the cost of all charges if fixed beforehand; for information only.")
]
AnAccount = Annotated[str, typer.Argument(help="The account's name.")]
Rho = Annotated[str | None, typer.Option(help="The cap's rho in a zcdp account, in place of epsilon.")]
Actor = Annotated[
    str | None, typer.Option(help="Who is responsible, for the audit log; by default the user of this machine.")
]
Tables = Annotated[
    list[str] | None,
    typer.Option(
        help="A table that it pays for: absolute path, URI, catalog:db.name or jdbc:connection.schema.table; may be "
        "repeated."
    ),
]
Slack = Annotated[
    str | None,
    typer.Option(help="The part of an approximate cap's delta that pays for the sum of squares; half by default."),
]
Blocks = Annotated[
    str | None,
    typer.Option(help="The expression that assigns rows to blocks, e.g. 'day(visited_at)' or 'value(region)'."),
]
FileFormOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--file-form",
        help="How values are written in csv and JSON files, as NAME=VALUE; may be repeated. separator, quote, escape, "
        "encoding, trim; decimal, thousands, percent; null, true, false; date, timestamp.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Go on without asking for confirmation.")]


@app.command()
def migrate(ledger: LedgerUrl = None) -> None:
    """Create the ledger's tables, or upgrade them to this version's schema."""
    opened = open_ledger(ledger)
    opened.migrate()
    typer.echo(f"the ledger {opened.name} is ready")


@dataclass(frozen=True, kw_only=True)
class Described:
    """The options that describe a table."""

    schema: Annotated[
        Path | None,
        typer.Option(help="Where the columns are read from: a Parquet file or folder, a csv file, or a JSON file."),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            help="The columns with their types, and what they may hold: 'id int, age int between 0 and 120, `net, USD` "
            "decimal(10,2), region string in @regions, churned string in ('yes', 'no')."
        ),
    ] = None
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="parquet, orc, csv, json, delta, iceberg, catalog or jdbc; by default the schema's."
        ),
    ] = None
    version_column: Annotated[
        list[str] | None,
        typer.Option("--version-column", help="A partition column that identifies the version; may be repeated."),
    ] = None
    version_folders: Annotated[
        int | None, typer.Option(help="How many folders deep a version is below the table; 1 by default.", min=1)
    ] = None
    public_column: Annotated[
        list[str] | None,
        typer.Option("--public-column", help="A public column, which a replacement keeps; may be repeated."),
    ] = None
    append_only: Annotated[
        bool,
        typer.Option(
            "--append-only", help="Versions only gain rows, none is changed or removed: a fact that you answer for."
        ),
    ] = False
    rows_per_unit: Annotated[
        int | None, typer.Option(help="The most rows of one unit in the table: a fact that you answer for.", min=1)
    ] = None
    file_form: FileFormOptions = None
    units: Annotated[
        int | None,
        typer.Option(help="The most units that the table will ever have: a fact that you answer for.", min=1),
    ] = None
    version_order: Annotated[
        list[str] | None,
        typer.Option(
            help="Which version is the later one: natural (by name, digits as numbers), number, or all names, the "
            "earliest first; may be repeated."
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """The options that are given, as the arguments of ``binding_of``."""
        named = {"version_column": "version_columns", "public_column": "public_columns"}
        return {named.get(name, name): value for name, value in vars(self).items() if value not in (None, False)}


@app.command("open")
@with_option_groups
def open_account(
    account: AnAccount,
    *,
    epsilon: Annotated[str | None, typer.Option(help="The cap on the sum of a block's charges.")] = None,
    table: Tables = None,
    output: Annotated[
        list[str] | None, typer.Option(help="A folder or URI for the releases of this account alone; may be repeated.")
    ] = None,
    neighbours: Annotated[str, typer.Option(help="add_remove or replace_one.")] = "add_remove",
    unit_column: Annotated[str | None, typer.Option(help="The column of the privacy unit; by default a row.")] = None,
    max_rows: Annotated[int, typer.Option(help="The largest number of rows of one unit that are used.")] = 1,
    composition: Annotated[str, typer.Option(help="How charges add up: pure, zcdp or approximate.")] = "pure",
    delta: Annotated[
        str, typer.Option(help="The cap's delta; for zcdp, the delta at which epsilon is reported; 0 for pure.")
    ] = "0",
    rho: Rho = None,
    slack: Slack = None,
    blocks: Blocks = None,
    unit_stays: Annotated[
        bool | None, typer.Option(help="Whether a unit stays in one block; if not, charges add up across blocks.")
    ] = None,
    described: Described,
    yes: Yes = False,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Open an account for a dataset; repeating the command changes nothing.

    The options from --schema to --version-order describe the one table of --table; `dp-budget bind` describes others.
    """
    if neighbours == Neighbours.REPLACE_ONE:
        within = replaced_within(Neighbours.REPLACE_ONE, block_expression(blocks))
        question = f"The account promises for a row that is replaced by another of {within}. Is that what is meant?"
        ask(question, what="blocks", yes=yes or not within)
    opened = open_ledger(ledger).open_account(
        account,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        slack=slack,
        composition=composition,
        neighbours=neighbours,
        unit=PrivacyUnit(column=unit_column, max_rows=max_rows),
        tables=_tables(table or [], described.given(), others=_others(ledger, account), yes=yes),
        outputs=output or (),
        blocks=blocks,
        unit_stays=unit_stays,
        actor=actor_or_user(actor),
    )
    typer.echo(_opened(opened))


@app.command()
def show(
    account: Annotated[str | None, typer.Argument(help="The account's name; by default all accounts.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="The kind of charge to report as remaining: pure, gaussian or approximate.")
    ] = None,
    tight: Tight = False,
    as_json: AsJson = False,
    ledger: LedgerUrl = None,
) -> None:
    """Show the caps of accounts, and what is spent and left."""
    opened = open_ledger(ledger)
    accounts = opened.accounts() if account is None else (opened.account(account),)
    summaries = [account_json(opened, entry, kind=kind, tight=tight) for entry in accounts]
    _print(summaries if account is None else summaries[0], reports.accounts_table(summaries, kind), as_json=as_json)


@app.command()
def history(
    account: AnAccount,
    log: Annotated[bool, typer.Option("--log", help="Show the audit log's entries instead of the charges.")] = False,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            help="Show what the releases found instead: a figure such as roc_curve.auc or roc_curve.auc.lower, or "
            "roc_curve for all of a kind; may be repeated."
        ),
    ] = None,
    as_json: AsJson = False,
    ledger: LedgerUrl = None,
) -> None:
    """Show an account's charges, oldest first, or the figures of its releases."""
    opened = open_ledger(ledger)
    charges = opened.history(account)
    if figure:
        recorded = [one for name in dict.fromkeys(figure) for one in figure_history(charges, name)]
        _print([asdict(one) for one in recorded], reports.figures_table(recorded), as_json=as_json)
    elif log:
        entries = opened.log(account)
        _print([reports.entry_json(entry) for entry in entries], reports.entries_table(entries), as_json=as_json)
    else:
        _print([reports.charge_json(charge) for charge in charges], reports.charges_table(charges), as_json=as_json)


@app.command()
def verify(as_json: AsJson = False, ledger: LedgerUrl = None) -> None:
    """Recompute the ledger from its audit log, and list the differences; exit code 1 if there are any."""
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
    """An account with its blocks and what is left in each of them, in plain JSON types."""
    kind = kind or ("approximate" if account.composition == APPROXIMATE else "pure")
    left = ledger.remaining_by_block(account.name, kind=kind)
    fixed = {block: ledger.non_adaptive_bound(account.name, block) for block in left} if tight else None
    return reports.account_json(
        account, ledger.spent_by_state(account.name), left, ledger.sub_budgets(account.name), fixed
    )


def _opened(opened: Account) -> str:
    """One line about an opened account and the tables that are still to be described."""
    names = ", ".join(opened.tables) or "no table yet"
    scope = "in all" if opened.blocks is None or not opened.unit_stays else f"in each block of {opened.blocks}"
    unbound = sorted(set(opened.tables) - set(opened.bindings))
    then = f"; before the first charge, bind the columns of {', '.join(unbound)}: `dp-budget bind`" if unbound else ""
    outputs = ", ".join(opened.outputs) or "no folder yet"
    within = f", a replacement being by another of {opened.replaced_within}" if opened.replaced_within else ""
    rho = opened.cap.rho
    cap = f"epsilon {plain(opened.cap.epsilon)}" if rho is None else f"rho {plain(rho)}"
    summary = f"account {opened.name} is open: {cap} {scope}{within}, for {names}; "
    return f"{summary}its releases go to {outputs}{then}"


def _others(url: str | None, account: str) -> tuple[Account, ...]:
    """The other accounts, of which one may be of the same people."""
    return tuple(other for other in open_ledger(url).accounts() if other.name != account)


def _tables(
    names: list[str], described: dict[str, Any], *, others: Sequence[Account], yes: bool
) -> list[str] | list[TableBinding]:
    """The tables of a new account: their names, or the binding of the one that is described, once confirmed."""
    if not described:
        return names
    if len(names) != 1:
        raise InvalidRequest(
            "table", len(names), "must be a single table if it is described",
            "open the account with one table, and bind the others with `dp-budget bind`",
        )  # fmt: skip
    binding = binding_of(names[0], **described)
    for line in same_people(binding, others):
        typer.echo(line, err=True)
    confirm(binding, yes=yes)
    return [binding]


def confirm(binding: TableBinding, *, yes: bool) -> None:
    """Print a binding and what the table's files show, and ask for confirmation.

    Raises:
        InvalidRequest: the files cannot be read in this way; or the answer is no, or there is no answer.
    """
    typer.echo("\n".join((binding_lines(binding), *report_on_files(binding))), err=True)
    ask("Bind the table in this way, permanently?", what="binding", yes=yes)


def ask(question: str, *, what: str, yes: bool) -> None:
    """Ask for confirmation.

    Raises:
        InvalidRequest: the answer is no, or there is no answer.
    """
    try:
        agreed = yes or typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise InvalidRequest(what, None, "was not confirmed, and nothing was written", "answer y, or give --yes")


def open_ledger(url: str | None) -> PrivacyLedger:
    """The ledger at ``url``.

    Raises:
        InvalidRequest: there is no URL, or it is not the URL of a ledger.
    """
    if not url:
        raise InvalidRequest("ledger", None, "must be given", f"set {URL_VARIABLE} or use --ledger")
    return PrivacyLedger(url)


def actor_or_user(actor: str | None) -> str:
    """The given actor, by default the user of this machine; empty if the machine does not know its user."""
    if actor is not None:
        return actor
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def run(program: typer.Typer, arguments: Sequence[str]) -> int:
    """Run a command line, print an error as one line on stderr, and return the exit code."""
    given = list(arguments) or ["--help"]
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


def _failed(line: str, status: Exit) -> int:
    typer.echo(f"dp-budget: {' '.join(line.split())}", err=True)
    return int(status)


def _print(data: Any, text: str, *, as_json: bool) -> None:
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False) if as_json else text)
