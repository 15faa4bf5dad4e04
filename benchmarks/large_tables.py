"""Releases of large tables by a small driver: ``python -m benchmarks.large_tables [--rows N] [--groups N]``.

Its parts (``--parts`` selects):

1. ``releases``: a whole release of a line for each of 100,000 groups, from ``spark-submit`` with a driver of 1 GiB,
   on tables that have the same tenth of the rows once, five times and ten times: its times, and the peak resident
   memory of Java and Python.
2. ``units``: a ROC curve of a tenth of the rows that uses one row of each person, and three, with and without a
   `row_id` that distinguishes a person's rows, against the same without units, and against a floor: the same rows,
   shuffled by person and dropped. There are a tenth as many persons as rows, of whom one has a tenth of the rows.
3. ``merge``: counts of 131,072 cells from 1,000 partitions that have all of them, merged under 1 GiB.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks._stages import bytes_so_far
from benchmarks.harness import Report, Target, Timing, alternate, arguments, progress, publish, scratch_folder
from benchmarks.score_counts import jvm_clock, open_session, peak_resident
from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.application.java import java_home
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.layout import SALT_VARIABLE
from spark_jobs.submit import launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER, MEMORY = "local[2]", "1g"
FILE_ROWS = 5_000_000
"""How many rows a file of a table has, in two files at least."""
PARTITIONS, CELLS = 1000, 131_072
MAX_PYTHON, MAX_JAVA, MAX_RATIO, MAX_BEND = 512.0, 1536.0, 4.0, 0.15
TENTHS = 10
PARTS = ("releases", "units", "merge")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A release: seconds of counting and of the whole run, and the peak resident MiB of its processes."""

    counting: float
    whole: float
    java: float
    python: float


