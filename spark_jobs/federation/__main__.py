"""``python -m spark_jobs.federation``: keys of a participant, and a server's side of a federated release.

Exit codes: 0 done, 1 the release ended without a result, or a file or store failed; 2 refused.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from spark_jobs.contract.documents import parse_json
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.federation.agreement import Agreement, Keys
from spark_jobs.federation.exchange import FederationFailed, Summing


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
    keys = Keys.generate()
    public = keys.public(given.name)
    descriptor = os.open(given.out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(keys.to_text())
    sys.stdout.write(f"{public.model_dump_json()}\n")


def _serve(given: argparse.Namespace) -> None:
    keys = Keys.from_text(Path(given.keys).read_text())
    agreement = Agreement.parse(parse_json(Path(given.agreement).read_bytes(), what="agreement"))
    server = Summing(
        agreement=agreement,
        keys=keys,
        server=given.server,
        receipts=given.receipts,
        poll_seconds=given.poll_seconds,
    )
    sums = server.serve()
    sys.stdout.write(f"{sums} sums published; all silos have the same draw\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.federation", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    keys = commands.add_parser("keys", help="write a participant's private keys, and print what the others need")
    keys.add_argument("--name", required=True, help="of lower-case letters, digits and hyphens")
    keys.add_argument("--out", required=True, metavar="FILE", help="a new file, which its owner alone can read")
    keys.set_defaults(run=_keys)
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
    serve.set_defaults(run=_serve)
    return parser


if __name__ == "__main__":
    sys.exit(main())
