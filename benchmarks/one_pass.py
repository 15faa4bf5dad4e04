"""Five diagnostics of one request against each of them alone: ``python -m benchmarks.one_pass [--rows N] [--quick]``.

Only Spark's work is timed: the plan of the request and its one pass over the table. ROC curve, binned residuals,
calibration and the distribution of the scores use the same counts; a residual plot has counts of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Target, alternate, arguments, publish, report_of_times, scratch_folder
from benchmarks.score_counts import jvm_clock, open_session, write_parts
from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIAGNOSTICS: dict[str, dict[str, Any]] = {
    "roc_curve": {},
    "binned_residuals": {},
    "calibration": {},
    "ecdf": {},
    "residual_plot": {"outcome": "not_read"},
}
MAX_RATIO = 2.0


def request(folder: Path, kinds: Sequence[str]) -> ReleaseRequest:
    """A request for these diagnostics of the table that ``score_counts`` writes."""
    return ReleaseRequest.parse(
        {
            "table": {"path": str(folder), "snapshot": {"path_version": "part-0"}},
            "label": "label",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": [{"kind": kind, **DIAGNOSTICS[kind]} for kind in kinds],
            "budget": {"epsilon": "1"},
        }
    )


def counting(spark: SparkSession, release_request: ReleaseRequest) -> Callable[[], object]:
    """The work of the application between opening its session and drawing noise."""
    return lambda: count(prepare(spark, release_request), release_request)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and delete the data."""
    parser = arguments(str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, help="of the table (default: 50 million)")
    parser.add_argument("--master", default="local[2]", help="Spark master (default: local[2])")
    given = parser.parse_args(argv)
    size = given.rows or (500_000 if given.quick else 50_000_000)
    with scratch_folder() as folder:
        write_parts(given.master, folder, rows=size, parts=1)
        spark = open_session(given.master)
        requests = {kind: request(folder, [kind]) for kind in DIAGNOSTICS} | {
            "all five": request(folder, [*DIAGNOSTICS])
        }
        cases = {name: counting(spark, entry) for name, entry in requests.items()}
        timed = alternate(cases, repetitions=given.repetitions, cpu_clock=jvm_clock(spark))
        spark.stop()
    alone = {name: timed[name] for name in DIAGNOSTICS}
    dearest = max(alone, key=lambda name: alone[name].median)
    ratio = timed["all five"].median / alone[dearest].median
    target = Target(
        what="five diagnostics in one pass, against the dearest of them alone",
        target=f"at most {MAX_RATIO:g}x",
        outcome=f"{ratio:.2f}x ({dearest})",
        met=ratio <= MAX_RATIO,
    )
    report = report_of_times(f"one_pass: {size:,} rows", "diagnostics", timed, [] if given.quick else [target])
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
