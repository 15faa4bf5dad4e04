"""Report pages of released results, a page for each kind: of some thousand rows, and of no row."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.diagnostic import Terms, diagnostic
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.publishing import figures
from spark_jobs.statistics import (
    AggregateSums,
    CrossProducts,
    GroupedScoreCounts,
    ProfileCounts,
    ScoreCounts,
    ValueCounts,
)
from tests.support import linear_results
from tests.support import publications as made

REGIONS = ("north", made.HOSTILE.replace("\x00", "")[:60])
TRACTS = [f"tract {number:05}" for number in range(40)]
LINE = {"kind": "linear_regression", "x": "parents", "y": "children", "x_bounds": (0, 100_000), "y_bounds": (0, 60_000)}
REGION, DECADE = {"column": "region", "values": REGIONS}, {"column": "age", "edges": [18, 30, 40, 50, 60, 70]}
ENTRIES: dict[str, dict[str, Any]] = {
    "residual_plot": {"outcome": "wage"},
    "confusion_matrix": {"thresholds": (0.3, 0.5, 0.7)},
    "line": LINE,
    "lines": {**LINE, "group_by": "tract", "groups": TRACTS},
    "by_group": {
        "group_by": "region",
        "groups": REGIONS,
        "kinds": ("roc_curve", {"kind": "confusion_matrix", "thresholds": (0.5,)}),
    },
    "ranking_figures": {"depths": (0.1, 0.5), "points": 9},
    "calibration": {"bins": 8},
    "binned_residuals": {"bins": 8},
    "ecdf": {"column": "amount", "bounds": (0, 120), "cells": 1024},
    "aggregates": {"by": [REGION], "measures": [{"of": "pay", "bounds": (0, 90)}], "marginals": [[]]},
    "two_way_table": {"kind": "aggregates", "by": [REGION, DECADE], "measures": [{"of": "pay", "bounds": (-90, 90)}]},
    "table_by_hour": {"kind": "aggregates", "by": [{"column": "age", "edges": list(range(18, 50))}]},
    "profile": {
        "columns": [REGION, {"column": "age", "bounds": (0, 120), "step": 1}, {"column": "pay", "bounds": (-90, 90)}],
        "pairs": [("region", "age")],
    },
    "linear_fit": {
        "features": {"age": (18, 80), "CASE WHEN pay < 0 THEN 0 ELSE LN(1 + pay) END": (0, 12)},
        "categorical": {"region": ("north", "south", "west")},
        "outcome": "hours",
        "outcome_bounds": (0, 60),
    },
}
"""The entry of each page in a request, by the page's name, which is its kind unless the entry names another."""
MADE_UP = {
    "residual_plot": (linear_results.residual_plot(), linear_results.undefined_residual_plot()),
    "line": (linear_results.linear_fit(), linear_results.undefined_fit(None)),
    "lines": (linear_results.linear_fit(40), linear_results.undefined_fit(40)),
}


@cache
def report_page(name: str, *, rows: int = 4000) -> bytes:
    """The report of a release of one kind, of so many random rows with seeded noise, or made up."""
    entry = {"kind": name, **ENTRIES[name]}
    kind = entry["kind"]
    fields: dict[str, Any] = {"diagnostics": [entry], "title": f"The page of {name}"}
    if kind == "residual_plot":
        fields |= {"label": None, "model": {"kind": "linear", "basis": "public", "coefficients": {"age": 1.0}}}
    elif kind in ("linear_regression", "linear_fit", "ecdf", "aggregates", "profile"):
        fields |= {"label": None, "model": None}
    request = made.request(**fields)
    result = MADE_UP[name][rows == 0] if name in MADE_UP else _released(kind, request, rows)
    with patch.object(figures, "png_bytes", return_value=b""):  # the page links to these pictures, and shows its own
        return made.publish({kind: result}, facts=made.facts(request=request))[1]["report.html"]


def _released(kind: str, request: ReleaseRequest, rows: int) -> Any:
    random = np.random.default_rng(7)
    (options,), (cells, *_) = request.diagnostics, request.statistics
    group = random.choice(np.array([*REGIONS, None], dtype=object), rows)
    labels = random.random(rows) < 0.35
    scores = 1 / (1 + np.exp(-(random.normal(0, 1, rows) + (1 + (group == "north")) * (labels - 0.5))))
    match kind:
        case "by_group":
            statistic: Any = GroupedScoreCounts.from_arrays(labels, scores, group, keys=REGIONS)
        case "aggregates":
            columns = {"region": group, "age": random.integers(18, 80, rows), "pay": random.normal(5, 30, rows)}
            statistic = AggregateSums.from_arrays(
                columns,
                by=options.by,
                measures=options.measures,
            )
        case "profile":
            columns = {"region": group, "age": random.integers(18, 80, rows), "pay": random.normal(5, 30, rows)}
            of = [column.model_dump(mode="json") for column in options.columns]
            statistic = ProfileCounts.from_arrays(columns, of=of, pairs=options.pairs)
        case "ecdf":
            statistic = ValueCounts.from_arrays(random.normal(40, 12, rows), lower=0, upper=120, cells=1024)
        case "linear_fit":
            columns = {f.name: random.uniform(f.lower, f.upper, rows) for f in cells.features}
            columns |= {c.column: random.choice(np.array(c.levels, dtype=object), rows) for c in cells.categorical}
            statistic = CrossProducts.from_arrays(
                columns, columns["age"] / 2 + random.uniform(0, 20, rows), design=cells
            )
        case _:
            statistic = ScoreCounts.from_arrays(labels, scores)
    drawn = diagnostic(kind).measurement.measure(statistic, options, Terms(epsilon=2, noise=SeededNoise(3)))
    return diagnostic(kind).summarise(drawn, seed=1)
