"""Named places where a test may kill the process, to show that no crash spends or publishes twice.

``DP_FAILPOINT=name`` kills the process with SIGKILL when it reaches ``failpoint("name")``; unset, it does nothing.
``DP_FAILPOINT=name:pause:FILE`` waits there until FILE exists, which turns a worker into a zombie.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

FAILPOINTS = (
    # the protocol, dp_operators.releasing
    "before_reserve",
    "after_reserve",
    "before_run",
    "after_run",
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
    "before_tombstone",
    "after_tombstone",
    "before_settle",
    "after_settle",
    # the application, spark_jobs
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
)


def failpoint(name: str) -> None:
    """Die or wait here if ``DP_FAILPOINT`` says so."""
    wanted = os.environ.get("DP_FAILPOINT")
    if not wanted:
        return
    target, _, action = wanted.partition(":")
    if target != name:
        return
    if action.startswith("pause:"):
        gate = Path(action.removeprefix("pause:"))
        gate.with_suffix(".reached").touch()
        while not gate.exists():
            time.sleep(0.02)
        return
    os.kill(os.getpid(), signal.SIGKILL)
