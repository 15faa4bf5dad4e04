"""``dp-budget run``: releases without Airflow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dp_operators.budget.option_groups import with_option_groups
from dp_operators.command_tools import (
    Key,
    Output,
    RequestFiles,
    RunOptions,
    ended_by_signals,
    opened_ledger,
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
from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from dp_operators.releasing import LocalRunner


@with_option_groups
def run_release(
    requests: RequestFiles,
    *,
    output: Output = None,
    key: Key = None,
    options: RunOptions,
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
) -> None:
    """Make a release: reserve its cost, run the application, commit and publish.

    A model in the request may name the release that fitted it, and an ecdf the one to compare with: {"release": URI};
    groups may name a list of keys that is registered for the account: {"list": NAME}.

    Repeating the command finds the same release, or continues after an interruption; nothing is paid twice. Another
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
        output=output, key=key, options=options, table=table, on_undefined=on_undefined, gate=gate
    )  # fmt: skip
    many = len(requests) > 1 or requests[0].is_dir()
    if not many:
        _run_one(requests[0], order, LocalRunner(**options.runner_settings), dry_run=dry_run)
        return
    if key is not None:
        raise InvalidRequest(
            "key", key, "must be left out with several requests, because a key names one release",
            "leave it out: each request then gets its own key, made from its content",
        )  # fmt: skip
    files, runner = request_files(requests), WarmRunner(**options.runner_settings)
    (price_all if dry_run else release_all)(files, order, runner)


def _run_one(file: Path, order: ReleaseOrder, runner: LocalRunner, *, dry_run: bool) -> None:
    from dp_operators.releasing import forecast

    written = order.read(file)
    with opened_ledger(order.options.ledger) as opened:
        charged, gate = order.prepare(file, written, opened)
        if dry_run:
            for line in forecast_lines(
                forecast(charged, runner=runner, allotment=order.options.allotment), order.table
            ):
                typer.echo(line)
            return
        with ended_by_signals():
            published = run_to_end(charged, runner, order.options)
        report_end(published, opened, [published.uri], order.unmet(published, gate))
