"""The application's side of the protocol without Spark: a draw, deterministic bytes, and every failpoint.

As a program it takes the arguments of ``python -m spark_jobs`` in its charged form. ``DP_FAKE`` says how it behaves:
``refuse`` refuses the request, ``fail`` fails among the rows, ``fail early`` before it reads one, ``wait:FILE`` counts
until FILE is there, ``stubborn`` ignores SIGTERM. ``DP_FAKE_FOUND`` is a JSON file with fields of the manifest, such as
``results`` and ``left_out``.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from dp_operators.releasing import Submission
from spark_jobs.contract import Budget, InvalidRequest, Release, ReleaseFile, ReleaseRequest
from spark_jobs.contract.account import AccountState
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.store.draft_folder import DraftFolder
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import STAGE_NONCE_VARIABLE, ApplicationStage, ExitCode, ReleaseLayout, stage_line
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.contract.store.run_statement import NothingRead
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE, Seal, SealBroken, sha256

CHOICE = "rows_per_unit"
SECRET_ROW = "a-private-value-4711"
SWAPPED = InvalidRequest("request", None, "must be the one that was charged", "find out who wrote it")
REFUSAL = InvalidRequest("table.path", "/lake/t", "must be a table", "check the path")
Point = Callable[[str], None]


def main(argv: Sequence[str] | None = None) -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("request")
    for name in ("--charge", "--key", "--output", "--master", "--run", "--request-sha256", "--draw"):
        arguments.add_argument(name, default="")
    given = arguments.parse_args(argv)
    nonce = os.environ.get(STAGE_NONCE_VARIABLE, "")
    print(f"a Spark log line with {SECRET_ROW}", flush=True)
    print(stage_line(ApplicationStage.READING, "a forged nonce"), flush=True)
    submission = Submission(
        request_uri=given.request,
        request_sha256=given.request_sha256,
        charge_id=given.charge,
        key=given.key,
        output=given.output,
        run=int(given.run),
        draw_sha256=given.draw,
        secret=bytes.fromhex(os.environ[RUN_SECRET_VARIABLE]),
    )
    return run(
        submission,
        store=open_store(given.output),
        say=lambda stage: print(stage_line(stage, nonce), flush=True),
        behaviour=os.environ.get("DP_FAKE", ""),
    )


def seal_of(submission: Submission) -> Seal:
    return Seal(secret=submission.secret, charge_id=submission.charge_id, request_sha256=submission.request_sha256)


def run(
    submission: Submission,
    *,
    store: ObjectStore,
    behaviour: str = "",
    say: Callable[[ApplicationStage], None] = lambda stage: None,
    point: Point = failpoint,
) -> int:
    """One run of the application; ``point`` is called with the name of every step's beginning and end."""
    layout = ReleaseLayout.of(submission.output, submission.key, submission.charge_id)
    seal = seal_of(submission)

    def nothing_read(refused: InvalidRequest | None) -> int:
        statement = NothingRead.of(submission.run, refused).to_json()
        store.create(layout.statement(submission.run), seal.close(f"run-{submission.run}.json", statement))
        return ExitCode.FAILED if refused is None else ExitCode.REFUSED

    content = store.read(submission.request_uri)
    if content is None:
        return ExitCode.FAILED
    request = ReleaseRequest.from_json(content)
    if request.sha256 != submission.request_sha256:
        return nothing_read(SWAPPED)
    stored = store.read(layout.draw)
    if stored is None and not submission.draw_sha256:
        say(ApplicationStage.STARTING)
        point("before_read")
        if behaviour == "refuse":
            return nothing_read(REFUSAL)
        if behaviour == "fail early":
            return nothing_read(None)
        if behaviour == "fail":
            print(f"Traceback: cannot cast {SECRET_ROW}", flush=True)
            return ExitCode.FAILED
        try:
            account = AccountState.opened(store.read(layout.account) or b"", seal)
        except SealBroken:
            return nothing_read(SWAPPED)
        say(ApplicationStage.READING)
        point("after_read")
        say(ApplicationStage.COUNTING)
        point("before_count")
        _count(behaviour)
        point("after_count")
        say(ApplicationStage.DRAWING)
        point("before_draw")
        drawn = draw_of(submission.charge_id, request, account)
        point("after_draw")
        point("before_store_draw")
        store.create(layout.draw, seal.close("draw.json", drawn))
        point("after_store_draw")
        stored = store.read(layout.draw)
    if stored is None or submission.draw_sha256 not in ("", sha256(stored)):
        return ExitCode.FAILED
    folder = DraftFolder(store=store, layout=layout, seal=seal, draw_sha256=sha256(stored))
    _write_draft(folder, submission.key, json.loads(seal.open("draw.json", stored)), say, point)
    say(ApplicationStage.DONE)
    return ExitCode.DONE


