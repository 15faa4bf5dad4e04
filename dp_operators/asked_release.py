"""Releases whose request a command builds: show the request, its cost and widths, and release once the user agrees."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer

from dp_operators.command_tools import RunOptions, ended_by_signals, opened_ledger, settings_of
from dp_operators.dry_run import forecast_lines
from dp_operators.release_order import report_end, run_to_end
from spark_jobs.contract.documents import to_yaml
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.written import read_written

Epsilon = Annotated[str, typer.Option(help="The full cost.")]
Rho = Annotated[
    str | None,
    typer.Option(help="The full cost in place of --epsilon, in a zcdp account: the noise is Gaussian then."),
]
Partition = Annotated[
    list[str] | None,
    typer.Option(help="A partition column and the value that it is pinned to, as NAME=VALUE; may be repeated."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Charge and release without asking.")]


def pinned_to(partition: list[str] | None) -> dict[str, str]:
    """The partition columns that a command pins, and their values."""
    return settings_of(partition, field="partition", example="day=2026-11-21")


def release_if_agreed(
    given: Mapping[str, Any],
    *,
    expected: Callable[[ReleaseRequest], ExpectedTable],
    lines: Callable[[Any], Iterable[str]],
    yes: bool,
    key: str | None,
    options: RunOptions,
) -> None:
    """Show a request with its cost and expected widths, and release it once the user agrees.

    With ``yes``, or if the release is already paid for, the user is not asked.

    Args:
        given: the fields of the request.
        expected: a function from the completed request to what is assumed of the table.
        lines: a function from the results of the release to the lines to print.
        yes: whether to release without asking.
        key: the release key; by default the one that follows from the request.
        options: how the release is run, who pays, and who is responsible.
    """
    from dp_operators.releasing import ChargedRequest, LocalRunner, forecast, with_references

    runner = LocalRunner(**options.runner_settings)
    with opened_ledger(options.ledger) as opened:
        written = read_written(ReleaseRequest, with_references(given, opened))
        charged = ChargedRequest.of(written, opened, key)
        price = forecast(charged, runner=runner, allotment=options.allotment)
        if not (yes or price.charge is not None):
            typer.echo(to_yaml(given).rstrip(), err=True)
            for line in forecast_lines(price, expected(charged.request)):
                typer.echo(line, err=True)
            if not (sys.stdin.isatty() and typer.confirm("Release it?", err=True)):
                typer.echo("nothing was charged; add --yes to release it", err=True)
                return
        with ended_by_signals():
            published = run_to_end(charged, runner, options)
        report_end(published, opened, lines(published.results))
