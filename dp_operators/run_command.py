"""``dp-budget run``: releases without Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dp_operators.budget.cli import Actor, LedgerUrl
from dp_operators.command_tools import (
    Allotment,
    Conf,
    Key,
    Master,
    Output,
    PrivateDir,
    RequestFiles,
    ended_by_signals,
    opened_ledger,
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
    expected_table,
    forecast_lines,
)
from dp_operators.many_requests import price_all, release_all, request_files
from dp_operators.release_order import OnUndefined, ReleaseOrder, report_end, run_to_end
from spark_jobs.contract.embedded_engine import AUTO
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from dp_operators.releasing import LocalRunner


def run_release(
    requests: RequestFiles,
    output: Output = None,
    key: Key = None,
    master: Master = AUTO,
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

    Several requests, or a folder of them, are released one after the other by one application, each with its own
    charge, draw and failure; the exit code is the highest of theirs.
    """
    from dp_operators.releasing import LocalRunner, WarmRunner

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
    order = ReleaseOrder(
        output=output, key=key, allotment=allotment, actor=actor, ledger_url=ledger, table=table,
        on_undefined=on_undefined, gate=gate,
    )  # fmt: skip
    many = len(requests) > 1 or requests[0].is_dir()
    settings: dict[str, Any] = {"master": master, "conf": settings_of(conf), "private_dir": private_dir}
    if not many:
        _run_one(requests[0], order, LocalRunner(**settings), dry_run=dry_run)
        return
    if key is not None:
        raise InvalidRequest(
            "key", key, "names one release, and there are several requests",
            "leave it out: each request has the key that is made from it",
        )  # fmt: skip
    files, runner = request_files(requests), WarmRunner(**settings)
    (price_all if dry_run else release_all)(files, order, runner)


def _run_one(file: Path, order: ReleaseOrder, runner: LocalRunner, *, dry_run: bool) -> None:
    from dp_operators.releasing import forecast

    written = order.read(file)
    with opened_ledger(order.ledger_url) as opened:
        charged, gate = order.prepare(file, written, opened)
        if dry_run:
            for line in forecast_lines(forecast(charged, runner=runner, allotment=order.allotment), order.table):
                typer.echo(line)
            return
        with ended_by_signals():
            published = run_to_end(charged, runner, allotment=order.allotment, actor=order.actor)
        report_end(published, opened, [published.uri], order.unmet(published, gate))
