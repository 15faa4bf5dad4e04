"""A table of aggregates against a bare grouped sum: ``python -m benchmarks.aggregate_tables [--rows N] [--quick]``.

Only Spark's work is timed: the plan of a request for counts and three means by 1,000 listed groups with its one pass
over the table, and the same groups' counts and three sums by ``groupBy`` alone, which clips nothing, rounds nothing and
reads any group there is. Groups are whole numbers, and then texts. ``--parts`` times what lies between as well.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Target, Timing, alternate, arguments, publish, report_of_times, scratch_folder
from benchmarks.score_counts import jvm_clock, open_session
from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

GROUPS = 1_000
NUMBERS = ("a", "b", "c")
BY = {"whole numbers": "site", "texts": "name"}
"""Columns of groups, by what they hold."""
MAX_RATIO = 1.5
WARMUPS = 4
"""Java goes on compiling what it runs for a few rounds."""


def groups_of(column: str) -> list[Any]:
    """The groups that a request lists."""
    return [f"site {number:04}" if column == "name" else number for number in range(GROUPS)]


def request(folder: Path, column: str) -> ReleaseRequest:
    """Counts and three means by group, with values to the cent."""
    measures = [{"of": name, "bounds": [0, 100], "step": 0.01, "figures": ["mean"]} for name in NUMBERS]
    by = [{"column": column, "values": groups_of(column), "other": False}]
    return ReleaseRequest.parse(
        {
            "table": {"path": str(folder), "snapshot": {"path_version": "v1"}},
            "diagnostics": [{"kind": "aggregates", "by": by, "measures": measures}],
            "budget": {"epsilon": "1"},
        }
    )


def released(spark: SparkSession, wanted: ReleaseRequest) -> object:
    """Spark's part of a release: its plan and its pass."""
    return count(prepare(spark, wanted), wanted)


def bare(spark: SparkSession, folder: Path, column: str) -> Callable[[], object]:
    """Counts and sums by group, collected."""
    from pyspark.sql import functions as sf

    def summed() -> object:
        table = spark.read.parquet(str(folder / "v1"))
        return table.groupBy(column).agg(sf.count(sf.lit(1)), *(sf.sum(name) for name in NUMBERS)).collect()

    return summed


def parts(spark: SparkSession, folder: Path, wanted: ReleaseRequest) -> dict[str, Callable[[], object]]:
    """Sums grouped by whole numbers with some of what a release does to a row, without its causes."""
    from pyspark.sql import functions as sf

    from spark_jobs.contract.options import AggregateCells
    from spark_jobs.statistics.spark.aggregates import dimension_column
    from spark_jobs.statistics.spark.cells import sums_by_key
    from spark_jobs.statistics.spark.points import nearest_place

    (design,) = wanted.statistics
    if not isinstance(design, AggregateCells):
        raise TypeError("the request is for a table of aggregates")
    plain, listed = sf.col("site"), dimension_column(spark.read.parquet(str(folder / "v1")), design.by[0])
    cents = [(100 * sf.col(name)).cast("bigint") for name in NUMBERS]
    places = [nearest_place(sf.col(one.of), *one.bounds, one.steps).cast("bigint") for one in design.measures]

    def summed(key: Column, values: Sequence[Column]) -> object:
        table = spark.read.parquet(str(folder / "v1"))
        named = [value.alias(f"value_{place}") for place, value in enumerate(values)]
        sums = [sf.sum(f"value_{place}") for place in range(len(values))]
        return sums_by_key(
            table.select(key.alias("key"), *named), "key", distinct=GROUPS, aggregates=[sf.count(sf.lit(1)), *sums]
        )

    return {
        "sums of cents": lambda: summed(plain, cents),
        "groups looked up": lambda: summed(listed, cents),
        "values rounded": lambda: summed(plain, places),
        "groups looked up and values rounded": lambda: summed(listed, places),
    }


def write(master: str, folder: Path, rows: int) -> None:
    """The table, as one version of a folder."""
    from pyspark.sql import functions as sf

    spark = open_session(master)
    numbers = (sf.round(100 * sf.rand(place), 2).alias(name) for place, name in enumerate(NUMBERS))
    table = spark.range(rows).select((sf.rand(9) * GROUPS).cast("int").alias("site"), *numbers)
    name = sf.concat(sf.lit("site "), sf.lpad(sf.col("site").cast("string"), 4, "0"))
    table.select(name.alias("name"), "site", *NUMBERS).write.parquet(str(folder / "v1"))
    spark.stop()


def targets_of(timed: Mapping[str, Timing]) -> list[Target]:
    """The ratios of both; it is processor time that counts, which other work on the machine disturbs less."""
    targets = []
    for name in BY:
        release, sums = timed[f"three means by {name}"], timed[f"bare sums by {name}"]
        ratio = release.median_cpu / sums.median_cpu
        targets.append(
            Target(
                what=f"counts and three means by 1,000 {name}, against the bare grouped sums",
                target=f"at most {MAX_RATIO:g}x",
                outcome=f"{ratio:.2f}x in processor time, {release.median / sums.median:.2f}x by the clock",
                met=ratio <= MAX_RATIO,
            )
        )
    return targets


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and delete the data."""
    parser = arguments(str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, help="of the table (default: 10 million)")
    parser.add_argument("--master", default="local[2]", help="Spark master (default: local[2])")
    parser.add_argument("--parts", action="store_true", help="time parts of the work, too")
    given = parser.parse_args(argv)
    rows = given.rows or (100_000 if given.quick else 10_000_000)
    with scratch_folder() as folder:
        writer = multiprocessing.get_context("spawn").Process(target=write, args=(given.master, folder, rows))
        writer.start()
        writer.join()
        if writer.exitcode:
            raise RuntimeError(f"the table could not be written: exit code {writer.exitcode}")
        spark = open_session(given.master)
        cases: dict[str, Callable[[], object]] = {}
        for name, column in BY.items():
            cases[f"three means by {name}"] = partial(released, spark, request(folder, column))
            cases[f"bare sums by {name}"] = bare(spark, folder, column)
        if given.parts:
            cases |= parts(spark, folder, request(folder, BY["whole numbers"]))
        timed = alternate(cases, repetitions=given.repetitions, warmups=WARMUPS, cpu_clock=jvm_clock(spark))
        spark.stop()
    report = report_of_times(
        f"aggregate_tables: {rows:,} rows, {GROUPS:,} groups", "what", timed, [] if given.quick else targets_of(timed)
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
