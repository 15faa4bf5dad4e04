"""The command line of the Spark application."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.application.progress import Announcer, divert_output
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.request_documents import json_fields
from spark_jobs.contract.store.layout import ApplicationStage, ExitCode, ReleaseLayout
from spark_jobs.contract.store.objects import check_store, open_store
from spark_jobs.contract.store.run_statement import FollowedElsewhere, NothingRead, OvertakenError
from spark_jobs.contract.store.sealing import Seal

if TYPE_CHECKING:
    from spark_jobs.application.run import Charged


def parser() -> argparse.ArgumentParser:
    """The arguments of ``python -m spark_jobs``."""
    arguments = argparse.ArgumentParser(
        prog="python -m spark_jobs",
        description="Release differentially private diagnostics of a table. Without --charge the result is a draft "
        "that no ledger pays for, marked UNCHARGED: for developing a request.",
    )
    arguments.add_argument("request", metavar="REQUEST", help="the request: a JSON or YAML file, or its URI")
    arguments.add_argument("--output", metavar="URI", help="the folder to release into (default: the request's)")
    arguments.add_argument(
        "--master", help="Spark master, embedded or auto (default: auto, or what spark-submit decided)"
    )
    arguments.add_argument("--charge", metavar="ID", help="the ledger's charge that pays (given by the protocol)")
    arguments.add_argument("--key", metavar="KEY", help="the release key of that charge")
    arguments.add_argument("--request-sha256", metavar="HASH", help="the hash of the request that was charged")
    arguments.add_argument("--run", type=int, metavar="N", help="the number of this run of that charge")
    arguments.add_argument("--draw", metavar="HASH", default="", help="the hash of its draw, where the ledger has it")
    arguments.add_argument("--steps", metavar="FIRST:UNTIL", help="the steps of a stream that this run releases")
    arguments.add_argument("--previous", metavar="FIRST:HASH", help="the last recorded object of that stream")
    arguments.add_argument("--document-sha256", metavar="HASH", help="the hash of the stream's request of this run")
    arguments.add_argument("--follow", metavar="URI", default="", help="Spark's checkpoint of a stream to be followed")
    arguments.add_argument(
        "--not-private-seed", type=int, metavar="N", help="draw from a seed: for tests; stamps the draft NOT PRIVATE"
    )
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application; its output and exit code depend on the request, the schema and the machine alone."""
    arguments = parser().parse_args(argv)
    # matrices are small: threads of the linear algebra would only wait for one another, most where releases run at once
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    announcer = Announcer.for_process(sys.stderr)
    private_log = None
    if not announcer.has_caller:
        outside, private_log = divert_output()
        announcer = Announcer.for_process(outside)
    if arguments.charge is not None:
        return _run_charged(arguments, announcer, private_log)
    try:
        _run_uncharged(arguments, announcer)
    except InvalidRequest as refused:
        announcer.line(str(refused))
        return ExitCode.REFUSED
    except BaseException:
        return _failed(announcer, private_log)
    announcer.stage(ApplicationStage.DONE)
    return ExitCode.DONE


def _failed(announcer: Announcer, private_log: Path | None) -> int:
    """Report a failure while its exception is handled; the traceback may quote a value, so it stays private."""
    traceback.print_exc()
    where = "" if private_log is None else f"; its output is in {private_log}, inside the privacy boundary"
    announcer.line(f"the application failed{where}")
    return ExitCode.FAILED


def _run_uncharged(arguments: argparse.Namespace, announcer: Announcer) -> None:
    from spark_jobs.application.run import run_uncharged
    from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise

    request = _read_request(arguments.request)
    output = _output(arguments, request)
    seed = arguments.not_private_seed
    if not request.knows_public_columns:
        # outside the ledger only what the request itself declares is public
        request.changed(account=None)
    manifest = run_uncharged(
        request,
        output=output,
        store=check_store(output),
        noise=SecureNoise() if seed is None else SeededNoise(seed),
        master=_master_of_draft(arguments.master, request, announcer),
        announcer=announcer,
    )
    announcer.line(f"an UNCHARGED draft is at {manifest}")


def _master_of_draft(master: str | None, request: ReleaseRequest, announcer: Announcer) -> str | None:
    """The master of an uncharged run, which only a run on this machine that names none leaves to choice."""
    from spark_jobs.application.connect import connects
    from spark_jobs.application.java import java_home
    from spark_jobs.application.session import under_spark_submit
    from spark_jobs.contract.embedded_engine import AUTO
    from spark_jobs.embedded.choice import choose_engine, without_either
    from spark_jobs.embedded.installed import require_one_pyspark, require_spark

    if connects(master) or under_spark_submit():
        return master
    require_one_pyspark()
    engine = choose_engine(request, master=master or AUTO, settings=(), environment=os.environ)
    if engine.why:
        announcer.line(engine.why)
    if engine.fault is not None:
        try:
            require_spark()
            java_home()
        except InvalidRequest as missing:
            raise without_either(engine, missing) from None
    return engine.master


