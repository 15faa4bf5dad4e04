"""Examples of every kind, which all suites read, and small random tables for them."""

from __future__ import annotations

from dataclasses import fields, replace
from importlib import import_module

import numpy as np

from spark_jobs.contract.options import (
    DIAGNOSTICS,
    AggregateCells,
    GroupedScoreCells,
    PointCells,
    PointSums,
    ProfileCells,
    ResidualCells,
)
from spark_jobs.contract.options.base import ScoreCells
from spark_jobs.contract.options.comparisons import EarlierCurve, PairedScoreCells
from spark_jobs.contract.options.fits import CrossProductCells, LabelledRowCells
from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.contract.options.values import ValueCells
from spark_jobs.diagnostics import roc_curve
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import (
    AggregateSums,
    CrossProducts,
    GroupedScoreCounts,
    LabelledRows,
    Moments,
    PairedScoreCounts,
    PointCounts,
    ProfileCounts,
    ResidualCounts,
    ScoreCounts,
    UnitRowCounts,
    ValueCounts,
)

OTHER_MODEL = {"kind": "columns", "basis": "public", "score": "other"}
EARLIER = EarlierCurve.of(
    roc_curve.release(ScoreCounts.from_arrays([0, 1] * 99, [0.2, 0.7] * 99), epsilon=1, noise=SeededNoise(1)).to_dict(),
    released_by="earlier",
)
REFERENCE = {"distribution": "normal", "parameters": (5, 2)}
VALUES = {"column": "amount", "bounds": (0.0, 10.0), "cells": 1024}
ECDF = {**VALUES, "points": 16}
LINE = {"x": "x", "y": "y", "x_bounds": (0.0, 1.0), "y_bounds": (0.0, 1.0), "cells": 64, "matchings": 3}
SITES = {"column": "site", "values": ["a", "b"]}
SPEND = {"of": "spend", "bounds": (0.0, 100.0)}
PREDICTED = {
    "outcome": "spend", "prediction": "stay", "largest_error": 20.0, "bounds": [0.0, 100.0],
    "figures": ["mae", "r2", "pinball_0.9"],
}  # fmt: skip
EXAMPLES: dict[str, list[dict]] = {
    "aggregates": [
        {"by": [SITES]},
        {"by": [SITES, {"column": "age", "edges": [0, 18, 65]}], "measures": [SPEND]},
        {"by": [SITES, {"column": "age", "edges": [0, 18, 65]}], "measures": [SPEND], "marginals": [["age"], []]},
        {"by": [SITES], "measures": [SPEND, {"of": "stay", "bounds": (0.0, 30.0), "step": 1.0}]},
        {"by": [SITES], "measures": [{**SPEND, "figures": ["mean", "sd"]}], "marginals": [[]]},
        {"by": [SITES], "measures": [PREDICTED]},
        {"by": [SITES], "measures": [{**SPEND, "figures": ["p50", "p90", "mean"]}], "marginals": [[]]},
    ],
    "roc_curve": [{}, {"thresholds": 8}],
    "roc_comparison": [{"other": OTHER_MODEL}, {"compare_with": EARLIER}],
    "auc": [{}],
    "average_precision": [{}],
    "binormal_roc": [{}],
    "confusion_matrix": [{}, {"thresholds": (0.25, 0.5, 0.75)}],
    "ranking_figures": [{"points": 5, "depths": (0.1, 0.5)}],
    "recalibration": [{"clip": 0.01}],
    "by_group": [{"group_by": "site", "groups": ["a", "b"], "kinds": ["roc_curve", "calibration"]}],
    "binned_residuals": [{"bins": 4}],
    "calibration": [{"bins": 4}],
    "ecdf": [{}, ECDF, {**ECDF, "bounds": None}, {**ECDF, "reference": REFERENCE}],
    "quantile": [{}, VALUES, {**VALUES, "bounds": None}],
    "cdf_points": [{}, {**VALUES, "thresholds": (2.0, 7.0), "more_evaluations": 3}],
    "residual_plot": [{"outcome": "paid"}, {"outcome": "paid", "bins": 8}],
    "linear_regression": [LINE, {**LINE, "group_by": "site", "groups": ["a", "b"]}],
    "linear_fit": [
        {"features": {"a": (0.0, 1.0)}, "categorical": {"c": ["u", "v"]}, "outcome": "y", "outcome_bounds": (0.0, 1.0)}
    ],
    "logistic_fit": [{"features": {"a": (0.0, 1.0)}, "categorical": {"c": ["u", "v"]}}],
}
"""What a kind needs beside its enumerations and flags; several where a choice is no enumeration."""
EXAMPLES |= {
    kind: import_module(f"tests.diagnostics.test_{kind}").EXAMPLES for kind in DIAGNOSTICS if kind not in EXAMPLES
}
"""A kind that is not listed states its own, in the module of its tests."""