def _count(behaviour: str) -> None:
    word, _, gate = behaviour.partition(":")
    if word == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while gate and not Path(gate).exists():
        time.sleep(0.01)


def of_rho(rho: Decimal) -> dict[str, Any]:
    spent = {"diagnostic": "aggregates", "label": "noise", "epsilon": "0", "delta": "0", "law": "gaussian"}
    return {
        "cost": {"epsilon": "0", "delta": "0", "rho": plain(rho)},
        "events": [{**spent, "rho": plain(rho)}],
        "noise": [{"gaussian": plain(rho)}],
    }


def draw_of(charge_id: str, request: ReleaseRequest, account: AccountState, /, **changes: Any) -> bytes:
    epsilon, of_row = plain(request.budget.epsilon), plain(request.budget.epsilon / request.unit.max_rows)
    fields = {
        "format": 1,
        "kind": "draw",
        "charge_id": charge_id,
        "request_sha256": request.sha256,
        "guarantee": PRIVATE,
        "cost": {"epsilon": epsilon, "delta": "0"},
        "events": [{"diagnostic": "roc_curve", "label": "noise", "epsilon": of_row, "delta": "0"}],
        "noise": [{"laplace": of_row}],
        **({} if request.budget.rho is None else of_rho(request.budget.rho)),
        "account": account.model_dump(mode="json"),
        "drawn": secrets.token_hex(16),
        "request": request.to_dict(),
    }
    return json.dumps({**fields, **changes}).encode()


def _write_draft(
    folder: DraftFolder, key: str, draw: dict[str, Any], say: Callable[[ApplicationStage], None], point: Point
) -> None:
    request = ReleaseRequest.parse(draw["request"])
    account = json.dumps(draw["account"]).encode()
    say(ApplicationStage.WRITING)
    point("before_results")
    found = os.environ.get("DP_FAKE_FOUND")
    # a choice of a bound on rows is made of the draw, too
    chosen = {
        o.kind: {"bound": 1 + int(draw["drawn"], 16) % o.largest} for o in request.diagnostics if o.kind == CHOICE
    }
    stated = {
        "results": {"roc_curve": {"noise": draw["drawn"]}, **chosen},
        **(json.loads(Path(found).read_text()) if found else {}),
    }
    files = {"report.html": f"<p>{draw['drawn']}".encode(), "data/curve.csv": draw["drawn"].encode() + account}
    point("after_results")
    release = Release(
        key=key,
        charge_id=draw["charge_id"],
        status="CHARGED",
        guarantee=PRIVATE,
        request_sha256=draw["request_sha256"],
        request=draw["request"],
        cost=Budget(epsilon=request.budget.epsilon) if request.budget.rho is None else request.budget.charged,
        neighbours=request.neighbours,
        unit=request.unit,
        statement="A statement.",
        rules=(),
        assumptions=(),
        drawn_at="2026-11-21T00:00:00Z",
        **stated,
        files=tuple(ReleaseFile.of(name, content, "text/plain") for name, content in files.items()),
        versions={},
    )
    for name, content in files.items():
        folder.create_file(name, content)
    point("before_draft_manifest")
    folder.create_manifest(release.to_json().encode())
    point("after_draft_manifest")


if __name__ == "__main__":
    sys.exit(main())