def _run_charged(arguments: argparse.Namespace, announcer: Announcer, private_log: Path | None) -> int:
    """One run for a charge. If it ends before it reads a row, it stores a sealed statement of that.

    From the first row on nothing is refused: the difference between a refusal and a failure would be an answer about
    the rows, so every error is a failure, and the charge stays in place.
    """
    try:
        charged = _charged(arguments)
    except InvalidRequest as refused:
        announcer.line(str(refused))
        return ExitCode.REFUSED
    try:
        (_draft if arguments.steps is None else _advance)(arguments, charged, announcer)
    except BaseException as error:
        if isinstance(error, OvertakenError):
            _state(arguments, charged, FollowedElsewhere(run=charged.run).to_json())
            announcer.line("another run follows this stream, and was first to store a step")
            return ExitCode.FAILED
        if announcer.may_have_read_rows:
            return _failed(announcer, private_log)
        refusal = error if isinstance(error, InvalidRequest) else None
        _state(arguments, charged, NothingRead.of(charged.run, refusal).to_json())
        if refusal is None:
            return _failed(announcer, private_log)
        announcer.line(str(refusal))
        return ExitCode.REFUSED
    announcer.stage(ApplicationStage.DONE)
    return ExitCode.DONE


def _charged(arguments: argparse.Namespace) -> Charged:
    from spark_jobs.application.run import Charged

    needed = (arguments.key, arguments.run, arguments.request_sha256, arguments.output)
    if arguments.not_private_seed is not None or None in needed:
        raise InvalidRequest(
            "--charge", arguments.charge,
            "must be given together with --key, --run, --request-sha256 and --output, and without --not-private-seed",
            "leave charged runs to `dp-budget run` or the operator",
        )  # fmt: skip
    seal = Seal.take_from(os.environ, charge_id=arguments.charge, request_sha256=arguments.request_sha256)
    return Charged(key=arguments.key, seal=seal, run=arguments.run, draw_sha256=arguments.draw)


def _draft(arguments: argparse.Namespace, charged: Charged, announcer: Announcer) -> None:
    from spark_jobs.application.run import run_charged
    from spark_jobs.mechanisms.noise import SecureNoise

    store = open_store(arguments.output)
    run_charged(
        # files that it names must not be opened before its hash is compared with that of the charged request
        ReleaseRequest.from_json(_content(arguments.request)),
        charged,
        output=arguments.output,
        store=store,
        noise=SecureNoise(),
        master=arguments.master,
        announcer=announcer,
    )


def _advance(arguments: argparse.Namespace, charged: Charged, announcer: Announcer) -> None:
    from functools import partial

    from spark_jobs.application.streams.batches import spark_micro_batches
    from spark_jobs.application.streams.chain import ObjectChain, StreamTask
    from spark_jobs.application.streams.follow import WallClock, follow_stream
    from spark_jobs.application.streams.run import count_with_spark, run_stream
    from spark_jobs.contract.embedded_engine import EMBEDDED, require_embedded
    from spark_jobs.contract.stream_keys import StreamKeys
    from spark_jobs.contract.stream_request import StreamRequest
    from spark_jobs.mechanisms.noise import SecureNoise

    request = StreamRequest.from_json(_content(arguments.request))
    if arguments.master == EMBEDDED:
        require_embedded(request)
    first, _, until = arguments.steps.partition(":")
    segment, _, previous = (arguments.previous or "").partition(":")
    task = StreamTask(
        key=charged.key,
        seal=charged.seal,
        first=int(first),
        until=int(until),
        segment=int(segment),
        previous=previous,
        document_sha256=str(arguments.document_sha256),
        checkpoint=arguments.follow,
    )
    chain = ObjectChain.open(
        request,
        task,
        output=arguments.output,
        store=open_store(arguments.output),
        keys=StreamKeys.take_from(os.environ),
        noise=SecureNoise(),
        embedded=arguments.master == EMBEDDED,
    )
    if not task.checkpoint:
        run_stream(chain, count=count_with_spark(arguments.master), announcer=announcer)
        return
    open_batches = partial(
        spark_micro_batches, chain.request, checkpoint=task.checkpoint, unit_salt=chain.unit_salt,
        master=arguments.master, announcer=announcer,
    )  # fmt: skip
    follow_stream(chain, open_batches=open_batches, clock=WallClock(), announcer=announcer)


def _state(arguments: argparse.Namespace, charged: Charged, statement: bytes) -> None:
    """Store what a run states of its own end."""
    layout = ReleaseLayout.of(arguments.output, charged.key, charged.seal.charge_id)
    sealed = charged.seal.close(f"run-{charged.run}.json", statement)
    open_store(arguments.output).create(layout.statement(charged.run), sealed)


def _content(uri: str) -> bytes:
    content = open_store(uri, what="request").read(uri)
    if content is None:
        raise InvalidRequest("request", uri, "must be an object that can be read", "check its URI")
    return content


def _read_request(uri: str) -> ReleaseRequest:
    if "://" not in uri:
        return ReleaseRequest.from_file(uri)
    return ReleaseRequest.build(json_fields(_content(uri)))


def _output(arguments: argparse.Namespace, request: ReleaseRequest) -> str:
    output = arguments.output or request.output
    if not output:
        raise InvalidRequest("output", None, "is required", "give --output, or output in the request")
    return output if "://" in output else os.path.abspath(output)  # noqa: PTH100 - keeps what is no path alone
