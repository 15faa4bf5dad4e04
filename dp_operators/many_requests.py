"""Releases the requests of one ``dp-budget run`` one after the other, by one application but independently.

The charge, draw, private file and failure of each request are those that it would have in a command of its own. If one
fails, the others are still released. If the application fails on an engine that earlier requests have used, the request
is tried once more with a fresh engine, so that no other request can be the cause of its failure.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dp_operators.budget import LedgerUnavailable, PrivacyLedger
from dp_operators.budget.cli import Exit, open_ledger
from dp_operators.budget.left import left_after
from dp_operators.budget.values import ALL, exact_budget
from dp_operators.command_tools import ended_by_signals
from dp_operators.dry_run import forecast_lines
from dp_operators.release_order import ReleaseOrder, closing_line, run_to_end
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, exact_sum, half_square

if TYPE_CHECKING:
    from dp_operators.releasing import Published, WarmRunner

SUFFIXES = (".json", ".yaml", ".yml")
"""What the names of a folder's requests end with."""

NewCharges = dict[tuple[str, str], dict[str, Budget]]
"""For each account and block, the costs that would be charged, by release key."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How one request ended, or, for prices, what one block of an account would pay in all.

    Attributes:
        name: the request's file, or ``in all`` for a total.
        status: the exit code.
        lines: the lines to print.
        released: whether its release is published.
    """

    name: str
    status: Exit = Exit.DONE
    lines: tuple[str, ...]
    released: bool = False

    def print(self, *, err: bool) -> None:
        """Print the lines; to standard error if the status is not ``DONE`` or ``err`` is set."""
        wrong = self.status is not Exit.DONE
        for line in self.lines:
            typer.echo(f"{'dp-budget: ' if wrong else ''}{self.name}: {line}", err=err or wrong)


def request_files(paths: Sequence[Path]) -> list[Path]:
    """The request files that are given; those of a folder are in the order of their names.

    Raises:
        InvalidRequest: a folder has none, or cannot be read.
    """
    return [file for path in paths for file in (_in_folder(path) if path.is_dir() else [path])]


def _in_folder(folder: Path) -> list[Path]:
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())
    except OSError:
        files = []
    if not files:
        raise InvalidRequest(
            "request", str(folder), f"must be a folder with files named {', '.join(f'*{one}' for one in SUFFIXES)}",
            "name another folder, or the files",
        )  # fmt: skip
    return files


def release_all(files: Sequence[Path], order: ReleaseOrder, runner: WarmRunner) -> None:
    """Release the requests in their order: URIs go to standard output, and a line about each to standard error.

    Raises:
        Exit: of typer, with the highest exit code of a request, if that is not 0.
    """
    endings: list[Ending] = []
    with closing(open_ledger(order.options.ledger)) as ledger, ended_by_signals(), runner:
        for file in files:
            endings.append(_ended(file, partial(_release, file, order, ledger, runner)))
            endings[-1].print(err=True)
    typer.echo(f"{sum(ending.released for ending in endings)} of {len(files)} requests are released", err=True)
    _exit(endings)


def _release(file: Path, order: ReleaseOrder, ledger: PrivacyLedger, runner: WarmRunner) -> Ending:
    from dp_operators.releasing import ReleaseFailed

    charged, gate = order.prepare(file, order.read(file), ledger)

    def make() -> Published:
        return run_to_end(charged, runner, order.options, name=f"{file}: ")

    try:
        published = make()
    except ReleaseFailed:
        if not runner.failed_after_others:
            raise
        typer.echo(f"{file}: tried once more with an engine that no other request has used", err=True)
        published = make()
    typer.echo(published.uri)
    unmet = order.unmet(published, gate)
    begun = "found" if published.adopted else "published"
    line = ", ".join([begun, *unmet.values(), closing_line(published, ledger)])
    warning = [published.warning] if published.warning else []
    return Ending(name=str(file), status=max(unmet, default=Exit.DONE), lines=(*warning, line), released=True)


def price_all(files: Sequence[Path], order: ReleaseOrder, runner: WarmRunner) -> None:
    """Print what each request would cost, and whether each account can pay for all of its requests; change nothing.

    Raises:
        Exit: of typer, with the highest exit code of a request, or that of a refusal if they cannot all be paid for.
    """
    new: NewCharges = defaultdict(dict)
    with closing(open_ledger(order.options.ledger)) as ledger:
        endings = [_ended(file, partial(_price, file, order, ledger, runner, new)) for file in files]
        endings += [_sum(account, block, costs, ledger, order) for (account, block), costs in new.items()]
    for ending in endings:
        ending.print(err=False)
    _exit(endings)


def _price(file: Path, order: ReleaseOrder, ledger: PrivacyLedger, runner: WarmRunner, new: NewCharges) -> Ending:
    from dp_operators.releasing import forecast

    charged, _ = order.prepare(file, order.read(file), ledger)
    price = forecast(charged, runner=runner, allotment=order.options.allotment)
    for block in price.left:
        new[charged.account, block][charged.key] = price.cost
    return Ending(name=str(file), lines=tuple(forecast_lines(price, order.table)))


def _sum(account: str, block: str, costs: dict[str, Budget], ledger: PrivacyLedger, order: ReleaseOrder) -> Ending:
    """Whether an account's block can pay for all charges, which its composition adds up."""
    rest = left_after(ledger.account(account), block, list(costs.values()), ledger, allotment=order.options.allotment)
    whole = _added(costs.values())
    many = f"{len(costs)} charges of {whole.amount} in all"
    name = f"account {account}" if block == ALL else f"block {block} of account {account}"
    left = f"{name} has {rest.before.counted_as(whole)} left"
    if rest.enough:
        return Ending(name="in all", lines=(f"{many}; {left}, and {rest.after.counted_as(whole)} after them",))
    return Ending(name="in all", status=Exit.REFUSED, lines=(f"{many}; {left}, which is not enough for all of them",))


def _added(costs: Iterable[Budget]) -> Budget:
    """The sum of costs, in rho if one of them is counted in rho."""
    several = tuple(costs)
    epsilon = exact_sum(*(cost.epsilon for cost in several))
    if all(cost.currency == "epsilon" for cost in several):
        return exact_budget(epsilon)
    return exact_budget(Decimal(0), rho=exact_sum(*(cost.rho or half_square(cost.epsilon) for cost in several)))


def _ended(file: Path, work: Callable[[], Ending]) -> Ending:
    """How a request ended, whatever it raised."""
    from dp_operators.releasing import ReleaseError

    def failed(status: Exit, what: str) -> Ending:
        return Ending(name=str(file), status=status, lines=(what,))

    try:
        return work()
    except InvalidRequest as refused:
        return failed(Exit.REFUSED, f"refused: {refused}")
    except LedgerUnavailable as away:
        return failed(Exit.UNAVAILABLE, f"not released: {away}")
    except ReleaseError as error:
        return failed(Exit.FAILED, f"failed: {error}")
    except typer.Exit as ended:  # its line has been printed
        return failed(Exit(ended.exit_code), "failed")
    except Exception as error:
        traceback.print_exc()
        return failed(Exit.FAILED, f"failed: {type(error).__name__}")


def _exit(endings: Sequence[Ending]) -> None:
    status = max(ending.status for ending in endings)
    if status is not Exit.DONE:
        raise typer.Exit(status)
