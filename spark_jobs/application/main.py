"""The command line of the Spark application."""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Sequence

from spark_jobs.application.announcing import Announcer, divert_output
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.layout import ExitCode, ReleaseLayout, Stage
from spark_jobs.contract.request import ReleaseRequest, json_fields
from spark_jobs.contract.stores import ObjectStore, check_store, open_store


def parser() -> argparse.ArgumentParser:
    """The arguments of ``python -m spark_jobs``."""
    arguments = argparse.ArgumentParser(
        prog="python -m spark_jobs",
        description="Release differentially private diagnostics of a table. Without --charge the result is a draft "
        "that no ledger pays for, marked UNCHARGED: for developing a request.",
    )
    arguments.add_argument("request", metavar="REQUEST", help="the request: a JSON or YAML file, or its URI")
    arguments.add_argument("--output", metavar="URI", help="the folder to release into (default: the request's)")
    arguments.add_argument("--master", help="Spark master (default: local[*], or what spark-submit decided)")
    arguments.add_argument("--charge", metavar="ID", help="the ledger's charge that pays (given by the protocol)")
    arguments.add_argument("--key", metavar="KEY", help="the release key of that charge")
    arguments.add_argument(
        "--not-private-seed", type=int, metavar="N", help="draw from a seed: for tests; stamps the draft NOT PRIVATE"
    )
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application; what it says and how it ends depend on the request, the schema and the machine alone."""
    arguments = parser().parse_args(argv)
    announcer = Announcer.for_process(sys.stderr)
    private_log = None
    if not announcer.has_caller:
        outside, private_log = divert_output()
        announcer = Announcer.for_process(outside)
    try:
        _run(arguments, announcer)
    except RequestRefused as refused:
        return _refuse(arguments, announcer, refused)
    except BaseException:  # a traceback may quote a value: it goes to the private file, the caller learns nothing of it
        traceback.print_exc()
        where = "" if private_log is None else f"; what it printed is in {private_log}, inside the privacy boundary"
        announcer.line(f"the application failed{where}")
        return ExitCode.FAILED
    announcer.stage(Stage.DONE)
    return ExitCode.DONE


def _run(arguments: argparse.Namespace, announcer: Announcer) -> None:
    from spark_jobs.application.run import Charged, run_charged, run_uncharged
    from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise

    request = _read_request(arguments.request)
    output = _output(arguments, request)
    seed = arguments.not_private_seed
    if arguments.charge is None:
        if not request.knows_public_columns:
            # outside the ledger nothing is public but what the request itself declares
            ReleaseRequest.parse({**dict(request), "account": None})
        manifest = run_uncharged(
            request,
            output=output,
            store=check_store(output),
            noise=SecureNoise() if seed is None else SeededNoise(seed),
            master=arguments.master,
            announcer=announcer,
        )
        announcer.line(f"an UNCHARGED draft is at {manifest}")
        return
    if seed is not None or arguments.key is None:
        raise RequestRefused(
            "--charge", given=arguments.charge, bound="goes with --key and without --not-private-seed",
            remedy="leave charged runs to `dp-budget run` or the operator",
        )  # fmt: skip
    run_charged(
        request,
        Charged(key=arguments.key, charge_id=arguments.charge),
        output=output,
        store=open_store(output),
        noise=SecureNoise(),
        master=arguments.master,
        announcer=announcer,
    )


def _read_request(uri: str) -> ReleaseRequest:
    if "://" not in uri:
        return ReleaseRequest.from_file(uri)
    content = open_store(uri, what="request").read(uri)
    if content is None:
        raise RequestRefused("request", given=uri, bound="must be an object that can be read", remedy="check its URI")
    return ReleaseRequest.build(json_fields(content))


def _output(arguments: argparse.Namespace, request: ReleaseRequest) -> str:
    output = arguments.output or request.output
    if not output:
        raise RequestRefused("output", bound="is required", remedy="give --output, or output in the request")
    return output if "://" in output else os.path.abspath(output)  # noqa: PTH100 - keeps what is no path alone


def _refuse(arguments: argparse.Namespace, announcer: Announcer, refused: RequestRefused) -> int:
    announcer.line(str(refused))
    if arguments.charge is not None and arguments.key is not None and arguments.output:
        store: ObjectStore = open_store(arguments.output)
        layout = ReleaseLayout.of(arguments.output, arguments.key, arguments.charge)
        store.create(layout.refusal, json.dumps(refused.to_dict()).encode())
    return ExitCode.REFUSED
