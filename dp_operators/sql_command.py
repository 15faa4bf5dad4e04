"""``dp-budget sql``: a table of counts, sums, means and variances, asked for in SQL."""

from __future__ import annotations

import math
import sys
from typing import Annotated

import typer

from dp_operators.budget.cli import Actor, LedgerUrl
from dp_operators.command_tools import (
    Allotment,
    Conf,
    Key,
    Master,
    Output,
    PrivateDir,
    absolute_place,
    ended_by_signals,
    opened_ledger,
    settings_of,
)
from dp_operators.dry_run import dry_run_lines
from dp_operators.release_order import report_end, run_to_end
from spark_jobs.contract.documents import to_yaml
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.sql.answer import answer, check_answer
from spark_jobs.contract.sql.statement import SqlStatement
from spark_jobs.contract.written import read_written

ROWS_OF_CELL = 1000
"""The rows of a cell for which widths are forecast, unless the caller expects another number."""


def answer_sql(
    statement: Annotated[
        str,
        typer.Argument(
            metavar="STATEMENT", help="One SELECT of counts, sums, means and variances; - reads standard input."
        ),
    ],
    epsilon: Annotated[str, typer.Option(help="The full cost.")],
    delta: Annotated[str | None, typer.Option(help="The full delta, of an account that has one.")] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(help="A partition column and the value that it is pinned to, as NAME=VALUE; may be repeated."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Charge and release without asking.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the answer as CSV, with the ends of intervals.")] = False,
    rows: Annotated[
        int | None,
        typer.Option(
            help=f"The rows that you expect, for the widths of intervals; {ROWS_OF_CELL:,} a cell by default."
        ),
    ] = None,
    output: Output = None,
    key: Key = None,
    master: Master = "local[*]",
    conf: Conf = None,
    private_dir: PrivateDir = None,
    allotment: Allotment = None,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Answer a SELECT of an account's table by a private release: show what it would be, ask, charge, and answer.

    FROM names the account; VERSION AS OF 'v1', or --partition, names the version of its table. The same request is the
    same release, and pays once: another name, HAVING, ORDER BY or LIMIT changes only what is computed of its figures.
    Nothing is charged without --yes or an answer to the question.
    """
    from dp_operators.releasing import LocalRunner, forecast, on_terms
    from dp_operators.releasing.preflight import default_key

    parsed = SqlStatement.parse(sys.stdin.read() if statement == "-" else statement)
    check_answer(parsed)
    pinned = settings_of(partition, field="partition", example="day=2026-11-21")
    given = parsed.fields(epsilon=epsilon, delta=delta, partition=pinned)
    if output is not None:
        given["output"] = absolute_place(output)
    written = read_written(ReleaseRequest, given)
    runner = LocalRunner(master=master, conf=settings_of(conf), private_dir=private_dir)
    with opened_ledger(ledger) as opened:
        key = key or default_key(written, opened)
        completed, named = on_terms(written, opened, key)
        paid = forecast(written, ledger=opened, runner=runner, key=key, allotment=allotment).charge is not None
        if not (yes or paid):
            typer.echo(to_yaml(given).rstrip(), err=True)
            table = ExpectedTable(rows=rows or ROWS_OF_CELL * cells_of(completed))
            for line in dry_run_lines(written, opened, runner, allotment=allotment, key=key, table=table):
                typer.echo(line, err=True)
            if not _agreed():
                typer.echo("nothing was charged; add --yes to release it", err=True)
                return
        with ended_by_signals():
            published = run_to_end(completed, opened, runner, key=named, allotment=allotment, actor=actor)
        answered = answer(parsed, published.results["aggregates"])
        report_end(published, opened, answered.to_csv().splitlines() if as_csv else answered.lines())


def cells_of(request: ReleaseRequest) -> int:
    """The cells of the table of aggregates in a request."""
    return math.prod(len(one.labels) for options in request.diagnostics for one in getattr(options, "by", ()))


def _agreed() -> bool:
    return sys.stdin.isatty() and typer.confirm("Release it?", err=True)
