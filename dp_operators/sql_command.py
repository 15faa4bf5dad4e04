"""``dp-budget sql``: a table of counts, sums, means and variances, asked for in SQL."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from dp_operators.asked_release import Partition, Rho, Yes, pinned_to, release_if_agreed
from dp_operators.budget.option_groups import with_option_groups
from dp_operators.command_tools import (
    Key,
    Output,
    RunOptions,
    absolute_place,
)
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.sql.answer import answer, check_answer
from spark_jobs.contract.sql.statement import SqlStatement

ROWS_OF_CELL = 1000
"""The rows of a cell for which widths are forecast, unless the caller expects another number."""


@with_option_groups
def answer_sql(
    statement: Annotated[
        str,
        typer.Argument(
            metavar="STATEMENT", help="One SELECT of counts, sums, means and variances; - reads standard input."
        ),
    ],
    *,
    epsilon: Annotated[str | None, typer.Option(help="The full cost.")] = None,
    delta: Annotated[str | None, typer.Option(help="The full delta, of an account that has one.")] = None,
    rho: Rho = None,
    partition: Partition = None,
    yes: Yes = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the answer as CSV, with the ends of intervals.")] = False,
    rows: Annotated[
        int | None,
        typer.Option(
            help=f"The rows that you expect, for the widths of intervals; {ROWS_OF_CELL:,} a cell by default."
        ),
    ] = None,
    output: Output = None,
    key: Key = None,
    options: RunOptions,
) -> None:
    """Answer a SELECT of an account's table by a private release: show the request, ask, charge, and print the answer.

    FROM names the account; VERSION AS OF 'v1', or --partition, names the version of its table. Repeating a statement
    finds the same release and pays once: another alias, HAVING, ORDER BY or LIMIT changes only what is computed from
    its figures. Nothing is charged without --yes or an answer to the question.
    """
    parsed = SqlStatement.parse(sys.stdin.read() if statement == "-" else statement)
    check_answer(parsed)
    if epsilon is None and rho is None:
        raise InvalidRequest("epsilon", None, "is required, or rho in a zcdp account", "give what it may cost")
    given = parsed.fields(epsilon=epsilon, delta=delta, rho=rho, partition=pinned_to(partition))
    if output is not None:
        given["output"] = absolute_place(output)

    def lines(results: Mapping[str, Any]) -> list[str]:
        answered = answer(parsed, results["aggregates"])
        return answered.to_csv().splitlines() if as_csv else list(answered.lines())

    release_if_agreed(
        given,
        expected=lambda request: ExpectedTable(rows=rows or ROWS_OF_CELL * cells_of(request)),
        lines=lines,
        yes=yes,
        key=key,
        options=options,
    )


def cells_of(request: ReleaseRequest) -> int:
    """The number of cells of the request's table of aggregates."""
    return math.prod(len(one.labels) for options in request.diagnostics for one in getattr(options, "by", ()))
