"""A table of aggregates against a bare grouped sum: ``python -m benchmarks.aggregate_tables [--rows N] [--quick]``.

Only Spark's work is timed: the plan of a request for counts and three means by 1,000 listed groups with its one pass
over the table, and the same groups' counts and three sums by ``groupBy`` alone, which clips nothing, rounds nothing and
reads any group there is. ``--parts`` times what lies between the two as well.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import Target, alternate, arguments, publish, report_of_times, scratch_folder
from benchmarks.score_counts import jvm_clock, open_session
from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

GROUPS = 1_000
NUMBERS = ("a", "b", "c")
MAX_RATIO = 1.5


def request(folder: Path) -> ReleaseRequest:
    """Counts and three means by group, with values to the cent."""
    measures = [{"of": name, "bounds": [0, 100], "step": 0.01, "figures": ["mean"]} for name in NUMBERS]
    by = [{"column": "site", "values": list(range(GROUPS)), "other": False}]
    return ReleaseRequest.parse(
        {
            "table": {"path": str(folder), "snapshot": {"path_version": "v1"}},
            "diagnostics": [{"kind": "aggregates", "by": by, "measures": measures}],
            "budget": {"epsilon": "1"},
        }
    )


def bare(spark: SparkSession, folder: Path) -> Callable[[], object]:
    """Counts and sums by group, collected."""
    from pyspark.sql import functions as sf

    def summed() -> object:
        table = spark.read.parquet(str(folder / "v1"))
        return table.groupBy("site").agg(sf.count(sf.lit(1)), *(sf.sum(name) for name in NUMBERS)).collect()

    return summed


def parts(spark: SparkSession, folder: Path, wanted: ReleaseRequest) -> dict[str, Callable[[], object]]:
    """Grouped sums with some of what a release does to a row, without its array and its causes."""
    from pyspark.sql import functions as sf

    from spark_jobs.contract.options import AggregateCells
    from spark_jobs.statistics.spark.aggregates import group_of
    from spark_jobs.statistics.spark.cells import sums_by_key
    from spark_jobs.statistics.spark.points import nearest_place

    (design,) = wanted.statistics
    if not isinstance(design, AggregateCells):
        raise TypeError("the request is for a table of aggregates")
    plain, listed = sf.col("site"), group_of(sf.col("site"), design.by[0])
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
    spark.range(rows).select((sf.rand(9) * GROUPS).cast("int").alias("site"), *numbers).write.parquet(
        str(folder / "v1")
    )
    spark.stop()


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
        spark, wanted = open_session(given.master), request(folder)
        cases = {
            "three means": lambda: count(prepare(spark, wanted), wanted),
            "bare sums": bare(spark, folder),
            **(parts(spark, folder, wanted) if given.parts else {}),
        }
        timed = alternate(cases, repetitions=given.repetitions, cpu_clock=jvm_clock(spark))
        spark.stop()
    ratio = timed["three means"].median / timed["bare sums"].median
    target = Target(
        what="counts and three means by 1,000 groups, against the bare grouped sums",
        target=f"at most {MAX_RATIO:g}x",
        outcome=f"{ratio:.2f}x",
        met=ratio <= MAX_RATIO,
    )
    report = report_of_times(
        f"aggregate_tables: {rows:,} rows, {GROUPS:,} groups", "what", timed, [] if given.quick else [target]
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
