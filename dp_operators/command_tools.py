"""What the commands of releases and of streams have in common: the ledger, places, actors and signals."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import Actor, Exit, LedgerUrl, actor_or_user, open_ledger
from spark_jobs.contract.embedded_engine import AUTO
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.request_documents import load_fields, without_gate
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.written import Written, read_written

PublicReason = Annotated[str, typer.Option(help="Why, in public words; it is written into the audit log.")]
RequestFile = Annotated[Path, typer.Argument(metavar="REQUEST", help="The request, a JSON or YAML file.")]
RequestFiles = Annotated[
    list[Path],
    typer.Argument(metavar="REQUEST...", help="The request, a JSON or YAML file; several, or folders of such files."),
]
Output = Annotated[str | None, typer.Option(help="The folder or URI for the release; by default the request's.")]
Key = Annotated[
    str | None,
    typer.Option(help="The release key; by default made from the request, so that equal requests are one release."),
]
Request = TypeVar("Request", bound=TableRequest)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of each command that runs the application: how it is run, who pays, and who is responsible."""

    master: Annotated[
        str, typer.Option(help="auto chooses by the request; embedded is the engine without Java; else a Spark master.")
    ] = AUTO
    conf: Annotated[
        list[str] | None,
        typer.Option(
            help="A Spark setting of memory, cores, executors or partitions, e.g. spark.driver.memory=4g; may be given "
            "several times."
        ),
    ] = None
    private_dir: Annotated[
        Path | None, typer.Option(help="A folder inside the privacy boundary for the application's output.")
    ] = None
    allotment: Annotated[
        str | None, typer.Option(help="A sub-budget of the account that must also have room for the cost.")
    ] = None
    actor: Actor = None
    ledger: LedgerUrl = field(default=None, repr=False)  # it may hold a password

    @property
    def runner_settings(self) -> dict[str, Any]:
        """The arguments for the runner that runs the application on this machine.

        Raises:
            InvalidRequest: a Spark setting has no value.
        """
        return {"master": self.master, "conf": settings_of(self.conf), "private_dir": self.private_dir}


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
    """A folder's URI, or its absolute path: for the ledger and the store it must not depend on the working folder."""
    return output if "://" in output else str(Path(output).absolute())


def settings_of(
    given: list[str] | None, *, field: str = "conf", example: str = "spark.driver.memory=4g"
) -> dict[str, str]:
    """Settings that a command line gives as NAME=VALUE.

    Raises:
        InvalidRequest: one has no value.
    """
    for setting in given or ():
        if "=" not in setting:
            raise InvalidRequest(field, setting, "must be NAME=VALUE", f"write it like {example}")
    return {name: value for name, _, value in (setting.partition("=") for setting in given or ())}


def request_of(
    kind: type[Request], path: Path, *, output: str | None, ledger: str | None
) -> Request | Written[Request]:
    """The request in a file; if only its account can complete it, the fields as they are written.

    ``output`` replaces the request's own output, and keys of the ledger replace each registered list that is named.

    Raises:
        InvalidRequest: the file has no valid request of this kind.
        LedgerUnavailable: the request refers to the ledger, which cannot be reached.
    """
    from dp_operators.releasing import has_references, require_no_key_file, with_references

    fields = load_fields(path)
    if kind is ReleaseRequest:
        fields = without_gate(fields)
    require_no_key_file(fields)
    if has_references(fields):
        with opened_ledger(ledger) as opened:
            fields = with_references(fields, opened)
    if output is not None:
        # a relative path is relative to the working folder; the ledger and the store need it absolute
        fields = {**fields, "output": absolute_place(output)}
    return read_written(kind, fields)


def give_back_reservation(
    request: TableRequest | Written[Any], ledger: PrivacyLedger, *, key: str | None, reason: str, actor: str | None
) -> None:
    """Give a reservation back, and print what became of its charge."""
    from dp_operators.releasing import ChargedRequest, give_back

    charge = give_back(ChargedRequest.of(request, ledger, key), reason=reason, actor=actor_or_user(actor))
    typer.echo(f"charge {charge.id} of {charge.cost.amount} is {charge.state.value}")


def known_actor(given: str | None) -> str:
    """The actor of a step that cannot be undone, who must be known."""
    actor = actor_or_user(given)
    if not actor:
        raise InvalidRequest("actor", None, "must be given", "name yourself with --actor")
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
        typer.echo(
            "dp-budget: interrupted; what is reserved stays reserved, and the same command continues with it", err=True
        )
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
