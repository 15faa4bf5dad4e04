"""``ScoreCounts`` from Spark against a bare scan and against the ``groupBy`` one would write, and how it grows.

    python -m benchmarks.score_counts [--rows 50000000 100000000] [--growth 100000000] [--quick]

The table has a uniform double ``score``, which spreads the rows over all cells and so is the worst case, an int
``label`` and a column that is not read. The bare scan is the ``max`` of label and score.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.harness import Report, Target, Timing, alternate, arguments, progress, publish, scratch_folder
from spark_jobs.application.java import java_home
from spark_jobs.statistics import ScoreCounts
from spark_jobs.statistics.spark.settings import SESSION_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CELLS = 65536
SCAN_TARGET, GROUP_TARGET, SLOPE_TARGET, MEMORY_TARGET = 2.0, 0.55, 0.15, 0.10


@dataclass(frozen=True, kw_only=True)
class Memory:
    """The driver's memory, in MiB, while it has a result.

    Attributes:
        python: the largest resident memory of the driver's Python during the run.
        jvm: live objects of the driver's Java after it.
    """

    python: float
    jvm: float


def open_session(master: str, changes: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """A session with the application's own settings for counting, and changes to them."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(java_home())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("benchmark")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    for name, value in {**SESSION_SETTINGS, **quiet, **changes, "spark.driver.host": "127.0.0.1"}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def jvm_clock(spark: SparkSession) -> Callable[[], float]:
    """The processor seconds that Spark's Java has used so far."""
    stat = Path(f"/proc/{_jvm(spark).java.lang.ProcessHandle.current().pid()}/stat")
    ticks = os.sysconf("SC_CLK_TCK")

    def read() -> float:
        fields = stat.read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / ticks

    return read


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def write_parts(master: str, folder: Path, *, rows: int, parts: int) -> list[str]:
    """A table of ``rows`` rows as ``parts`` folders of equal size; any of them together are a smaller table.

    Another process writes them, as in a data lake: Java's compiler would otherwise be tuned to writing, not counting.
    """
    paths = [str(folder / f"part-{part}") for part in range(parts)]
    writer = multiprocessing.get_context("spawn").Process(target=_write, args=(master, paths, rows // parts))
    writer.start()
    writer.join()
    if writer.exitcode:
        raise RuntimeError(f"the table could not be written: exit code {writer.exitcode}")
    return paths


def _write(master: str, paths: list[str], rows: int) -> None:
    from pyspark.sql import functions as sf

    spark = open_session(master)
    for part, path in enumerate(paths):
        spark.range(rows).select(
            sf.rand(3 * part).alias("score"),
            (sf.rand(3 * part + 1) < 0.5).cast("int").alias("label"),
            sf.randn(3 * part + 2).alias("not_read"),
        ).write.parquet(path)
        progress(f"wrote {part + 1} of {len(paths)} parts of {rows:,} rows")
    spark.stop()


def scan(table: DataFrame) -> object:
    """The bare scan."""
    from pyspark.sql import functions as sf

    return table.agg(sf.max("score"), sf.max("label")).collect()


def key(table: DataFrame) -> object:
    """The scan, and of each row the key by which it is counted."""
    from pyspark.sql import functions as sf

    from spark_jobs.statistics.spark.scores import score_key

    return table.agg(sf.max(score_key(sf.col("label"), sf.col("score"), CELLS))).collect()


def group(table: DataFrame) -> object:
    """The same counts by a plain ``groupBy``, without rules for rows that do not fit."""
    from pyspark.sql import functions as sf

    cell = sf.floor(sf.col("score") * CELLS).cast("int").alias("cell")
    return table.groupBy("label", cell).count().toArrow()


def count(table: DataFrame) -> ScoreCounts:
    """The counts that are measured."""
    return ScoreCounts.from_dataframe(table, cells=CELLS)


def compare(spark: SparkSession, tables: dict[int, DataFrame], repetitions: int) -> dict[int, dict[str, Timing]]:
    """Scan, make keys, group and count each table by turns."""
    timings = {}
    for rows, table in tables.items():
        cases = {
            "scan": lambda t=table: scan(t),
            "key": lambda t=table: key(t),
            "group": lambda t=table: group(t),
            "count": lambda t=table: count(t),
        }
        timings[rows] = alternate(cases, repetitions=repetitions, warmups=3, cpu_clock=jvm_clock(spark))
        progress(f"{rows:,} rows: " + ", ".join(f"{name} {timing}" for name, timing in timings[rows].items()))
    return timings


def grow(spark: SparkSession, tables: dict[int, DataFrame], repetitions: int) -> dict[int, Timing]:
    """Count tables of growing size by turns."""
    cases = {str(rows): lambda t=table: count(t) for rows, table in tables.items()}
    timings = alternate(cases, repetitions=repetitions, cpu_clock=jvm_clock(spark))
    return {int(rows): timing for rows, timing in timings.items()}


def remember(spark: SparkSession, tables: dict[int, DataFrame]) -> dict[int, Memory]:
    """The driver's memory for tables of growing size."""
    heap = _jvm(spark).java.lang.management.ManagementFactory.getMemoryMXBean()
    memory = {}
    for rows, table in tables.items():
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        counts = count(table)
        _jvm(spark).java.lang.System.gc()
        memory[rows] = Memory(python=peak_resident(), jvm=heap.getHeapMemoryUsage().getUsed() / 2**20)
        progress(f"{rows:,} rows: {memory[rows]}, holding {counts!r}")
    return memory


def peak_resident(pid: int | str = "self") -> float:
    """The peak resident memory of a process, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def slopes(times: dict[int, float]) -> tuple[float, float, float]:
    """Seconds per row: of a straight line through all points, through the lower half, through the upper half."""
    rows, seconds = np.array(list(times), float), np.array(list(times.values()))
    half = len(rows) // 2
    fits = [np.polyfit(rows[part], seconds[part], 1)[0] for part in (slice(None), slice(half + 1), slice(half, None))]
    return fits[0], fits[1], fits[2]


def targets(
    compared: dict[int, dict[str, Timing]], grown: dict[int, Timing], memory: dict[int, Memory]
) -> list[Target]:
    """The speed rows of the targets, with what was measured."""
    results = []
    for rows, timing in compared.items():
        for name, aim in (("scan", SCAN_TARGET), ("group", GROUP_TARGET)):
            ratio = timing["count"].median / timing[name].median
            cpu = timing["count"].median_cpu / timing[name].median_cpu
            what = f"{rows:,} rows, against the {'bare scan' if name == 'scan' else 'plain groupBy'}"
            measured = f"{ratio:.2f}x (processor time {cpu:.2f}x)"
            results.append(Target(what=what, target=f"<= {aim}x", outcome=measured, met=ratio <= aim))
    if grown:
        whole, low, high = slopes({rows: timing.median for rows, timing in grown.items()})
        off = max(abs(low / whole - 1), abs(high / whole - 1))
        measured = f"{whole * 1e8:.2f} s per 100M rows; lower half {low / whole:.2f}x, upper half {high / whole:.2f}x"
        what = f"slope of time over {min(grown):,} to {max(grown):,} rows"
        results.append(Target(what=what, target="constant within 15%", outcome=measured, met=off <= SLOPE_TARGET))
    for name in ("python", "jvm") if memory else ():
        sizes = [getattr(of_rows, name) for of_rows in memory.values()]
        spread = max(sizes) / min(sizes) - 1
        measured = f"{min(sizes):.0f} to {max(sizes):.0f} MiB ({spread:.1%})"
        what = f"driver memory over the same rows, {'Python' if name == 'python' else 'Java'}"
        results.append(Target(what=what, target="flat within 10%", outcome=measured, met=spread <= MEMORY_TARGET))
    return results


def table_rows(
    compared: dict[int, dict[str, Timing]], grown: dict[int, Timing], memory: dict[int, Memory]
) -> list[tuple[str, ...]]:
    """One row per size of table."""
    rows = []
    for size in sorted({*compared, *grown}):
        cases = compared.get(size, {})
        timing = cases.get("count") or grown[size]
        usage = memory.get(size)
        rows.append(
            (
                f"{size:,}",
                *(str(cases[name]) if cases else "" for name in ("scan", "key", "group")),
                str(timing),
                f"{timing.median_cpu:.2f} s",
                f"{usage.python:.0f} / {usage.jvm:.0f} MiB" if usage else "",
            )
        )
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and delete the data."""
    parser = arguments(str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", help="sizes compared (default: 50 and 100 million)")
    parser.add_argument("--growth", type=int, help="largest table of the ten that show growth (default: 100 million)")
    parser.add_argument("--master", default="local[2]", help="Spark master (default: local[2])")
    given = parser.parse_args(argv)
    sizes = given.rows if given.rows is not None else [500_000] if given.quick else [50_000_000, 100_000_000]
    growth = given.growth if given.growth is not None else 1_000_000 if given.quick else 100_000_000
    with scratch_folder() as folder:
        largest = max([*sizes, growth])
        paths = write_parts(given.master, folder, rows=largest, parts=10)
        spark = open_session(given.master)
        tables = {largest * n // 10: spark.read.parquet(*paths[:n]) for n in range(1, 11)}
        missing = [size for size in sizes if size not in tables]
        if missing:
            parser.error(f"--rows: got {missing}; must be tenths of the largest size, {largest}")
        compared = compare(spark, {size: tables[size] for size in sizes}, given.repetitions)
        growing = {rows: table for rows, table in tables.items() if rows <= growth}
        grown = grow(spark, growing, given.repetitions) if growth else {}
        memory = remember(spark, growing) if growth else {}
        spark.stop()
    report = Report(
        name="score_counts",
        columns=(
            "rows",
            "bare scan",
            "scan and keys",
            "plain groupBy",
            "ScoreCounts",
            "processor time",
            "driver Python / Java",
        ),
        rows=table_rows(compared, grown, memory),
        targets=() if given.quick else targets(compared, grown, memory),
        figures={
            "compared": {str(rows): {n: asdict(t) for n, t in cases.items()} for rows, cases in compared.items()},
            "grown": {str(rows): asdict(timing) for rows, timing in grown.items()},
            "memory": {str(rows): asdict(usage) for rows, usage in memory.items()},
        },
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
