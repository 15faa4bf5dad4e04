"""The report and the alarms of a stream, made again after its steps are published, by a process without Spark."""

from __future__ import annotations

import subprocess
import sys

from dp_operators.releasing.errors import as_release_errors
from spark_jobs.contract.store.objects import open_store
from spark_jobs.contract.store.stream_alarms import StreamAlarms

PATIENCE = 600.0
"""Seconds after which the process is ended."""


def refresh_report(uri: str) -> bool:
    """Make ``report.html`` and the alarms of the stream whose folder is ``uri`` anew; return False if that failed.

    Only published files are read, and the call can be repeated at any time. The released steps do not depend on the
    report, so a failure here is no failure of the stream: the last report stays, and the next run makes it anew.
    """
    command = [sys.executable, "-m", "spark_jobs.application.streams.report", uri]
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


def stream_alarms(uri: str) -> StreamAlarms | None:
    """The alarms of the stream whose folder is ``uri``; None if it has no monitors, or none was evaluated yet.

    Raises:
        InvalidRequest: ``uri`` is not in a supported store.
        ReleaseError: the store failed.
    """
    with as_release_errors():
        return StreamAlarms.read(open_store(uri, what="stream"), uri.rstrip("/"))
