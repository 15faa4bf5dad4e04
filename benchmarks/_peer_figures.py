"""The figures of other libraries, each in an environment of its own: ``_peer_figures.py LIBRARY < tables.json``.

Standard input is a list of tables, each with ``cells`` (of every row, from 0), their number ``size``, ``epsilon``,
``x`` and ``y`` in [0, 1], ``line_epsilon`` and ``releases``. Standard output is a list of dictionaries from figure to
its values, one a release: ``histogram`` (counts of the cells), ``median`` (a cell), ``line`` (heights at 1/4 and 3/4).

Neighbours differ in one row, added or removed. Each library draws noise as its own defaults say.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

Figures = Mapping[str, Callable[[], Any]]


def diffprivlib(table: Mapping[str, Any]) -> Figures:
    """Diffprivlib (IBM)."""
    tools, models = import_module("diffprivlib.tools"), import_module("diffprivlib.models")
    epsilon, size = table["epsilon"], table["size"]

    def line() -> Any:
        fit = models.LinearRegression(epsilon=table["line_epsilon"], bounds_X=(0, 1), bounds_y=(0, 1))
        fit.fit([[value] for value in table["x"]], table["y"])
        return fit.predict([[0.25], [0.75]]).tolist()

    # its quantiles fail on rows with equal values, so that rows lie apart within their cells
    places = [(cell + row * 0.6180339887 % 1) / size for row, cell in enumerate(table["cells"])]
    return {
        "histogram": lambda: tools.histogram(places, epsilon=epsilon, bins=size, range=(0, 1))[0].tolist(),
        "median": lambda: min(int(tools.quantile(places, 0.5, epsilon=epsilon, bounds=(0, 1)) * size), size - 1),
        "line": line,
    }


def opendp(table: Mapping[str, Any]) -> Figures:
    """OpenDP."""
    dp = import_module("opendp.prelude")
    dp.enable_features("contrib")
    cells, every, epsilon = table["cells"], list(range(table["size"])), table["epsilon"]
    rows = dp.vector_domain(dp.atom_domain(T=dp.i32)), dp.symmetric_distance()

    def counts(scale: float) -> Any:
        return rows >> dp.t.then_count_by_categories(every, null_category=False) >> dp.m.then_laplace(scale)

    def median(scale: float) -> Any:
        return rows >> dp.m.then_private_quantile(dp.max_divergence(), every, 0.5, scale)

    def released(make: Callable[[float], Any]) -> Any:
        return make(dp.binary_search_param(make, d_in=1, d_out=epsilon, T=float))(cells)

    return {"histogram": lambda: released(counts), "median": lambda: released(median)}


def pipeline_dp(table: Mapping[str, Any]) -> Figures:
    """PipelineDP (OpenMined), by its local backend."""
    p = import_module("pipeline_dp")
    cells, size = table["cells"], table["size"]

    def released(metric: Any, of_row: Callable[[int], tuple[int, float]], parts: int, **bounds: float) -> Any:
        accountant = p.NaiveBudgetAccountant(total_epsilon=table["epsilon"], total_delta=0)
        terms = p.AggregateParams(
            noise_kind=p.NoiseKind.LAPLACE,
            metrics=[metric],
            max_partitions_contributed=1,
            max_contributions_per_partition=1,
            **bounds,
        )
        extractors = p.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: of_row(row[1])[0],
            value_extractor=lambda row: of_row(row[1])[1],
        )
        engine = p.DPEngine(accountant, p.LocalBackend())
        result = engine.aggregate(list(enumerate(cells)), terms, extractors, public_partitions=list(range(parts)))
        accountant.compute_budgets()
        figures = dict(result)
        return [figures[part][0] for part in range(parts)]

    def median() -> int:
        [place] = released(
            p.Metrics.PERCENTILE(50), lambda cell: (0, (cell + 0.5) / size), 1, min_value=0.0, max_value=1.0
        )
        return min(int(place * size), size - 1)

    return {"histogram": lambda: released(p.Metrics.COUNT, lambda cell: (cell, 0.0), size), "median": median}


def tumult(table: Mapping[str, Any]) -> Figures:
    """Tumult Analytics, on Spark."""
    analytics, sql = import_module("tmlt.analytics"), import_module("pyspark.sql")
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", 1).getOrCreate()
    cells, size, budget = table["cells"], table["size"], analytics.PureDPBudget(table["epsilon"])
    rows = spark.createDataFrame([(cell, (cell + 0.5) / size) for cell in cells], "cell long, place double")

    def released(query: Any) -> Any:
        session = analytics.Session.from_dataframe(budget, "rows", rows, analytics.AddOneRow())
        return session.evaluate(query, budget).collect()

    def histogram() -> Any:
        keys = analytics.KeySet.from_dict({"cell": list(range(size))})
        counts = {row["cell"]: row["count"] for row in released(analytics.QueryBuilder("rows").groupby(keys).count())}
        return [counts[cell] for cell in range(size)]

    def median() -> int:
        [[place]] = released(analytics.QueryBuilder("rows").median("place", 0.0, 1.0))
        return min(int(place * size), size - 1)

    return {"histogram": histogram, "median": median}


LIBRARIES = {"diffprivlib": diffprivlib, "opendp": opendp, "pipeline_dp": pipeline_dp, "tumult": tumult}


def main() -> None:
    """Release the figures of every table."""
    warnings.simplefilter("ignore")
    library = LIBRARIES[sys.argv[1]]
    results = []
    for table in json.load(sys.stdin):
        figures = library(table)
        results.append({name: [make() for _ in range(table["releases"])] for name, make in figures.items()})
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
