"""The report of a stream, made again after its steps are published, by a process of its own without Spark."""

from __future__ import annotations

import subprocess
import sys

PATIENCE = 600.0
"""Seconds after which the process is ended."""


def refresh_report(uri: str) -> bool:
    """Make ``report.html`` of the stream whose folder is ``uri`` anew; False if that did not work.

    It reads what is published and nothing else, and can be repeated at any time. The released steps do not depend on
    it, so a failure is no failure of the stream: the last report stays, and the next run makes it anew.
    """
    command = [sys.executable, "-m", "spark_jobs.application.streams.report", uri]
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
