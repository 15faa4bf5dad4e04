"""``dp-budget run``: a release without Airflow, and how the command ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import Actor, Exit, LedgerUrl, actor_or_user
from dp_operators.budget.left import left_in
from dp_operators.command_tools import (
    Allotment,
    Conf,
    Key,
    Master,
    Output,
    PrivateDir,
    RequestFile,
    ended_by_signals,
    opened_ledger,
    request_of,
    settings_of,
)
from dp_operators.dry_run import (
    Auc,
    Flagged,
    PositiveRate,
    Recalls,
    Rows,
    RSquared,
    Values,
    dry_run_lines,
    expected_table,
)
from spark_jobs.contract.figures import undefined_kinds
from spark_jobs.contract.gates import Gate, gate_in_file, gate_of
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from dp_operators.releasing import Published


class OnUndefined(StrEnum):
    """How `run` ends if a diagnostic of the published release is undefined."""

    PUBLISH = "publish"
    FAIL = "fail"


def run_release(
    request: RequestFile,
    output: Output = None,
    key: Key = None,
    master: Master = "local[*]",
    conf: Conf = None,
    private_dir: PrivateDir = None,
    allotment: Allotment = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report whether the release could be made, and its cost.")
    ] = False,
    rows: Rows = None,
    positive_rate: PositiveRate = None,
    auc: Auc = None,
    flagged: Flagged = None,
    recalls: Recalls = None,
    r_squared: RSquared = None,
    values: Values = None,
    on_undefined: Annotated[
        OnUndefined, typer.Option(help="How the command ends if a diagnostic is undefined: exit code 1 for fail.")
    ] = OnUndefined.PUBLISH,
    gate: Annotated[
        str | None,
        typer.Option(
            help="A condition on a released figure, such as 'roc_curve.auc.lower >= 0.7': exit code 4 if it does not "
            "hold; by default the request file's."
        ),
    ] = None,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Make a release: reserve its cost, run the application, commit and publish.

    A model in the request may name the release that fitted it, and an ecdf the one to compare with: {"release": URI};
    groups may name a list of keys that is registered for the account: {"list": NAME}.

    Repeating the command finds the same release, or continues after an interruption; it never pays twice. Another
    --key makes another release, with its own noise and its own charge.
    """
    from dp_operators.releasing import LocalRunner, on_terms
    from dp_operators.releasing.preflight import default_key

    table = expected_table(
        dry_run=dry_run,
        rows=rows,
        positive_rate=positive_rate,
        auc=auc,
        flagged=flagged,
        recalls=recalls,
        r_squared=r_squared,
        values=values,
    )
    written = request_of(ReleaseRequest, request, output=output, ledger=ledger)
    wanted = gate or gate_in_file(request)
    runner = LocalRunner(master=master, conf=settings_of(conf), private_dir=private_dir)
    with opened_ledger(ledger) as opened:
        key = key or default_key(written, opened)
        completed, named = on_terms(written, opened, key)
        # a figure that the release will not have is refused before anything is charged
        checked = None if wanted is None else gate_of(wanted, completed.diagnostics)
        if dry_run:
            for line in dry_run_lines(written, opened, runner, allotment=allotment, key=key, table=table):
                typer.echo(line)
            return
        with ended_by_signals():
            published = run_to_end(completed, opened, runner, key=named, allotment=allotment, actor=actor)
        report_end(published, opened, [published.uri], dict(_unmet(published, on_undefined, checked)))


def run_to_end(
    request: ReleaseRequest, ledger: PrivacyLedger, runner: Any, *, key: str, allotment: str | None, actor: str | None
) -> Published:
    """Make the release, or find the one that was made, with its public stages on standard error."""
    from dp_operators.release_check import check_release
    from dp_operators.releasing import release

    return release(
        request,
        ledger=ledger,
        runner=runner,
        key=key,
        check=check_release,
        allotment=allotment,
        actor=actor_or_user(actor),
        progress=lambda line: typer.echo(line, err=True),
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
    """Print ``answer`` to standard output, all else to standard error, and last where the report is.

    Raises:
        Exit: of typer: something is unmet.
    """
    cost = plain(published.cost.epsilon)
    charge = ledger.charge(published.charge_id)
    again = f"found: this release was made at {charge.settled_at} for epsilon {cost}; nothing is charged now"
    typer.echo(again if published.adopted else f"published, for epsilon {cost}", err=True)
    if published.warning:
        typer.echo(published.warning, err=True)
    for line in unmet.values():
        typer.echo(f"dp-budget: {line}; the release was published and paid for", err=True)
    for line in answer:
        typer.echo(line)
    left, _ = left_in(ledger.account(charge.account), charge.blocks, ledger)
    typer.echo(published.line(f"{plain(left.epsilon)} left"), err=True)
    if unmet:
        raise typer.Exit(max(unmet))
