"""How counting grows with the rows, for each statistic: ``python -m benchmarks.growth [--rows N]``.

Each statistic is counted in a tenth of the rows, and in the same rows ten times. A row of the table says how much
processor time the ten times as many rows take, and what is shuffled and sent to the driver: bytes that do not grow with
the rows where the number of cells bounds them.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks._stages import Bytes, bytes_so_far
from benchmarks.harness import Report, Target, arguments, progress, publish, scratch_folder
from benchmarks.large_tables import MASTER, TENTHS, tenths, write_tenth
from benchmarks.score_counts import jvm_clock, open_session
from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import SALT_VARIABLE
from spark_jobs.statistics import LabelledRows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

GROUPS = 1_000
MAX_GROWTH = 11.0
"""How many times as long the ten times as many rows may take."""
BOX = {"x": "x", "y": "y", "x_bounds": [0, 1], "y_bounds": [0, 1]}
SCORED = {"label": "label", "model": {"kind": "columns", "score": "x", "basis": "public"}}
STATISTICS: Mapping[str, dict[str, Any]] = {
    "counts of scores": {**SCORED, "diagnostics": "roc_curve"},
    "counts of scores in 50 groups": {
        **SCORED,
        "diagnostics": [{"kind": "by_group", "group_by": "site", "groups": list(range(50)), "kinds": ["auc"]}],
    },
    "joint counts of two scores": {
        **SCORED,
        "diagnostics": [{"kind": "roc_comparison", "other": {"kind": "columns", "score": "y", "basis": "public"}}],
    },
    "counts of values": {"diagnostics": [{"kind": "ecdf", "column": "x", "bounds": [0, 1]}]},
    "counts of residuals": {
        "model": {"kind": "columns", "score": "x", "basis": "public"},
        "diagnostics": [{"kind": "residual_plot", "outcome": "y"}],
    },
    "sums of points in 1,000 groups": {
        "diagnostics": [{"kind": "linear_regression", **BOX, "group_by": "site", "groups": list(range(GROUPS))}]
    },
    "points in 65,536 cells of 10 groups": {
        "diagnostics": [
            {
                "kind": "linear_regression",
                **BOX,
                "group_by": "site",
                "groups": list(range(10)),
                "cells": 256,
                "method": "dp_grad_descent",
            }
        ]
    },
    "a pass of a logistic regression": {
        "label": "label",
        "diagnostics": [{"kind": "logistic_fit", "features": {"x": [0, 1], "y": [0, 1]}}],
    },
    "products of columns": {
        "diagnostics": [{"kind": "linear_fit", "features": {"x": [0, 1]}, "outcome": "y", "outcome_bounds": [0, 1]}]
    },
}
"""What a request asks for beside its table and budget."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What counting took: seconds on the clock, of the processor, and bytes."""

    wall: float
    cpu: float
    bytes: Bytes


def request_of(table: Path, fields: Mapping[str, Any]) -> ReleaseRequest:
    """The request of a statistic."""
    snapshot = {"path": str(table), "snapshot": {"path_version": "v1"}}
    return ReleaseRequest.parse({"table": snapshot, "budget": {"epsilon": "1"}, **fields})


def counted(spark: SparkSession, request: ReleaseRequest) -> Counted:
    """Count the statistics of a request once; of a logistic regression, one pass."""
    clock = jvm_clock(spark)
    before, cpu, began = bytes_so_far(spark), clock(), time.perf_counter()
    for statistic in count(prepare(spark, request), request).values():
        if isinstance(statistic, LabelledRows):
            statistic.sums_at(np.zeros(statistic.design.terms, dtype=np.int64))
    wall, spent = time.perf_counter() - began, clock() - cpu
    return Counted(wall=wall, cpu=spent, bytes=bytes_so_far(spark) - before)


def row_of(name: str, runs: Mapping[int, Counted]) -> list[str]:
    """The row of a statistic: times of both tables, their ratio, and bytes."""
    small, large = runs.values()
    sizes = [f"{run.bytes.shuffled / 1e6:.2f}, {run.bytes.collected / 1e6:.2f} MB" for run in (small, large)]
    per_row = (large.bytes.shuffled + large.bytes.collected) / max(runs)
    times = [f"{run.wall:.1f} s ({run.cpu:.1f})" for run in (small, large)]
    return [name, *times, f"{large.cpu / small.cpu:.1f}x", *sizes, f"{per_row:.3f}"]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and delete the data."""
    parser = arguments(str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, help="of the larger table (default: 100 million)")
    parser.add_argument("--statistics", nargs="+", choices=STATISTICS, default=STATISTICS, help="default: all")
    given = parser.parse_args(argv)
    size = given.rows or (200_000 if given.quick else 100_000_000)
    os.environ[SALT_VARIABLE] = "0" * 32
    rows, met, figures = [], [], {}
    with scratch_folder() as folder:
        writing = (folder, size // TENTHS, GROUPS)
        writer = multiprocessing.get_context("spawn").Process(target=write_tenth, args=writing)
        writer.start()
        writer.join()
        if writer.exitcode:
            raise RuntimeError(f"the table could not be written: exit code {writer.exitcode}")
        tables = {size // TENTHS * times: tenths(folder, times) for times in (1, TENTHS)}
        spark = open_session(MASTER, {"spark.driver.memory": "1g"})
        for name, fields in ((name, STATISTICS[name]) for name in given.statistics):
            requests = {many: request_of(table, fields) for many, table in tables.items()}
            counted(spark, next(iter(requests.values())))  # code is compiled
            runs = {many: counted(spark, request) for many, request in requests.items()}
            progress(f"{name}: {runs}")
            rows.append(row_of(name, runs))
            figures[name] = {str(many): asdict(run) for many, run in runs.items()}
            small, large = runs.values()
            met.append(
                Target(
                    what=f"{name}: processor time of ten times as many rows",
                    target=f"at most {MAX_GROWTH:g}x",
                    outcome=f"{large.cpu / small.cpu:.1f}x",
                    met=large.cpu <= MAX_GROWTH * small.cpu,
                )
            )
        spark.stop()
    columns = (
        "statistic", *(f"{many:,} rows: time (processor)" for many in tables), "growth",
        *(f"{many:,} rows: shuffled, collected" for many in tables), "bytes a row",
    )  # fmt: skip
    report = Report(name="growth", columns=columns, rows=rows, targets=[] if given.quick else met, figures=figures)
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