def statistic_of(cells, seed, *, sizes):
    """Random rows, counted; with ``sizes`` given, so many in each group and every one of them usable."""
    random = np.random.default_rng(seed)
    rows = (300, 7)[seed] if sizes is None else sum(sizes)
    skew = (1.0, 4.0)[seed]
    if isinstance(cells, PairedScoreCells):
        labels = random.random(rows) < (0.3, 0.9)[seed]
        scores = (random.normal(0.4 + labels / skew / 3, width) for width in (0.2, 0.3))
        return PairedScoreCounts.from_arrays(labels, *scores)
    if isinstance(cells, GroupedScoreCells):
        labels, groups = random.random(rows) < (0.3, 0.9)[seed], random.choice(["a", "b", "c"], rows)
        scores = random.normal(0.4 + labels / skew / 3, 0.2)
        return GroupedScoreCounts.from_arrays(labels, scores, groups, keys=cells.groups, cells=4096)
    if isinstance(cells, ScoreCells):
        labels = random.random(rows) < (0.3, 0.9)[seed]
        return ScoreCounts.from_arrays(labels, random.normal(0.4 + labels / skew / 3, 0.2), cells=4096)
    if isinstance(cells, UnitRowCells):
        return UnitRowCounts.from_rows(random.zipf(1 + 1 / skew, rows), design=cells)
    if isinstance(cells, AggregateCells):
        columns = {
            one.column: random.choice([*map(str, one.values), "c"], rows)
            if one.values
            else random.uniform(one.edges[0] - 5, one.edges[-1] + 15, rows)
            for one in cells.by
        }
        columns |= {one.of: random.lognormal(2, skew, rows) for one in cells.measures}
        return AggregateSums.from_arrays(columns, by=cells.by, measures=cells.measures)
    if isinstance(cells, ProfileCells):
        return ProfileCounts(design=cells, counts=random.multinomial(rows, random.dirichlet(np.ones(cells.max_keys))))
    if isinstance(cells, ValueCells):
        of = {name: getattr(cells, name) for name in ("lower", "upper", "cells", "scale", "unit")}
        return ValueCounts.from_arrays(random.lognormal(0, skew, rows), **of)
    if isinstance(cells, ResidualCells):
        return ResidualCounts.from_arrays(
            random.normal(0, 100 * skew, rows), random.normal(5, skew, rows), unit=cells.unit
        )
    if isinstance(cells, (PointCells, PointSums)):
        keys = cells.groups
        groups = None if keys is None else np.repeat(np.array(keys), sizes or (rows // len(keys)))
        x = random.random(rows if groups is None else groups.size) ** skew
        counted = PointCounts if isinstance(cells, PointCells) else Moments
        return counted.from_arrays(x, 0.5 * x + random.random(x.size) / 2, groups=groups, keys=keys, cells=cells.cells)
    if isinstance(cells, (CrossProductCells, LabelledRowCells)):
        outcome = random.random(rows) if isinstance(cells, CrossProductCells) else random.integers(0, 2, rows)
        columns = {feature.name: random.random(rows) ** skew for feature in cells.features}
        columns |= {each.column: random.choice(each.levels, rows) for each in cells.categorical}
        rows = CrossProducts if isinstance(cells, CrossProductCells) else LabelledRows
        return rows.from_arrays(columns, outcome, design=cells)
    raise TypeError(f"{type(cells).__name__}: say how its tables are made")


def tables(options, relation):
    """Two tables that have nothing in common but what is public."""
    public = options.sizes_are_public(relation)
    groups = len(getattr(options, "groups", None) or ("all",))
    found = []
    for seed in (0, 1):
        parts = [statistic_of(c, seed, sizes=(30,) * groups if public else None) for c in options.statistics]
        found.append(parts[0] if len(parts) == 1 else tuple(parts))
    return found


OF_CELLS = {"keys", "group", "x_cell", "y_cell", "fitted_cells", "residual_cells", "value_keys"}
"""Arrays of a statistic that say where rows are, and not how many."""


def times(statistic, factor):
    """The statistic of a table in which every row occurs ``factor`` times."""
    if isinstance(statistic, tuple):
        return tuple(times(part, factor) for part in statistic)
    if isinstance(statistic, LabelledRows):
        return replace(statistic, sums_at=lambda position: times(statistic.sums_at(position), factor))
    arrays = {
        field.name: getattr(statistic, field.name) * factor
        for field in fields(statistic)
        if isinstance(getattr(statistic, field.name), np.ndarray) and field.name not in OF_CELLS
    }
    assert arrays
    finer = getattr(statistic, "finer", None)
    if finer is not None:
        arrays["finer"] = lambda grid: factor * finer(grid)
    return replace(statistic, **arrays)
