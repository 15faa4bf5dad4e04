"""``dp-budget profile``: what each column of an account's table holds, in one release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from dp_operators.asked_release import Epsilon, Partition, Yes, pinned_to, release_if_agreed
from dp_operators.budget.option_groups import with_option_groups
from dp_operators.command_tools import Key, Output, RunOptions, absolute_place
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable

EXPECTED_ROWS = 100_000
"""The rows for which widths are forecast, unless the caller expects another number."""


@with_option_groups
def profile_table(
    account: Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account of the table.")],
    *,
    epsilon: Epsilon,
    column: Annotated[
        list[str] | None,
        typer.Option(help="A column; may be repeated. By default all whose values, bounds or period are declared."),
    ] = None,
    pairs: Annotated[
        list[str] | None, typer.Option(help="Two columns that are counted together, as A,B; may be repeated.")
    ] = None,
    where: Annotated[str | None, typer.Option(help="The filter of rows.")] = None,
    version: Annotated[str | None, typer.Option(help="The version of the table's folder; latest by default.")] = None,
    partition: Partition = None,
    yes: Yes = False,
    rows: Annotated[
        int | None,
        typer.Option(help=f"The rows that you expect, for the widths of intervals; {EXPECTED_ROWS:,} by default."),
    ] = None,
    output: Output = None,
    key: Key = None,
    options: RunOptions,
) -> None:
    """Release what each column of an account's table holds: nulls, values, histograms, means and quantiles.

    The columns are those that the account has a domain for. The request is shown with its price and the expected
    widths, and nothing is charged without --yes or an answer to the question. Repeating the command with the same
    options finds the same release, and pays once.
    """
    pinned = pinned_to(partition)
    if version is not None and pinned:
        raise InvalidRequest("partition", None, "must not be given beside version", "leave one of them out")
    entry: dict[str, Any] = {"kind": "profile"}
    if column:
        entry["columns"] = column
    if pairs:
        entry["pairs"] = [_pair(text) for text in pairs]
    snapshot: dict[str, Any] = {"path_version": version} if version is not None else {"partition": pinned}
    given = {
        "account": account,
        **({"table": {"snapshot": snapshot}} if version is not None or pinned else {}),
        **({"where": where} if where else {}),
        "diagnostics": [entry],
        "budget": {"epsilon": epsilon},
        **({"output": absolute_place(output)} if output is not None else {}),
    }
    release_if_agreed(
        given,
        expected=lambda _: ExpectedTable(rows=rows or EXPECTED_ROWS),
        lines=lambda results: lines_of(results["profile"]),
        yes=yes,
        key=key,
        options=options,
    )


def lines_of(result: Mapping[str, Any]) -> Iterator[str]:
    """One line for each column of a released profile."""
    for one in result["columns"]:
        if one["status"] != "ok":
            yield f"{one['column']}: weak, the noise may be all of its rows"
            continue
        parts = [f"{one['missing']:.1%} missing"]
        parts += [f"{one[name]:.1%} {text}" for name, text in (("unparsed", "not readable"), ("outside", "other"))]
        if one["form"] == "numbers":
            parts.append(_interval("mean", one["mean"], *one["mean_interval"]))
            quantiles = zip(
                *(one[name] for name in ("levels", "quantiles", "quantiles_lower", "quantiles_upper")), strict=True
            )
            parts += [_interval("median", *ends) for at, *ends in quantiles if at == 0.5]
        elif one["form"] == "values":
            shares = sorted(zip(one["shares"], one["cells"], strict=True), reverse=True)
            parts += [f"{label} {share:.1%}" for share, label in shares[:3]]
        yield f"{one['column']}: {', '.join(parts)}"


def _interval(name: str, value: float, low: float, high: float) -> str:
    return f"{name} {value:.5g} ({low:.5g} to {high:.5g})"


def _pair(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise InvalidRequest("pairs", text, "must be two columns", "write them like region,plan")
    return names