def write_tenth(folder: Path, rows: int, groups: int) -> None:
    """A tenth of the table's rows, of a tenth as many persons; the first person has a tenth of them."""
    from pyspark.sql import functions as sf

    spark = open_session(MASTER)
    x = sf.rand(1).cast("float")
    person = sf.when(sf.col("id") % 10 == 0, 0).otherwise(sf.pmod(sf.xxhash64("id"), sf.lit(max(rows // 10, 1))))
    spark.range(0, rows, 1, max(2, rows // FILE_ROWS)).select(
        sf.pmod(sf.xxhash64("id", sf.lit("site")), sf.lit(groups)).cast("int").alias("site"),
        x.alias("x"),
        (x / 2 + sf.rand(2) / 2).cast("float").alias("y"),
        sf.pmod(sf.xxhash64("id", sf.lit("label")), sf.lit(2)).cast("int").alias("label"),
        person.cast("int").alias("person"),
    ).write.parquet(str(folder / "tenth"))
    spark.stop()


def tenths(folder: Path, times: int) -> Path:
    """The folder of a table that has the tenth so many times, by links."""
    table = folder / f"tenths-{times}" / "v1"
    table.mkdir(parents=True)
    for copy in range(times):
        for file in (folder / "tenth").glob("*.parquet"):
            os.link(file, table / f"{copy}-{file.name}")
    return table.parent


def lines_request(table: Path, groups: int) -> dict[str, Any]:
    """The request of a line for each group."""
    lines = {"kind": "linear_regression", "x": "x", "y": "y", "x_bounds": [0, 1], "y_bounds": [0, 1]}
    return {
        "table": {"path": str(table), "snapshot": {"path_version": "v1"}},
        "diagnostics": [{**lines, "group_by": "site", "groups": list(range(groups))}],
        "budget": {"epsilon": "1"},
    }


def release(request: dict[str, Any], folder: Path) -> Run:
    """Run the application under ``spark-submit``, and look at its processes twice a second."""
    document = folder / "request.json"
    document.write_text(json.dumps(request))
    command = [str(Path(sys.executable).parent / "spark-submit"), f"--master={MASTER}", f"--driver-memory={MEMORY}"]
    command += [str(Path(launch.__file__)), str(document), f"--output={folder / 'release'}"]
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    peaks, began, counted = {"java": 0.0, "python": 0.0}, time.perf_counter(), [0.0, 0.0]
    output = folder / "stages"
    with (
        output.open("w") as stages,
        subprocess.Popen(command, env=environment, stderr=stages, stdout=stages) as process,
    ):
        while process.poll() is None:
            now, reached = time.perf_counter() - began, set(output.read_text().splitlines())
            counted = [seconds or now * (stage in reached) for seconds, stage in zip(counted, STAGES, strict=True)]
            remember(process.pid, peaks)
            time.sleep(0.5)
    if process.returncode:
        raise RuntimeError(output.read_text()[-2000:])
    return Run(counting=counted[1] - counted[0], whole=time.perf_counter() - began, **peaks)


STAGES = ("counting", "drawing")
SHUFFLE, BY_ROW_ID = "a bare shuffle", "one row a person, by row_id"


def remember(pid: int, peaks: dict[str, float]) -> None:
    """Raise the peaks to what the processes of a run have used so far."""
    with suppress(psutil.Error):  # it may have ended meanwhile
        for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            with suppress(psutil.Error, OSError, StopIteration):
                name = "java" if "java" in process.name() else "python"
                peaks[name] = max(peaks[name], peak_resident(process.pid))


def curve_request(table: Path, unit: dict[str, Any] | None, row_id: str | None = None) -> ReleaseRequest:
    """The request of a ROC curve, with or without a unit."""
    fields: dict[str, Any] = {
        "table": {"path": str(table), "snapshot": {"path_version": "v1"}},
        "label": "label",
        "model": {"kind": "columns", "score": "x", "basis": "public"},
        "diagnostics": "roc_curve",
        "budget": {"epsilon": "1"},
    }
    return ReleaseRequest.parse({**fields, **({} if unit is None else {"unit": unit}), "row_id": row_id})


def units(spark: SparkSession, table: Path) -> tuple[dict[str, Timing], dict[str, int]]:
    """Times of counting with and without units, and the bytes that each case has spilled to disk in one run."""
    os.environ[SALT_VARIABLE] = "0" * 32
    cases = {
        "no unit": curve_request(table, None),
        "one row a person": curve_request(table, {"column": "person", "max_rows": 1}),
        BY_ROW_ID: curve_request(table, {"column": "person", "max_rows": 1}, row_id="y"),
        "three rows a person": curve_request(table, {"column": "person", "max_rows": 3}),
        "three rows a person, by row_id": curve_request(table, {"column": "person", "max_rows": 3}, row_id="y"),
    }
    runs = {name: (lambda request=request: count(prepare(spark, request), request)) for name, request in cases.items()}
    rows = spark.read.parquet(str(table / "v1")).select("person", "x", "label").repartition("person")
    runs[SHUFFLE] = lambda: rows.write.format("noop").mode("overwrite").save()
    spilled = {}
    for name, run in runs.items():
        before = bytes_so_far(spark)
        run()
        spilled[name] = (bytes_so_far(spark) - before).spilled
        progress(f"{name}: {spilled[name]:,} bytes spilled")
    return alternate(runs, warmups=1, cpu_clock=jvm_clock(spark)), spilled


def merged(spark: SparkSession, partitions: int) -> tuple[float, float]:
    """Seconds of merging the counts of all cells from each partition, and Java's peak resident MiB."""
    from spark_jobs.statistics.spark.cells import count_keys

    rows = spark.range(0, partitions * CELLS, 1, partitions).selectExpr(f"cast(id % {CELLS} as int) as key")
    began = time.perf_counter()
    keys, counts = count_keys(rows, "key", distinct=CELLS)
    took = time.perf_counter() - began
    if keys.size != CELLS or set(counts.tolist()) != {partitions}:
        raise RuntimeError("the merged counts are wrong")
    return took, peak_resident(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def targets_of_releases(runs: dict[int, Run]) -> list[Target]:
    """The driver's memory and the growth of the time, against the targets."""
    (low, first), (middle, half), (high, last) = runs.items()
    slopes = (half.counting - first.counting) / (middle - low), (last.counting - half.counting) / (high - middle)
    bend = slopes[1] / slopes[0]
    python = max(run.python for run in runs.values())
    growth = last.python - first.python
    return [
        Target(
            what="Python of that driver, at its peak",
            target=f"at most {MAX_PYTHON:.0f} MiB",
            outcome=f"{python:.0f} MiB; {growth:+.0f} MiB from {low:,} to {high:,} rows",
            met=python <= MAX_PYTHON,
        ),
        Target(
            what="time of counting for each row more, in the later half against the earlier",
            target=f"within {MAX_BEND:.0%}",
            outcome=f"{bend:.2f}x; {slopes[1] * 1e8:.1f} s for 100M rows",
            met=abs(bend - 1) <= MAX_BEND,
        ),
    ]


def targets_of_units(timed: dict[str, Timing]) -> list[Target]:
    """What one row of each unit costs, against the target."""
    none, shuffle = timed["no unit"].median_cpu, timed[SHUFFLE].median_cpu
    return [
        Target(
            what=f"{name}, against no unit, by processor time",
            target=f"at most {MAX_RATIO:g}x",
            outcome=f"{timed[name].median_cpu / none:.1f}x, where a bare shuffle of the rows is {shuffle / none:.1f}x",
            met=timed[name].median_cpu <= MAX_RATIO * none,
        )
        for name in ("one row a person", BY_ROW_ID)
    ]


def target_of_merging(java: float) -> Target:
    """The memory that merging takes, against the target."""
    return Target(
        what=f"merge of {PARTITIONS:,} x {CELLS:,} cells, Java's peak beside a heap of {MEMORY}",
        target=f"at most {MAX_JAVA:.0f} MiB",
        outcome=f"{java:.0f} MiB",
        met=java <= MAX_JAVA,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and delete the data."""
    parser = arguments(str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, help="of the largest table (default: 100 million)")
    parser.add_argument("--groups", type=int, help="lines of the release (default: 100,000)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    given = parser.parse_args(argv)
    size = given.rows or (200_000 if given.quick else 100_000_000)
    groups = given.groups or (1_000 if given.quick else 100_000)
    rows: list[list[str]] = []
    met: list[Target] = []
    figures: dict[str, Any] = {}
    with scratch_folder() as folder:
        writer = multiprocessing.get_context("spawn").Process(target=write_tenth, args=(folder, size // TENTHS, groups))
        writer.start()
        writer.join()
        if writer.exitcode:
            raise RuntimeError(f"the table could not be written: exit code {writer.exitcode}")
        if "releases" in given.parts:
            runs = {}
            for times in (1, 5, TENTHS):
                table, many = tenths(folder, times), size // TENTHS * times
                runs[many] = run = release(lines_request(table, groups), table)
                progress(f"{many:,} rows: {run}")
                times_of, peaks = (f"{run.counting:.1f} s", f"{run.whole:.1f} s"), (run.java, run.python)
                rows.append([f"{groups:,} lines of {many:,} rows", *times_of, *(f"{peak:.0f} MiB" for peak in peaks)])
            met += targets_of_releases(runs)
            figures["runs"] = {str(many): asdict(run) for many, run in runs.items()}
        if {"merge", "units"} & set(given.parts):
            spark = open_session(MASTER, {"spark.driver.memory": MEMORY})
            if "merge" in given.parts:
                seconds, java = figures["merge"] = merged(spark, 10 if given.quick else PARTITIONS)
                progress(f"merged in {seconds:.1f} s, Java {java:.0f} MiB")
                rows.append([f"{PARTITIONS:,} x {CELLS:,} cells merged", f"{seconds:.1f} s", "", f"{java:.0f} MiB", ""])
                met.append(target_of_merging(java))
            if "units" in given.parts:
                small = folder / "tenths-1"
                timed, spilled = units(spark, small if small.exists() else tenths(folder, 1))
                share = f"{size // TENTHS:,} rows"
                rows += [
                    [f"{name}, {share}", str(timing), f"{spilled[name] / 2**20:.0f} MiB spilled", "", ""]
                    for name, timing in timed.items()
                ]
                met += targets_of_units(timed)
                figures |= {"units": {name: asdict(timing) for name, timing in timed.items()}, "spilled": spilled}
            spark.stop()
    report = Report(
        name="large_tables",
        columns=("what", "counting", "all of the run", "Java's peak", "Python's peak"),
        rows=rows,
        targets=[] if given.quick else met,
        figures=figures,
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
