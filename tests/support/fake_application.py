"""The application's side of the protocol without Spark: a draw, deterministic bytes, and every failpoint.

As a program it takes the arguments of ``python -m spark_jobs`` in its charged form. ``DP_FAKE`` says how it behaves:
``refuse`` refuses the request, ``fail`` fails, ``wait:FILE`` counts until FILE is there, ``stubborn`` ignores SIGTERM.
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
from pathlib import Path

from spark_jobs.contract import Budget, Release, ReleaseFile, ReleaseRequest, RequestRefused
from spark_jobs.contract.failpoints import failpoint
from spark_jobs.contract.layout import STAGE_NONCE_VARIABLE, ExitCode, ReleaseLayout, Stage, stage_line
from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.stores import ObjectStore, open_store
from spark_jobs.contract.tombstone import is_tombstone

SECRET_ROW = "a-private-value-4711"
REFUSAL = RequestRefused("table.path", given="/lake/t", bound="must be a table", remedy="check the path")
Point = Callable[[str], None]


def main(argv: Sequence[str] | None = None) -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("request")
    for name in ("--charge", "--key", "--output", "--master"):
        arguments.add_argument(name)
    given = arguments.parse_args(argv)
    nonce = os.environ.get(STAGE_NONCE_VARIABLE, "")
    print(f"a Spark log line with {SECRET_ROW}", flush=True)
    print(stage_line(Stage.READING, "a forged nonce"), flush=True)
    return run(
        request_uri=given.request,
        charge_id=given.charge,
        key=given.key,
        output=given.output,
        store=open_store(given.output),
        say=lambda stage: print(stage_line(stage, nonce), flush=True),
        behaviour=os.environ.get("DP_FAKE", ""),
    )


def run(
    *,
    request_uri: str,
    charge_id: str,
    key: str,
    output: str,
    store: ObjectStore,
    behaviour: str = "",
    say: Callable[[Stage], None] = lambda stage: None,
    point: Point = failpoint,
) -> int:
    """One run of the application; ``point`` is called with the name of every step's beginning and end."""
    layout = ReleaseLayout.of(output, key, charge_id)
    stored = store.read(layout.draw)
    if stored is None:
        say(Stage.STARTING)
        point("before_read")
        content = store.read(request_uri)
        if content is None:
            return ExitCode.FAILED
        request = ReleaseRequest.from_json(content)
        if behaviour == "refuse":
            store.create(layout.refusal, json.dumps(REFUSAL.to_dict()).encode())
            return ExitCode.REFUSED
        if behaviour == "fail":
            print(f"Traceback: cannot cast {SECRET_ROW}", flush=True)
            return ExitCode.FAILED
        say(Stage.READING)
        point("after_read")
        say(Stage.COUNTING)
        point("before_count")
        _count(behaviour)
        point("after_count")
        say(Stage.DRAWING)
        point("before_draw")
        drawn = _draw(charge_id, request)
        point("after_draw")
        point("before_store_draw")
        store.create(layout.draw, drawn)
        point("after_store_draw")
        stored = store.read(layout.draw)
    if stored is None or is_tombstone(stored):
        return ExitCode.FAILED
    _write_draft(layout, key, stored, store, say, point)
    say(Stage.DONE)
    return ExitCode.DONE


def _count(behaviour: str) -> None:
    word, _, gate = behaviour.partition(":")
    if word == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while gate and not Path(gate).exists():
        time.sleep(0.01)


def _draw(charge_id: str, request: ReleaseRequest) -> bytes:
    fields = {
        "format": 1,
        "kind": "draw",
        "charge_id": charge_id,
        "request_sha256": request.sha256,
        "events": [{"diagnostic": "roc_curve", "label": "noise", "epsilon": str(request.budget.epsilon), "delta": "0"}],
        "noise": secrets.token_hex(16),
        "request": request.to_dict(),
    }
    return json.dumps(fields).encode()


def _write_draft(
    layout: ReleaseLayout, key: str, stored: bytes, store: ObjectStore, say: Callable[[Stage], None], point: Point
) -> None:
    draw = json.loads(stored)
    request = ReleaseRequest.parse(draw["request"])
    account = store.read(layout.account) or b""
    say(Stage.WRITING)
    point("before_results")
    files = {"report.html": f"<p>{draw['noise']}".encode(), "data/curve.csv": draw["noise"].encode() + account}
    point("after_results")
    release = Release(
        key=key,
        charge_id=draw["charge_id"],
        status="CHARGED",
        guarantee=PRIVATE,
        request_sha256=draw["request_sha256"],
        request=draw["request"],
        cost=Budget(epsilon=request.budget.epsilon),
        neighbours=request.neighbours,
        unit=request.unit,
        statement="A statement.",
        rules=(),
        assumptions=(),
        drawn_at="2026-11-21T00:00:00Z",
        results={"roc_curve": {"noise": draw["noise"]}},
        files=tuple(ReleaseFile.of(name, content, "text/plain") for name, content in files.items()),
        versions={},
    )
    for name, content in files.items():
        store.create(layout.draft_file(name), content)
    point("before_draft_manifest")
    store.create(layout.draft_manifest, release.to_json().encode())
    point("after_draft_manifest")


if __name__ == "__main__":
    sys.exit(main())
