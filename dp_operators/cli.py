"""``dp-budget``: the ledger on the command line, and releases without Airflow."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.budget.cli import Exit, LedgerUrl, open_ledger, run, show_version, user
from dp_operators.budget.cli import app as ledger_commands
from dp_operators.budget.commands import app as administration_commands
from dp_operators.budget.key_commands import app as key_commands
from dp_operators.budget.reports import charges_table
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.request import ReleaseRequest, load_fields

if TYPE_CHECKING:
    from dp_operators.releasing import Published

_PAID = {
    ChargeState.COMMITTED: "the release is there, or only has to be published, for",
    ChargeState.RESERVED: "it would go on with the charge that it has, of",
}

app = typer.Typer(
    name="dp-budget",
    help="The privacy ledger: accounts, what they may spend, what they have spent; and releases that it pays for.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for commands in (ledger_commands, administration_commands):
    app.add_typer(commands, name="")  # without a name its commands stand beside these

app.add_typer(key_commands, name="keys")

RequestFile = Annotated[Path, typer.Argument(metavar="REQUEST", help="The request: a JSON or YAML file.")]
Output = Annotated[str | None, typer.Option(help="Folder or URI to release into; by default the request's.")]
Key = Annotated[
    str | None,
    typer.Option(help="The release key; by default one made of the request, so that the same request is one release."),
]
Actor = Annotated[str | None, typer.Option(help="Who asks, for the audit log; the user of this machine if not given.")]


Hours = Annotated[float, typer.Option(help="Hours since its last heartbeat.", min=0)]
StaleHours = Annotated[
    float, typer.Option(help="Hours since its last heartbeat; one at least, for a release that runs has one.", min=1)
]


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command("run")
def run_release(
    request: RequestFile,
    output: Output = None,
    key: Key = None,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    private_dir: Annotated[
        Path | None, typer.Option(help="Folder inside the privacy boundary for what the application prints.")
    ] = None,
    allotment: Annotated[
        str | None, typer.Option(help="An allotment of the account that has to bear the cost as well.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say whether the release could be made, and what it would cost.")
    ] = False,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Make a release: reserve its cost, run the application, commit and publish.

    A model in the request may name the release that fitted it, and an ecdf the one to compare with: {"release": URI};
    groups may name a list of keys that is registered for the account: {"list": NAME}.

    The same command again finds the same release, or goes on where it was interrupted; it never pays twice. For
    another look at the data, with noise and a charge of its own, give another --key.
    """
    from dp_operators.releasing import LocalRunner, ReleaseError

    release_request = _request(request, output, ledger)
    runner = LocalRunner(master=master, private_dir=private_dir)
    opened = open_ledger(ledger)
    try:
        key = key or default_key(release_request, opened)
        if dry_run:
            _dry_run(release_request, opened, runner, allotment, key)
        else:
            with _ended_by_signals():
                published = _release(release_request, opened, runner, key=key, allotment=allotment, actor=actor)
            _report(published, opened)
    except ReleaseError as error:
        typer.echo(f"dp-budget: {error}", err=True)
        raise typer.Exit(Exit.FAILED) from None
    finally:
        opened.close()


