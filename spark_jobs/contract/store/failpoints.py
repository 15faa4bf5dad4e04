"""Named points at which a test can kill the process, to show that no crash spends or publishes twice.

``DP_FAILPOINT=name`` kills the process with SIGKILL when it reaches ``failpoint("name")``; if the variable is unset, no
point does anything. ``DP_FAILPOINT=name:after:N`` lets the process pass the point N times first.
``DP_FAILPOINT=name:pause:FILE`` makes the process wait at the point until FILE exists, like a worker that was believed
dead; ``FILE.reached`` is created first, so that a test knows when the point is reached.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Literal, get_args

ProtocolPoint = Literal[
    "before_claim",
    "after_claim",
    "before_reserve",
    "after_reserve",
    "before_anchor",
    "after_anchor",
    "before_request",
    "after_request",
    "before_start_run",
    "after_start_run",
    "before_run",
    "before_keep_handle",
    "after_keep_handle",
    "after_run",
    "before_record_draw",
    "after_record_draw",
    "before_check",
    "after_check",
    "before_commit",
    "after_commit",
    "before_publish_files",
    "after_publish_files",
    "before_publish_manifest",
    "after_publish_manifest",
    "before_receipt",
    "after_receipt",
    "before_end_run",
    "after_end_run",
    "before_give_back",
    "after_give_back",
]
"""Steps of ``dp_operators.releasing``; the last four are those of giving a reservation back."""

ApplicationPoint = Literal[
    "before_read",
    "after_read",
    "before_count",
    "after_count",
    "before_draw",
    "after_draw",
    "before_store_draw",
    "after_store_draw",
    "before_results",
    "after_results",
    "before_draft_manifest",
    "after_draft_manifest",
]
"""Steps of the Spark application."""

ChoicePoint = Literal["before_choice", "after_choice"]
"""Before and after the release that chooses how many rows of a unit a table uses."""

PassPoint = Literal["before_pass", "after_pass"]
"""Steps of each pass of a fit, between ``before_draw`` and ``after_draw``."""

StreamPoint = Literal[
    "before_record_steps",
    "after_record_steps",
    "before_publish_steps",
    "after_publish_steps",
]
"""Steps of a stream's protocol, besides those that it has in common with a release."""

StreamApplicationPoint = Literal["before_store_steps", "after_store_steps"]
"""Steps of a stream's application, besides those that it has in common with a release's."""

FederationPoint = Literal[
    "before_share",
    "after_share",
    "before_keep_receipt",
    "after_keep_receipt",
    "before_answer",
    "after_answer",
    "before_close",
    "after_close",
    "before_destroy_keys",
    "before_overwrite_keys",
    "after_overwrite_keys",
    "after_destroy_keys",
]
"""Steps of a federated release: each message of a silo to a server, what a server keeps before it draws, its answer,
and the end of a participant's keys."""

LedgerPoint = Literal["ledger_before_write", "ledger_before_commit", "ledger_after_commit"]
"""Steps of each transaction of ``dp_operators.budget``."""

PROTOCOL_POINTS: tuple[ProtocolPoint, ...] = get_args(ProtocolPoint)
APPLICATION_POINTS: tuple[ApplicationPoint, ...] = get_args(ApplicationPoint)
FEDERATION_POINTS: tuple[FederationPoint, ...] = get_args(FederationPoint)
LEDGER_POINTS: tuple[LedgerPoint, ...] = get_args(LedgerPoint)
CHOICE_POINTS: tuple[ChoicePoint, ...] = get_args(ChoicePoint)
PASS_POINTS: tuple[PassPoint, ...] = get_args(PassPoint)
STREAM_POINTS: tuple[StreamPoint, ...] = get_args(StreamPoint)
STREAM_APPLICATION_POINTS: tuple[StreamApplicationPoint, ...] = get_args(StreamApplicationPoint)
Point = (
    ProtocolPoint
    | ApplicationPoint
    | ChoicePoint
    | PassPoint
    | StreamPoint
    | StreamApplicationPoint
    | FederationPoint
    | LedgerPoint
)
FAILPOINTS: tuple[Point, ...] = (
    *PROTOCOL_POINTS,
    *APPLICATION_POINTS,
    *CHOICE_POINTS,
    *PASS_POINTS,
    *STREAM_POINTS,
    *STREAM_APPLICATION_POINTS,
    *FEDERATION_POINTS,
    *LEDGER_POINTS,
)

VARIABLE = "DP_FAILPOINT"
_PASSED: Counter[str] = Counter()


def failpoint(name: Point) -> None:
    """Kill or pause the process here if ``DP_FAILPOINT`` names this point."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return
    target, _, action = wanted.partition(":")
    if target != name:
        return
    if action.startswith("after:"):
        _PASSED[name] += 1
        if _PASSED[name] <= int(action.removeprefix("after:")):
            return
    if action.startswith("pause:"):
        gate = Path(action.removeprefix("pause:"))
        gate.with_name(f"{gate.name}.reached").touch()
        while not gate.exists():
            time.sleep(0.01)
        return
    os.kill(os.getpid(), signal.SIGKILL)
