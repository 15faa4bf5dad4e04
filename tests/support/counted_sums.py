"""Counts a table on a cluster, and prints a hash of its statistics; arguments: the request's file, and the master.

Before it, prints ``running`` when some tasks of the pass over the table have ended and others have not.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.application.session import open_session
from spark_jobs.contract.request import ReleaseRequest


def watch(context: Any) -> None:
    """Say when the pass over the table is under way: a stage of which some tasks, and not all, have ended."""
    tracker = context.statusTracker()
    while True:
        for number in tracker.getActiveStageIds():
            stage = tracker.getStageInfo(number)
            if stage is not None and 0 < stage.numCompletedTasks < stage.numTasks:
                print("running", flush=True)
                return
        time.sleep(0.01)


def digest(statistics: Mapping[Any, Any]) -> str:
    """A hash of every array of the statistics."""
    content = hashlib.sha256()
    for statistic in statistics.values():
        for name, value in sorted(vars(statistic).items()):
            if isinstance(value, np.ndarray):
                content.update(f"{name} {value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    return content.hexdigest()


def main() -> None:
    """Count once, while a thread watches the stages."""
    request = ReleaseRequest.parse(json.loads(Path(sys.argv[1]).read_text()))
    spark = open_session(sys.argv[2])
    rows = prepare(spark, request)
    threading.Thread(target=watch, args=(spark.sparkContext,), daemon=True).start()
    print(digest(count(rows, request)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