@app.command("give-back")
def give_back_release(
    request: RequestFile,
    reason: Annotated[str, typer.Option(help="Why, in public words; it goes into the audit log.")],
    output: Output = None,
    key: Key = None,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Give back what an unfinished release has reserved.

    It is free again if it is certain that no row was read for it, and spent without a release otherwise. Needs the very
    request that was charged, of which the release's folder keeps a copy.
    """
    from dp_operators.releasing import ReleaseError, give_back

    release_request = _request(request, output, ledger)
    opened = open_ledger(ledger)
    try:
        charge = give_back(
            release_request,
            ledger=opened,
            key=key or default_key(release_request, opened),
            reason=reason,
            actor=_actor(actor),
        )
    except ReleaseError as error:
        typer.echo(f"dp-budget: {error}", err=True)
        raise typer.Exit(Exit.FAILED) from None
    finally:
        opened.close()
    typer.echo(f"charge {charge.id} of epsilon {plain(charge.cost.epsilon)} is {charge.state.value}")


@app.command("check-release")
def check_release_command(
    uri: Annotated[str, typer.Argument(help="The release's folder.")], ledger: LedgerUrl = None
) -> None:
    """Compare a release's files with its manifest, and that with the ledger; exit code 1 if anything differs."""
    from dp_operators.releasing import check_release_folder

    place = _place(uri)
    with _closing(ledger) as opened:
        findings = check_release_folder(place, opened)
    typer.echo("\n".join(findings) or f"{place} is what the ledger paid for")
    if findings:
        raise typer.Exit(Exit.FAILED)


@app.command("hash-pipeline")
def hash_pipeline(
    uri: Annotated[str, typer.Argument(help="The folder that the pipeline was saved to, or a copy of it.")],
) -> None:
    """Print the hash of a saved Spark ML pipeline, as `model.sha256` of a request takes it."""
    from spark_jobs.contract.store.pipelines import read_pipeline

    typer.echo(read_pipeline(_place(uri)).sha256)


@app.command()
def stale(hours: Hours = 24.0, ledger: LedgerUrl = None) -> None:
    """List the reservations that nobody has renewed for some time; they count as spent until they are given back."""
    with _closing(ledger) as opened:
        typer.echo(charges_table(opened.stale(timedelta(hours=hours))))


@app.command("release-stale")
def release_stale_command(
    output: Annotated[str, typer.Option(help="Folder or URI of the releases.")],
    reason: Annotated[str, typer.Option(help="Why, in public words; it goes into the audit log.")],
    hours: StaleHours = 24.0,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Give back the stale reservations that began in a folder of releases; burn those that may have read rows."""
    from dp_operators.releasing import release_stale

    with _closing(ledger) as opened:
        done = release_stale(
            _place(output), ledger=opened, older_than=timedelta(hours=hours), reason=reason, actor=_known_actor(actor)
        )
    for outcome in done:
        became = f"stays reserved: {outcome.kept}" if outcome.kept else f"is {outcome.charge.state.value}"
        typer.echo(f"charge {outcome.charge.id} of release {outcome.charge.release} {became}")


@app.command("burn")
def burn_charge(
    charge: Annotated[str, typer.Argument(help="The charge's id, as `dp-budget stale` lists it.")],
    reason: Annotated[str, typer.Option(help="Why, in public words; it goes into the audit log.")],
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Count a reservation as spent for good, where its store is lost and nobody can say whether it drew noise."""
    with _closing(ledger) as opened:
        burnt = opened.burn(charge, actor=_known_actor(actor), reason=reason)
    typer.echo(f"charge {burnt.id} of epsilon {plain(burnt.cost.epsilon)} is {burnt.state.value}")


@app.command("doctor")
def doctor_command(
    account: Annotated[str | None, typer.Option(help="The account that shall pay; all of them if not given.")] = None,
    output: Annotated[str | None, typer.Option(help="Folder or URI of the releases.")] = None,
    dags: Annotated[
        Path | None, typer.Option(help="Airflow's DAGs folder.", envvar="AIRFLOW__CORE__DAGS_FOLDER")
    ] = None,
    ledger: LedgerUrl = None,
) -> None:
    """Say whether this machine can make releases, one line a check; exit code 1 if something is bad."""
    from dp_operators.doctor import Finding, Machine, examine

    place = _place(output) if output else None
    checks = examine(Machine(ledger=ledger, account=account, output=place, dags=dags, environ=os.environ))
    typer.echo("\n".join(map(str, checks)))
    if any(check.finding is Finding.BAD for check in checks):
        raise typer.Exit(Exit.FAILED)


@app.command("reconcile")
def reconcile_command(
    output: Annotated[str, typer.Option(help="Folder or URI of the releases.")],
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Enter what a folder of releases remembers and a restored ledger has forgotten; exit code 1 if some cannot be."""
    from dp_operators.releasing import reconcile

    with _closing(ledger) as opened:
        result = reconcile(_place(output), opened, actor=_actor(actor))
    typer.echo(f"restored {len(result.restored)} charges, committed {len(result.committed)}")
    if result.findings:
        typer.echo("\n".join(result.findings))
        raise typer.Exit(Exit.FAILED)


@contextmanager
def _closing(url: str | None) -> Iterator[PrivacyLedger]:
    """The ledger, and the one line that says what went wrong with a store."""
    from dp_operators.releasing import ReleaseError

    opened = open_ledger(url)
    try:
        yield opened
    except ReleaseError as error:
        typer.echo(f"dp-budget: {error}", err=True)
        raise typer.Exit(Exit.FAILED) from None
    finally:
        opened.close()


def _place(output: str) -> str:
    return output if "://" in output else str(Path(output).absolute())


def default_key(request: ReleaseRequest, ledger: PrivacyLedger) -> str:
    """The release key of a request that was given none: the same for the same request, wherever it is run.

    Raises:
        InvalidRequest: its account cannot be charged for it.
        LedgerUnavailable: the ledger cannot be asked.
    """
    from dp_operators.releasing import complete
    from dp_operators.releasing.first_release import first_key

    return first_key(complete(request, ledger), ledger, written=request) or f"cli/{request.sha256}"


def main() -> None:
    """The console script."""
    sys.exit(run(app))


def _request(path: Path, output: str | None, ledger: str | None) -> ReleaseRequest:
    from dp_operators.releasing import has_references, require_no_key_file, with_references

    fields = load_fields(path)
    require_no_key_file(fields)
    if has_references(fields):
        with _closing(ledger) as opened:
            fields = with_references(fields, opened)
    request = ReleaseRequest.parse(fields)
    if output is None:
        return request
    # a folder is named from where the user stands; the ledger and the store know it by its full name
    return ReleaseRequest.parse({**request.to_dict(), "output": _place(output)})


def _release(
    request: ReleaseRequest, ledger: PrivacyLedger, runner: Any, *, key: str, allotment: str | None, actor: str | None
) -> Published:
    from dp_operators.release_check import check_release
    from dp_operators.releasing import release

    return release(
        request,
        ledger=ledger,
        runner=runner,
        key=key,
        check=check_release,
        allotment=allotment,
        actor=_actor(actor),
        progress=lambda line: typer.echo(line, err=True),
    )


def _dry_run(request: ReleaseRequest, ledger: PrivacyLedger, runner: Any, allotment: str | None, key: str) -> None:
    """Price a request, or say that its release is paid for; nothing is reserved, run or written."""
    from dp_operators.releasing import complete, forecast

    price = forecast(complete(request, ledger), ledger=ledger, runner=runner, key=key, allotment=allotment)
    cost = plain(price.cost.epsilon)
    if price.charge is not None:
        typer.echo(f"would charge nothing to {price.account}: {_PAID[price.charge.state]} epsilon {cost}")
    for block, budget in price.left.items():
        where = price.account if block == "all" else f"block {block} of {price.account}"
        typer.echo(f"would charge epsilon {cost} to {where}, which has {plain(budget.epsilon)} left")


def _report(published: Published, ledger: PrivacyLedger) -> None:
    cost = plain(published.cost.epsilon)
    if published.adopted:
        when = ledger.charge(published.charge_id).settled_at
        typer.echo(f"found: this release was made at {when} for epsilon {cost}; nothing was charged now", err=True)
    else:
        typer.echo(f"published, for epsilon {cost}", err=True)
    typer.echo(published.uri)


def _actor(given: str | None) -> str:
    return user() if given is None else given


def _known_actor(given: str | None) -> str:
    """Who answers for what cannot be undone; refused where nobody is named."""
    actor = _actor(given)
    if not actor:
        raise InvalidRequest("actor", requirement="must be named", remedy="say who you are with --actor")
    return actor


class _Interrupted(SystemExit):
    """A signal asked this process to end."""


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end this process in order, so that the application does not outlive it."""

    def end(number: int, frame: object) -> None:
        for handled in before:  # a second one shall not keep the application from being ended
            signal.signal(handled, signal.SIG_IGN)
        raise _Interrupted(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    except _Interrupted:
        # not in the handler, which may stand in the middle of another line
        typer.echo("dp-budget: interrupted; the reservation stays, and the same command goes on with it", err=True)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    main()
