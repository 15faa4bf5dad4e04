"""Other libraries' counts and means by group, each in an environment of its own: ``_peer_groups.py LIBRARY < tables``.

Standard input is a list of tables, each with ``group`` (of every row, from 0), the number of ``groups``, ``values``
(lists of numbers in [-1, 1], one list a column), ``epsilon``, ``releases``, and the ``figures`` that are released,
without which all are. Standard output is a list of
dictionaries from figure to its values, one a release; ``null`` if the library has no such figure:

* ``mean``: the mean of the first column in each group, at all of epsilon;
* ``apart``: counts, and the means of all columns, each query at its share of epsilon;
* ``shared``: the same from a count and sums, each at its share of epsilon, of which the caller makes the means;
* ``units``: counts of rows at most ``max_groups`` groups and ``max_rows`` rows in each of a unit, if there is ``unit``.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

Figures = Mapping[str, Callable[[], Any]]


def pipeline_dp(table: Mapping[str, Any]) -> Figures:
    """PipelineDP (OpenMined), by its local backend."""
    p = import_module("pipeline_dp")
    groups, columns = table["groups"], table["values"]

    def released(metrics: Any, values: Any, epsilon: float, units: Any = None, k: int = 1, r: int = 1) -> Any:
        accountant = p.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=0)
        bounds = {"min_value": -1.0, "max_value": 1.0} if p.Metrics.MEAN in metrics else {}
        terms = p.AggregateParams(
            noise_kind=p.NoiseKind.LAPLACE,
            metrics=metrics,
            max_partitions_contributed=k,
            max_contributions_per_partition=r,
            **bounds,
        )
        extractors = p.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: row[2],
        )
        rows = list(zip(range(len(values)) if units is None else units, table["group"], values, strict=True))
        result = p.DPEngine(accountant, p.LocalBackend()).aggregate(
            rows, terms, extractors, public_partitions=list(range(groups))
        )
        accountant.compute_budgets()
        return dict(result)

    def mean() -> Any:
        figures_by_group = released([p.Metrics.MEAN], columns[0], table["epsilon"])
        return [figures_by_group[group].mean for group in range(groups)]

    def apart() -> Any:
        share = table["epsilon"] / len(columns)
        runs = [released([p.Metrics.MEAN, p.Metrics.COUNT], values, share) for values in columns]
        counts = [sum(run[group].count for run in runs) / len(runs) for group in range(groups)]
        return [counts, *([run[group].mean for group in range(groups)] for run in runs)]

    def units() -> Any:
        figures_by_group = released(
            [p.Metrics.COUNT], columns[0], table["epsilon"], table["unit"], table["max_groups"], table["max_rows"]
        )
        return [figures_by_group[group].count for group in range(groups)]

    return {"units": units} if "unit" in table else {"mean": mean, "apart": apart}


def tumult(table: Mapping[str, Any]) -> Figures:
    """Tumult Analytics, on Spark."""
    analytics, sql = import_module("tmlt.analytics"), import_module("pyspark.sql")
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", 1).getOrCreate()
    groups, columns, epsilon = table["groups"], table["values"], table["epsilon"]
    places = range(len(columns))
    names = ", ".join(f"v{place} double" for place in places)
    rows = spark.createDataFrame(list(zip(table["group"], *columns, strict=True)), f"g long, {names}").cache()
    keys = analytics.KeySet.from_dict({"g": list(range(groups))})
    grouped = analytics.QueryBuilder("rows").groupby(keys)

    def released(queries: Any) -> Any:
        """The released column of each query, at an equal share of epsilon."""
        session = analytics.Session.from_dataframe(analytics.PureDPBudget(epsilon), "rows", rows, analytics.AddOneRow())
        share = analytics.PureDPBudget(epsilon / len(queries))
        figures_by_group = []
        for query in queries:
            figure = {row["g"]: row[1] for row in session.evaluate(query, share).collect()}
            figures_by_group.append([figure[group] for group in range(groups)])
        return figures_by_group

    return {
        "mean": lambda: released([grouped.average("v0", -1.0, 1.0)])[0],
        "apart": lambda: released([grouped.count(), *(grouped.average(f"v{place}", -1.0, 1.0) for place in places)]),
        "shared": lambda: released([grouped.count(), *(grouped.sum(f"v{place}", -1.0, 1.0) for place in places)]),
    }


LIBRARIES = {"pipeline_dp": pipeline_dp, "tumult": tumult}


def main() -> None:
    """Release the figures of every table."""
    warnings.simplefilter("ignore")
    library = LIBRARIES[sys.argv[1]]
    results = []
    for table in json.load(sys.stdin):
        figures = library(table)
        figures = {name: figures[name] for name in table.get("figures", figures) if name in figures}
        results.append({name: [make() for _ in range(table["releases"])] for name, make in figures.items()})
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
