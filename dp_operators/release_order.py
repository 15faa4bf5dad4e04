"""The options of ``dp-budget run``; a release by the command line, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import typer

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import Exit, actor_or_user
from dp_operators.budget.left import left_in
from dp_operators.command_tools import RunOptions, request_of
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.figures import undefined_kinds
from spark_jobs.contract.gates import Gate, gate_in_file, gate_of
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.written import Written

if TYPE_CHECKING:
    from dp_operators.releasing import ChargedRequest, Published


class OnUndefined(StrEnum):
    """How `run` ends if a diagnostic of the published release is undefined."""

    PUBLISH = "publish"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True)
class ReleaseOrder:
    """The options of `run` for one request, or for all of several.

    Attributes:
        output, key, options: as the options of the command.
        table: what the caller expects of the table, for a forecast.
        on_undefined, gate: conditions that the published release has to meet, as the options.
    """

    output: str | None
    key: str | None
    options: RunOptions
    table: ExpectedTable | None
    on_undefined: OnUndefined
    gate: str | None

    def read(self, file: Path) -> ReleaseRequest | Written[ReleaseRequest]:
        """The request in a file.

        Raises:
            InvalidRequest: the file has no valid request.
            LedgerUnavailable: the request refers to the ledger, which cannot be reached.
        """
        return request_of(ReleaseRequest, file, output=self.output, ledger=self.options.ledger)

    def prepare(
        self, file: Path, written: ReleaseRequest | Written[ReleaseRequest], ledger: PrivacyLedger
    ) -> tuple[ChargedRequest[ReleaseRequest], Gate | None]:
        """The request completed by its account, with its release key, and the gate that its release has to pass.

        Raises:
            InvalidRequest: its account cannot complete it, or its release will not have the gate's figure.
            LedgerUnavailable: the ledger cannot be reached.
        """
        from dp_operators.releasing import ChargedRequest

        wanted = self.gate or gate_in_file(file)
        charged = ChargedRequest.of(written, ledger, self.key)
        # a figure that the release will not have is refused before anything is charged
        checked = None if wanted is None else gate_of(wanted, charged.request.diagnostics)
        return charged, checked

    def unmet(self, published: Published, gate: Gate | None) -> dict[Exit, str]:
        """A line for each of the order's conditions that the release does not meet, by its exit code."""
        return dict(_unmet(published, self.on_undefined, gate))


def run_to_end(
    charged: ChargedRequest[ReleaseRequest],
    runner: Any,
    options: RunOptions,
    *,
    name: str = "",
) -> Published:
    """Make the release, or find the one that exists; print its public stages to standard error, each after ``name``."""
    from dp_operators.release_check import check_release
    from dp_operators.releasing import release

    return release(
        charged,
        runner=runner,
        check=check_release,
        allotment=options.allotment,
        actor=actor_or_user(options.actor),
        progress=lambda line: typer.echo(f"{name}{line}", err=True),
    )


def _unmet(published: Published, on_undefined: OnUndefined, gate: Gate | None) -> Iterator[tuple[Exit, str]]:
    """What was wanted of the release and is not so, each with the exit code that it stands for."""
    undefined = undefined_kinds(published.status)
    if undefined and on_undefined is OnUndefined.FAIL:
        yield Exit.FAILED, f"undefined because of the noise: {', '.join(undefined)}"
    if gate is not None and not gate.holds(published.results):
        yield Exit.GATED, f"the gate {gate} does not hold"


def report_end(
    published: Published, ledger: PrivacyLedger, answer: Iterable[str], unmet: Mapping[Exit, str] = MappingProxyType({})
) -> None:
    """Print ``answer`` to standard output and everything else to standard error, ending with the closing line.

    Args:
        published: the release.
        ledger: the ledger that it was charged to.
        answer: the lines of its results.
        unmet: for each condition that the release does not meet, a line, by the exit code of the condition.

    Raises:
        Exit: of typer, with the highest exit code, if a condition is unmet.
    """
    cost, charge = published.cost.amount, ledger.charge(published.charge_id)
    again = f"found: this release was made at {charge.settled_at} for {cost}; nothing is charged now"
    typer.echo(again if published.adopted else f"published, for {cost}", err=True)
    if published.warning:
        typer.echo(published.warning, err=True)
    for line in unmet.values():
        typer.echo(f"dp-budget: {line}; the release was published and paid for", err=True)
    for line in answer:
        typer.echo(line)
    typer.echo(closing_line(published, ledger), err=True)
    if unmet:
        raise typer.Exit(max(unmet))


def closing_line(published: Published, ledger: PrivacyLedger) -> str:
    """One line with the headline figures, the cost, the budget that is left and the place of the report."""
    charge = ledger.charge(published.charge_id)
    left, _ = left_in(ledger.account(charge.account), charge.blocks, ledger)
    return published.line(f"{left.counted_as(published.cost)} left")
