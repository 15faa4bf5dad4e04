"""One library's private counts of public groups, again and again: ``python _peer_work.py LIBRARY TABLE GROUPS``.

Run by ``peer_speed`` in the library's own environment. For each line on standard input it releases the counts once, and
prints how many there are, their sum, and the seconds that it took. Epsilon 1, one row added or removed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any

Release = Callable[[], list[float]]
ENDING = ExitStack()
"""What ends with this process: the embedded engine."""


def by_spark() -> Any:
    """A session of Spark on this machine."""
    return import_module("benchmarks.score_counts").open_session("local[2]")


def by_embedded() -> Any:
    """A session of the embedded engine."""
    settings = import_module("spark_jobs.application.session").SQL_SETTINGS
    return ENDING.enter_context(import_module("spark_jobs.embedded.client").embedded_session(settings))


def this_library(table: str, groups: int, session: Callable[[], Any]) -> Release:
    """Counted in one pass of an engine; noise from OpenDP."""
    spark = session()
    counts = import_module("spark_jobs.statistics").ValueCounts
    noise = import_module("spark_jobs.mechanisms.noise").SecureNoise()

    def release() -> list[float]:
        rows = spark.read.parquet(table)
        exact = counts.from_dataframe(rows, value="place", lower=0, upper=groups, cells=groups).counts
        noisy: list[float] = noise.laplace(exact, epsilon=1, l1_sensitivity=1).tolist()
        return noisy

    return release


def bare_counts(table: str, session: Callable[[], Any]) -> Release:
    """The exact counts, as anybody would ask an engine for them: a floor."""
    spark = session()
    return lambda: [float(row["count"]) for row in spark.read.parquet(table).groupBy("place").count().collect()]


def tumult(table: str, groups: int) -> Release:
    """Tumult Analytics, which counts in Spark as well."""
    sql = import_module("pyspark.sql")
    analytics = import_module("tmlt.analytics")
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    quiet = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
    spark = quiet.config("spark.driver.host", "127.0.0.1").getOrCreate()
    budget = analytics.PureDPBudget(1)
    keys = analytics.KeySet.from_dict({"place": list(range(groups))})
    query = analytics.QueryBuilder("rows").groupby(keys).count()

    def release() -> list[float]:
        session = analytics.Session.from_dataframe(
            privacy_budget=budget,
            source_id="rows",
            dataframe=spark.read.parquet(table).select("place"),
            protected_change=analytics.AddOneRow(),
        )
        return [row["count"] for row in session.evaluate(query, budget).collect()]

    return release


def pipeline_dp(table: str, groups: int) -> Release:
    """PipelineDP by its local backend: one process of Python."""
    p: Any = import_module("pipeline_dp")
    places = import_module("pyarrow.parquet").read_table(table, columns=["place"])["place"].to_pylist()

    def release() -> list[float]:
        accountant = p.NaiveBudgetAccountant(total_epsilon=1, total_delta=0)
        terms = p.AggregateParams(
            noise_kind=p.NoiseKind.LAPLACE,
            metrics=[p.Metrics.COUNT],
            max_partitions_contributed=1,
            max_contributions_per_partition=1,
        )
        extractors = p.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: 0,
        )
        engine = p.DPEngine(accountant, p.LocalBackend())
        result = engine.aggregate(enumerate(places), terms, extractors, public_partitions=list(range(groups)))
        accountant.compute_budgets()
        return [figures[0] for _, figures in result]

    return release


LIBRARIES: dict[str, Callable[[str, int], Release]] = {
    "this library": lambda table, groups: this_library(table, groups, by_spark),
    "this library, embedded": lambda table, groups: this_library(table, groups, by_embedded),
    "bare counts of Spark": lambda table, _: bare_counts(table, by_spark),
    "bare counts of the embedded engine": lambda table, _: bare_counts(table, by_embedded),
    "tumult": tumult,
    "pipeline_dp": pipeline_dp,
}


def main(library: str, table: str, groups: str) -> None:
    """Release once for each line."""
    with ENDING:
        release = LIBRARIES[library](table, int(groups))
        for _ in sys.stdin:
            began = time.perf_counter()
            released = release()
            print(len(released), sum(released), time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
