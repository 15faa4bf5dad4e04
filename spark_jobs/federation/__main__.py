"""``python -m spark_jobs.federation``: keys, agreements, serving a federated release, and later questions.

Exit codes: 0 done, 1 the release ended without a result, or a file or store failed; 2 refused.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_jobs.contract.agreement import Agreement, Participant, Server
from spark_jobs.contract.documents import parse_json
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import FEDERATIONS_VARIABLE, Federation, Registration, registered_file
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.request_documents import load_fields
from spark_jobs.contract.tables import SparkMLModel
from spark_jobs.federation.agreement import Keys, server_of, silo_of
from spark_jobs.federation.exchange import FederationFailed, Meeting
from spark_jobs.federation.own_keys import AgreementClosed, destroy, erase, is_closed, read_keys, registered_keys
from spark_jobs.federation.serving import Summing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        given.run(given)
    except InvalidRequest as refused:
        sys.stderr.write(f"refused: {refused}\n")
        return 2
    except (FederationFailed, OSError) as failed:
        sys.stderr.write(f"failed: {failed}\n")
        return 1
    return 0


def _keys(given: argparse.Namespace) -> None:
    keys = Keys.generate(lasting=given.lasting)
    public = keys.public(given.name)
    _write_new(Path(given.out), keys.to_text(), mode=0o600)
    sys.stdout.write(f"{public.model_dump_json()}\n")


def _agree(given: argparse.Namespace) -> None:
    request = ReleaseRequest.parse({**load_fields(given.request), "federation": "agreed"})
    if isinstance(request.model, SparkMLModel) and request.model.sha256 is None:
        raise InvalidRequest(
            "model.sha256", None, "is required of a pipeline that several silos use",
            "give the hash that `dp-budget hash-pipeline` prints",
        )  # fmt: skip
    agreement = Agreement(
        session=given.session,
        request_sha256=request.shared_sha256,
        epsilon=request.budget.epsilon,
        silos=tuple(Participant.parse(_document(path, "silo")) for path in given.silo),
        servers=tuple(
            Server.parse({**_document(path, "server"), "folder": folder})
            for path, _, folder in (entry.partition("=") for entry in given.server)
        ),
        colluding=len(given.server) - 1,
        silos_per_person=given.silos_per_person,
        wait_seconds=given.wait_seconds,
    )
    preflight(request.model_copy(update={"federation": Federation(name="agreed", agreement=agreement)}))
    sys.stdout.write(f"{agreement.model_dump_json(indent=2)}\n")


def _join(given: argparse.Namespace) -> None:
    agreement = Agreement.parse(_document(given.agreement, "agreement"))
    name = Federation(name=given.name).name
    own = read_keys(Path(given.keys), name=given.keys, field="keys")
    text, owner = own.to_text(), (silo_of if given.receipts is None else server_of)(agreement, own)
    registration = Registration(agreement=agreement, account=given.account, receipts=given.receipts)
    folder = {FEDERATIONS_VARIABLE: given.folder or os.environ.get(FEDERATIONS_VARIABLE, "")}
    _require_unregistered(folder, agreement, text)
    _write_new(registered_file(folder, name, "keys"), text, mode=0o600)
    _write_new(registered_file(folder, name, "json"), registration.model_dump_json(indent=2), mode=0o644)
    if not own.lasting:
        erase(Path(given.keys))  # from here on, the registered ones alone are to be destroyed
    role = f"server {owner}" if given.account is None else f"silo {owner}, account {given.account},"
    sys.stdout.write(
        f"{role} takes part in {name} once, for epsilon {plain(agreement.epsilon)} in each silo; "
        f"silos: {', '.join(member.name for member in agreement.silos)}; "
        f"servers: {', '.join(server.name for server in agreement.servers)}\n"
    )


def _require_unregistered(folder: Mapping[str, str], agreement: Agreement, keys: str) -> None:
    """Reject an agreement that these keys have: whether two accounts' counts are equal would be an exact answer."""
    for path in sorted(registered_file(folder, "*", "keys").parent.glob("*.keys")):
        if path.read_text() != keys:
            continue
        if Registration.read(folder, path.stem).agreement == agreement:
            raise InvalidRequest(
                "agreement", None, f"must be registered only once, and is registered already as {path.stem}",
                "use that name, or agree on a new session",
            )  # fmt: skip
        if not Keys.from_text(keys).lasting:
            raise InvalidRequest(
                "keys", None, f"must be used for this agreement alone, and are registered already as {path.stem}",
                "make new keys and a new agreement with them, or make keys with --lasting",
            )  # fmt: skip


def _write_new(path: Path, text: str, *, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)


def _document(path: str, what: str) -> Any:
    return parse_json(Path(path).read_bytes(), what=what)


def _serve(given: argparse.Namespace) -> None:
    try:
        keys = read_keys(Path(given.keys), name=given.keys, field="keys")
    except AgreementClosed as closed:  # an earlier attempt has served it to its end
        sys.stdout.write(f"{closed}\n")
        return
    agreement = Agreement.parse(_document(given.agreement, "agreement"))
    server = Summing(
        agreement=agreement,
        keys=keys,
        server=given.server,
        receipts=given.receipts,
        poll_seconds=given.poll_seconds,
        keys_file=Path(given.keys),
    )
    sums = server.serve(answer_seconds=given.answer_seconds)
    sys.stdout.write(f"{sums} sums published; all silos have the same draw\n")


