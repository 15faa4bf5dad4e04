"""``dp-budget``: the command line of the ledger, and releases without Airflow."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from dp_operators.budget.cli import Actor, Exit, LedgerUrl, actor_or_user, run
from dp_operators.budget.cli import app as ledger_commands
from dp_operators.budget.commands import app as administration_commands
from dp_operators.budget.domain_commands import app as domain_commands
from dp_operators.budget.key_commands import app as key_commands
from dp_operators.budget.lookup_commands import app as lookup_commands
from dp_operators.budget.reports import charges_table
from dp_operators.command_tools import (
    Key,
    Output,
    PublicReason,
    RequestFile,
    absolute_place,
    give_back_reservation,
    known_actor,
    opened_ledger,
    request_of,
)
from dp_operators.profile_command import profile_table
from dp_operators.run_command import run_release
from dp_operators.set_up_command import init
from dp_operators.sql_command import answer_sql
from dp_operators.stream_commands import app as stream_commands
from spark_jobs.contract.request import ReleaseRequest

DISTRIBUTION = "airflow-provider-dp-diagnostics"

app = typer.Typer(
    name="dp-budget",
    help="The privacy ledger: accounts, their caps, what they have spent; and the releases that it pays for.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for commands in (ledger_commands, administration_commands, domain_commands, lookup_commands):
    app.add_typer(commands, name="")  # without a name, its commands are commands of this program

app.command("init")(init)
app.command("run")(run_release)
app.command("sql")(answer_sql)
app.command("profile")(profile_table)
app.add_typer(key_commands, name="keys")
app.add_typer(stream_commands, name="stream")

Releases = Annotated[str, typer.Option("--output", help="The folder or URI of the releases.")]
Hours = Annotated[float, typer.Option(help="Hours since the last heartbeat.", min=0)]
StaleHours = Annotated[
    float, typer.Option(help="Hours since the last heartbeat; at least 1, because a running release has one.", min=1)
]


def show_version(wanted: bool) -> None:
    """Print the version of the program and exit, if it is requested."""
    if wanted:
        typer.echo(f"dp-budget {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command("give-back")
def give_back_release(
    request: RequestFile,
    reason: PublicReason,
    output: Output = None,
    key: Key = None,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Give back what an unfinished release has reserved.

    The charge becomes void if it is certain that no row was read for it, and burnt otherwise. REQUEST must be exactly
    the request that was charged; the release's folder has a copy of it.
    """
    release_request = request_of(ReleaseRequest, request, output=output, ledger=ledger)
    with opened_ledger(ledger) as opened:
        give_back_reservation(release_request, opened, key=key, reason=reason, actor=actor)


@app.command("check-release")
def check_release_command(
    uri: Annotated[str, typer.Argument(help="The release's folder.")], ledger: LedgerUrl = None
) -> None:
    """Compare a release's files with its manifest, and the manifest with the ledger; exit code 1 if they differ."""
    from dp_operators.releasing import check_release_folder

    place = absolute_place(uri)
    with opened_ledger(ledger) as opened:
        findings = check_release_folder(place, opened)
    typer.echo("\n".join(findings) or f"{place} is what the ledger paid for")
    if findings:
        raise typer.Exit(Exit.FAILED)


@app.command("hash-pipeline")
def hash_pipeline(
    uri: Annotated[str, typer.Argument(help="The folder of the saved pipeline, or a copy of it.")],
) -> None:
    """Print the hash of a saved Spark ML pipeline, for `model.sha256` in a request."""
    from spark_jobs.contract.store.pipelines import read_pipeline

    typer.echo(read_pipeline(absolute_place(uri)).sha256)


@app.command()
def stale(hours: Hours = 24.0, ledger: LedgerUrl = None) -> None:
    """List the reservations without a recent heartbeat; they count as spent until they are given back."""
    with opened_ledger(ledger) as opened:
        typer.echo(charges_table(opened.stale(timedelta(hours=hours))))


@app.command("release-stale")
def release_stale_command(
    output: Releases,
    reason: PublicReason,
    hours: StaleHours = 24.0,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Give back the stale reservations of a folder of releases and streams; burn those that may have read rows."""
    from dp_operators.backends.handles import look_again
    from dp_operators.releasing import release_stale

    with opened_ledger(ledger) as opened:
        done = release_stale(
            absolute_place(output),
            ledger=opened,
            older_than=timedelta(hours=hours),
            reason=reason,
            actor=known_actor(actor),
            look=look_again,
        )
    for outcome in done:
        became = f"stays reserved: {outcome.kept}" if outcome.kept else f"is {outcome.charge.state.value}"
        typer.echo(f"charge {outcome.charge.id} of release {outcome.charge.release} {became}")


@app.command()
def prune(
    output: Releases,
    days: Annotated[float, typer.Option(help="Days since the release was committed.", min=0)],
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the files; without it, they are only listed.")
    ] = False,
    ledger: LedgerUrl = None,
) -> None:
    """List or remove the files of old releases; a retry makes them again from the manifest and the draw, which stay."""
    from dp_operators.releasing.retention import prune as prune_releases

    with opened_ledger(ledger) as opened:
        done = prune_releases(absolute_place(output), opened, older_than=timedelta(days=days), remove=remove)
    for release in done:
        lines = [f"{release.release}: {release.kept}"] if release.kept else release.files
        typer.echo("\n".join(lines))
    number = sum(len(release.files) for release in done)
    typer.echo(f"{number} files {'were removed' if remove else 'would be removed; remove them with --remove'}")


@app.command("burn")
def burn_charge(
    charge: Annotated[str, typer.Argument(help="The charge's id, from `dp-budget stale`.")],
    reason: PublicReason,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Count a reservation as spent, permanently, because its store is lost and it may have drawn noise."""
    with opened_ledger(ledger) as opened:
        burnt = opened.burn(charge, actor=known_actor(actor), reason=reason)
    typer.echo(f"charge {burnt.id} of {burnt.cost.amount} is {burnt.state.value}")


@app.command("doctor")
def doctor_command(
    account: Annotated[str | None, typer.Option(help="The account that is to pay; by default all accounts.")] = None,
    output: Annotated[str | None, typer.Option(help="The folder or URI of the releases.")] = None,
    dags: Annotated[
        Path | None, typer.Option(help="Airflow's DAGs folder.", envvar="AIRFLOW__CORE__DAGS_FOLDER")
    ] = None,
    ledger: LedgerUrl = None,
) -> None:
    """Check whether this machine can make releases, one line per check; exit code 1 if a check fails."""
    from dp_operators.doctor import Finding, Machine, examine

    place = absolute_place(output) if output else None
    checks = examine(Machine(ledger=ledger, account=account, output=place, dags=dags, environ=os.environ))
    typer.echo("\n".join(map(str, checks)))
    if any(check.finding is Finding.BAD for check in checks):
        raise typer.Exit(Exit.FAILED)


@app.command("reconcile")
def reconcile_command(
    output: Releases,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Enter the charges of a folder of releases that a restored ledger lacks; exit code 1 if one cannot be entered."""
    from dp_operators.releasing import reconcile

    with opened_ledger(ledger) as opened:
        result = reconcile(absolute_place(output), opened, actor=actor_or_user(actor))
    typer.echo(f"restored {len(result.restored)} charges, committed {len(result.committed)}")
    if result.steps:
        typer.echo(f"restored {result.steps} steps of streams")
    if result.findings:
        typer.echo("\n".join(result.findings))
        raise typer.Exit(Exit.FAILED)


def main() -> None:
    """The console script."""
    sys.exit(run(app, sys.argv[1:]))


if __name__ == "__main__":
    main()
