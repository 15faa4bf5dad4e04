"""What the commands of releases and of streams have in common: the ledger, places, actors and signals."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import Exit, actor_or_user, open_ledger
from spark_jobs.contract.errors import InvalidRequest


@contextmanager
def opened_ledger(url: str | None) -> Iterator[PrivacyLedger]:
    """The ledger, closed at the end; an error of a release or of its store is printed as one line."""
    from dp_operators.releasing import ReleaseError

    opened = open_ledger(url)
    try:
        yield opened
    except ReleaseError as error:
        typer.echo(f"dp-budget: {error}", err=True)
        raise typer.Exit(Exit.FAILED) from None
    finally:
        opened.close()


def absolute_place(output: str) -> str:
    """A folder's URI, or its absolute path: the ledger and the store need one that no working folder changes."""
    return output if "://" in output else str(Path(output).absolute())


def known_actor(given: str | None) -> str:
    """The actor of what cannot be undone, who must be known."""
    actor = actor_or_user(given)
    if not actor:
        raise InvalidRequest("actor", requirement="must be given", remedy="name yourself with --actor")
    return actor


class _Interrupted(SystemExit):
    """The process received SIGTERM or SIGINT."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """On SIGTERM and Ctrl-C end this process in order, so that the application does not outlive it."""

    def end(number: int, frame: object) -> None:
        for handled in before:  # a second signal must not prevent the end of the application
            signal.signal(handled, signal.SIG_IGN)
        raise _Interrupted(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    except _Interrupted:
        # not in the handler, which may interrupt the printing of another line
        typer.echo("dp-budget: interrupted; the reservation stays, and the same command continues with it", err=True)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