def _close(given: argparse.Namespace) -> None:
    folder = {FEDERATIONS_VARIABLE: given.folder or os.environ.get(FEDERATIONS_VARIABLE, "")}
    name, path = Federation(name=given.name).name, registered_file(folder, given.name, "keys")
    agreement = Registration.read(folder, name).agreement
    if not is_closed(path):
        keys = registered_keys(folder, name)
        if keys.lasting:
            raise InvalidRequest(
                "keys", name, "must be keys for a single agreement, and these keys are for several",
                "remove the keys yourself, once none of these agreements is in use",
            )  # fmt: skip
        # whoever has the registration can read what any server has answered
        left = Meeting(agreement=agreement, keys=keys).left()
        if left != 0 and not given.give_up:
            raise InvalidRequest(
                "federation", name,
                "has not ended" if left is None else f"has {left} evaluations left that were paid for",
                "wait, or give up what is left with --give-up",
            )  # fmt: skip
    destroy(path)
    sys.stdout.write(f"{name} is closed, and its keys are destroyed\n")


def _ask(given: argparse.Namespace) -> None:
    from spark_jobs.application.asking import ask  # it draws reports, which no other command needs

    manifest = ask(
        Path(given.release).read_bytes(),
        thresholds=sorted(set(given.threshold)),
        quantiles=given.quantile,
        output=given.output,
        poll_seconds=given.poll_seconds,
    )
    sys.stdout.write(f"{manifest}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.federation", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    keys = commands.add_parser("keys", help="write a participant's private keys, and print what the others need")
    keys.add_argument("--name", required=True, help="of lower-case letters, digits and hyphens")
    keys.add_argument("--out", required=True, metavar="FILE", help="a new file, which its owner alone can read")
    keys.add_argument("--lasting", action="store_true", help="for several agreements: they are then never destroyed")
    keys.set_defaults(run=_keys)
    agree = commands.add_parser("agree", help="print the agreement of silos and servers on a request")
    agree.add_argument("request", metavar="REQUEST", help="one silo's request; table, account and output may differ")
    agree.add_argument("--session", required=True, help="a text that no other release of these participants has")
    agree.add_argument(
        "--silo", required=True, action="append", metavar="FILE", help="what `keys` printed for a silo; once for each"
    )
    agree.add_argument(
        "--server",
        required=True,
        action="append",
        metavar="FILE=FOLDER",
        help="what `keys` printed for a server, and the folder or URI where it meets the silos; once for each",
    )
    agree.add_argument(
        "--silos-per-person", type=int, default=1, help="the most silos that hold rows of one person (default: 1)"
    )
    agree.add_argument(
        "--wait-seconds", type=float, default=3600.0, help="how long each waits for the others (default: 3600)"
    )
    agree.set_defaults(run=_agree)
    join = commands.add_parser("join", help="register an agreement for one account of this silo, or for this server")
    join.add_argument("agreement", metavar="AGREEMENT.json")
    join.add_argument("--name", required=True, help="under which requests name it")
    role = join.add_mutually_exclusive_group(required=True)
    role.add_argument("--account", help="of a silo: the account whose requests may take part")
    role.add_argument("--receipts", metavar="FOLDER", help="of a server: kept by it alone, what it has summed")
    join.add_argument(
        "--keys", required=True, metavar="FILE", help="own private keys, which are moved, or copied if lasting"
    )
    join.add_argument("--folder", help=f"of registered federations (default: that of {FEDERATIONS_VARIABLE})")
    join.set_defaults(run=_join)
    serve = commands.add_parser("serve", help="sum shares and add noise until all silos have ended")
    serve.add_argument("agreement", metavar="AGREEMENT.json")
    serve.add_argument("--server", required=True, help="this server's name in the agreement")
    serve.add_argument("--keys", required=True, metavar="FILE", help="this server's private keys")
    serve.add_argument(
        "--receipts", required=True, metavar="FOLDER", help="kept by this server alone: what it has summed"
    )
    serve.add_argument(
        "--poll-seconds", type=float, default=1.0, help="pause between looks into the folder (default: 1)"
    )
    serve.add_argument(
        "--answer-seconds", type=float, default=0.0, metavar="SECONDS",
        help="wait so long for each further question after the end, while evaluations are left (default: 0)",
    )  # fmt: skip
    serve.set_defaults(run=_serve)
    close = commands.add_parser("close", help="destroy the keys of an agreement of which nothing is left")
    close.add_argument("name", metavar="NAME", help="under which it is registered")
    close.add_argument("--give-up", action="store_true", help="although it has not ended, or evaluations are left")
    close.add_argument("--folder", help=f"of registered federations (default: that of {FEDERATIONS_VARIABLE})")
    close.set_defaults(run=_close)
    ask = commands.add_parser("ask", help="release further points, which a release of this silo has paid for")
    ask.add_argument("release", metavar="release.json", help="what this silo has released, with cdf_points")
    ask.add_argument("--threshold", type=float, action="append", default=[], help="a value; once for each")
    ask.add_argument("--quantile", type=float, action="append", default=[], help="a level; once for each")
    ask.add_argument("--output", required=True, metavar="FOLDER", help="a new folder or URI")
    ask.add_argument("--poll-seconds", type=float, default=1.0, help="pause between looks for answers (default: 1)")
    ask.set_defaults(run=_ask)
    return parser


if __name__ == "__main__":
    sys.exit(main())
