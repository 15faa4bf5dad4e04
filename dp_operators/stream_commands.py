"""``dp-budget stream``: streams of counts without Airflow."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dp_operators.budget.cli import Actor, Exit, LedgerUrl, actor_or_user
from dp_operators.budget.option_groups import with_option_groups
from dp_operators.command_tools import (
    PublicReason,
    RunOptions,
    absolute_place,
    ended_by_signals,
    give_back_reservation,
    known_actor,
    opened_ledger,
    request_of,
)
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.store.layout import ApplicationStage
from spark_jobs.contract.stream_request import StreamRequest, instant

if TYPE_CHECKING:
    from dp_operators.releasing import ChargedRequest
    from dp_operators.releasing.stream_attempts import AdvancedStream

app = typer.Typer(
    help="Streams of counts: released step by step, and paid for once.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

StreamFile = Annotated[Path, typer.Argument(metavar="REQUEST", help="The stream's request, a JSON or YAML file.")]
StreamOutput = Annotated[str | None, typer.Option(help="The folder or URI for the stream; by default the request's.")]
StreamKey = Annotated[
    str | None, typer.Option(help="The stream's key; by default made from the request without its snapshot.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report which steps are due, and what the stream costs.")]


@app.command("advance")
@with_option_groups
def advance_command(
    request: StreamFile,
    *,
    output: StreamOutput = None,
    until: Annotated[
        str | None, typer.Option(help="Release the steps that have ended by this instant; by default by now.")
    ] = None,
    key: StreamKey = None,
    options: RunOptions,
    dry_run: DryRun = False,
) -> None:
    """Release every step that has ended and is not released yet, in order; the first call charges the whole stream.

    Repeating the command releases only what is due. A stream that was interrupted continues; no step is drawn twice.
    The table's snapshot may differ between calls; everything else must stay as it was charged. The keys that encrypt
    the stream's state come from DP_DIAGNOSTICS_STREAM_KEYS, or the file DP_DIAGNOSTICS_STREAM_KEYS_FILE.
    """
    from dp_operators.releasing import ChargedRequest, LocalRunner
    from dp_operators.releasing.stream_views import refresh_report
    from dp_operators.releasing.streams import advance_stream, require_mode

    written = request_of(StreamRequest, request, output=output, ledger=options.ledger)
    moment = _until(until)
    runner = LocalRunner(**options.runner_settings)
    with opened_ledger(options.ledger) as opened:
        charged = ChargedRequest.of(written, opened, key)
        stream = charged.request
        require_mode(stream, followed=False)
        if dry_run:
            _forecast(charged, runner, stream.steps_before(moment), allotment=options.allotment)
            return
        with ended_by_signals():
            advanced = advance_stream(
                charged,
                runner=runner,
                until=moment,
                allotment=options.allotment,
                actor=actor_or_user(options.actor),
                progress=lambda line: typer.echo(line, err=True),
            )
        if advanced.released and not refresh_report(advanced.uri):
            typer.echo("report.html could not be made; the next run makes it, and no step depends on it", err=True)
        if stream.monitors:
            _print_alarms(advanced)
    _report(advanced, stream)


@app.command("follow")
@with_option_groups
def follow_command(
    request: StreamFile,
    *,
    output: StreamOutput = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="A folder or URI for Spark's checkpoints, inside the privacy boundary and kept between runs; by "
            "default in --private-dir."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="End when the steps that are closed by this instant are released; by default with the stream."
        ),
    ] = None,
    key: StreamKey = None,
    options: RunOptions,
    dry_run: DryRun = False,
) -> None:
    """Count rows as they arrive, and release each step when the clock closes it, until the stream ends.

    The first call charges the whole stream. After an interruption, even by kill -9, repeat the call: it continues the
    stream, and counts each row once. SIGTERM and Ctrl-C end it. The keys that encrypt the stream's state come from
    DP_DIAGNOSTICS_STREAM_KEYS, or the file DP_DIAGNOSTICS_STREAM_KEYS_FILE.
    """
    from dp_operators.releasing import ChargedRequest, LocalRunner
    from dp_operators.releasing.processes import PrivateFolder
    from dp_operators.releasing.stream_views import refresh_report
    from dp_operators.releasing.streams import follow_stream, require_mode

    written = request_of(StreamRequest, request, output=output, ledger=options.ledger)
    runner = LocalRunner(**options.runner_settings)
    place = str(PrivateFolder(path=options.private_dir).open() / "checkpoints") if checkpoint is None else checkpoint
    with opened_ledger(options.ledger) as opened:
        charged = ChargedRequest.of(written, opened, key)
        stream = charged.request
        require_mode(stream, followed=True)
        if dry_run:
            due = stream.steps_closed(dt.datetime.now(dt.UTC))
            _forecast(charged, runner, due, allotment=options.allotment)
            return
        with ended_by_signals():
            advanced = follow_stream(
                charged,
                runner=runner,
                checkpoint=absolute_place(place),
                until=None if until is None else instant(until, field="until"),
                allotment=options.allotment,
                actor=actor_or_user(options.actor),
                progress=_echo_unless_waiting,
                published=refresh_report,
            )
    _report(advanced, stream)


@app.command("show")
def show_command(
    request: StreamFile, output: StreamOutput = None, key: StreamKey = None, ledger: LedgerUrl = None
) -> None:
    """Show how far a stream is, and compare its published steps with the ledger; exit code 1 if they differ."""
    from dp_operators.releasing import ChargedRequest
    from dp_operators.releasing.stream_records import stream_status

    written = request_of(StreamRequest, request, output=output, ledger=ledger)
    with opened_ledger(ledger) as opened:
        charged = ChargedRequest.of(written, opened, key)
        stream = charged.request
        status = stream_status(charged)
    typer.echo(f"stream {charged.key}: {status.state}, epsilon {plain(stream.budget.epsilon)}")
    typer.echo(f"{status.steps} of {stream.steps} steps are released, up to {_moment(stream, status.steps)}")
    typer.echo("\n".join(status.findings) or f"{status.uri} is what the ledger recorded")
    if status.findings:
        raise typer.Exit(Exit.FAILED)


@app.command("give-back")
def give_back_command(
    request: StreamFile,
    reason: PublicReason,
    output: StreamOutput = None,
    key: StreamKey = None,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """Give back what a stream without a released step has reserved.

    The charge becomes void if it is certain that no row was read for it, and burnt otherwise. The charge of a stream
    that has released a step stays as it is.
    """
    written = request_of(StreamRequest, request, output=output, ledger=ledger)
    with opened_ledger(ledger) as opened:
        give_back_reservation(written, opened, key=key, reason=reason, actor=actor)


@app.command("end")
def end_command(
    request: StreamFile,
    reason: PublicReason,
    output: StreamOutput = None,
    key: StreamKey = None,
    remove_state: Annotated[
        bool, typer.Option("--remove-state", help="Remove the stream's encrypted state from its store.")
    ] = False,
    actor: Actor = None,
    ledger: LedgerUrl = None,
) -> None:
    """End a stream for good: no further step is released, what is published stays, and the charge stays spent.

    Its encrypted state, which holds a keyed hash of each unit whose rows were used, is no longer needed: --remove-state
    removes it from the store, now or when the command is repeated.
    """
    from dp_operators.releasing import ChargedRequest
    from dp_operators.releasing.stream_records import end_stream

    written = request_of(StreamRequest, request, output=output, ledger=ledger)
    with opened_ledger(ledger) as opened:
        charged = ChargedRequest.of(written, opened, key)
        stream = charged.request
        head = end_stream(charged, reason=reason, actor=known_actor(actor), remove_state=remove_state)
    state = "is removed" if remove_state else "stays in the store"
    typer.echo(
        f"stream {charged.key} is ended with {head.released} of {stream.steps} steps; its encrypted state {state}"
    )


def _echo_unless_waiting(line: str) -> None:
    """Print a public line, but not every few seconds of a wait of hours."""
    if not line.startswith(f"{ApplicationStage.WAITING} ..."):
        typer.echo(line, err=True)


def _until(given: str | None) -> dt.datetime:
    """The instant of the option --until, by default now.

    Raises:
        InvalidRequest: it is no instant, or has not come yet: a step is released once, so that rows still to come in a
            step that has not ended would never be counted.
    """
    now = dt.datetime.now(dt.UTC)
    moment = now if given is None else instant(given, field="until")
    if moment > now:
        raise InvalidRequest(
            "until", given, "must not lie in the future, because a step is released once, after its end",
            "leave it out to release all steps that have ended by now",
        )  # fmt: skip
    return moment


def _forecast(charged: ChargedRequest[StreamRequest], runner: Any, due: int, *, allotment: str | None) -> None:
    """Print the cost of a stream and its due steps; nothing is reserved, run or written."""
    from dp_operators.releasing import forecast

    price = forecast(charged, runner=runner, allotment=allotment)
    cost, steps = plain(price.cost.epsilon), 0
    if price.charge is not None:
        steps = charged.ledger.stream_head(price.charge.id).released
        typer.echo(f"would charge nothing to {charged.account}: the stream is paid for, with epsilon {cost}")
    for block, budget in price.left.items():
        where = charged.account if block == "all" else f"block {block} of {charged.account}"
        typer.echo(f"would charge epsilon {cost} once to {where}, which has {plain(budget.epsilon)} left")
    if price.engine:
        typer.echo(price.engine)
    typer.echo(f"{max(0, due - steps)} steps are due; {steps} of {charged.request.steps} are released")


def _report(advanced: AdvancedStream, request: StreamRequest) -> None:
    if advanced.released:
        last = advanced.steps - 1
        typer.echo(f"released steps {advanced.first} to {last}, up to {_moment(request, advanced.steps)}", err=True)
    else:
        typer.echo(f"no step is due: {advanced.steps} of {request.steps} are released", err=True)
    typer.echo(advanced.uri)
    typer.echo(f"report: {advanced.uri}/report.html", err=True)


def _print_alarms(advanced: AdvancedStream) -> None:
    """Print how many conditions of monitors hold, and the alarms that began with the steps that were released."""
    from dp_operators.releasing.stream_views import stream_alarms

    alarms = stream_alarms(advanced.uri)
    if alarms is None:
        return
    typer.echo(f"{alarms.in_force} conditions of monitors hold, of {alarms.watched} counts that are watched", err=True)
    for alarm in alarms.begun_from(advanced.first) if advanced.released else ():
        typer.echo(f"alarm: {alarm.line()}", err=True)


def _moment(request: StreamRequest, step: int) -> str:
    return request.step_begins(step).isoformat().replace("+00:00", "Z")
