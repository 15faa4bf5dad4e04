"""Whole releases without Spark: requests of every kind at random, and the drafts of small tables for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from spark_jobs.application.draft import draft
from spark_jobs.application.draw import ReleaseDraw
from spark_jobs.application.run import measure
from spark_jobs.contract.options import (
    DIAGNOSTICS,
    AggregateCells,
    CrossProductCells,
    GroupedScoreCells,
    LabelledRowCells,
    PairedScoreCells,
    PointCells,
    PointSums,
    ProfileCells,
    ResidualCells,
    ScoreCells,
    Statistic,
    ValueCells,
)
from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.contract.release import Release
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.mechanisms.noise import Noise
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
from spark_jobs.statistics.profile_counts import cells_of
from spark_jobs.wording.rules import rules
from tests.support.kinds import EXAMPLES

KEYS = ["001", "002", "003"]


def rows_of(count: int, seed: int) -> dict[str, np.ndarray]:
    """``count`` rows of a table with the columns that the requests of ``requests`` read."""
    generator = np.random.default_rng(seed)
    label = generator.random(count) < 0.4
    score = np.clip(generator.normal(0.4 + 0.2 * label, 0.2), 0, 1)
    return {
        "label": label.astype(np.int64),
        "score": score,
        "other": np.clip(generator.normal(score, 0.1), 0, 1),
        "amount": generator.normal(40, 12, count),
        "residual": generator.normal(0, 1, count),
        "x": generator.random(count),
        "y": generator.random(count),
        "tract": generator.choice(np.array([*KEYS, "of no list"]), count),
        "region": generator.choice(np.array(["north", "south", "west"]), count),
        "site": generator.choice(np.array(["a", "b", "c"]), count),
    }


def exact(statistic: Statistic, rows: dict[str, np.ndarray]) -> Any:
    """The exact statistic of the rows, as Spark would count it."""
    match statistic:
        case ScoreCells():
            return ScoreCounts.from_arrays(rows["label"], rows["score"])
        case GroupedScoreCells():
            return GroupedScoreCounts.from_arrays(rows["label"], rows["score"], rows["tract"], keys=statistic.groups)
        case PairedScoreCells():
            return PairedScoreCounts.from_arrays(rows["label"], rows["score"], rows["other"])
        case ValueCells():
            grid = {name: getattr(statistic, name) for name in ("lower", "upper", "cells", "scale", "unit")}
            return ValueCounts.from_arrays(rows["amount"], **grid)
        case ResidualCells():
            return ResidualCounts.from_arrays(rows["amount"], rows["residual"], unit=statistic.unit)
        case PointCells() | PointSums():
            (x_low, x_high), (y_low, y_high) = statistic.x_bounds, statistic.y_bounds
            points = PointCounts if isinstance(statistic, PointCells) else Moments
            return points.from_arrays(
                rows["x"],
                rows["y"],
                groups=None if statistic.groups is None else rows["tract"],
                keys=statistic.groups,
                lower=(x_low, y_low),
                upper=(x_high, y_high),
                cells=statistic.cells,
            )
        case CrossProductCells():
            return CrossProducts.from_arrays(rows, rows["y"], design=statistic)
        case LabelledRowCells():
            return LabelledRows.from_arrays(rows, rows["label"], design=statistic)
        case ProfileCells():
            cell: Any = 0
            for column, labels in zip(statistic.columns, statistic.keys, strict=True):
                cell = cell * len(labels) + cells_of(rows[column.column], column, statistic)
            counts = np.bincount(cell, minlength=statistic.max_keys)
            return ProfileCounts(design=statistic, counts=counts.astype(np.int64))
        case UnitRowCells():
            units = np.arange(rows["amount"].size) // 3
            return UnitRowCounts.from_arrays(
                rows, units, by=statistic.model_dump(mode="json")["by"], largest=statistic.largest
            )
        case AggregateCells():
            return AggregateSums.from_arrays(rows, by=statistic.by, measures=statistic.measures)
    raise AssertionError(f"no rows for {type(statistic).__name__}")


def rehearse(request: ReleaseRequest, rows: dict[str, np.ndarray], noise: Noise) -> tuple[Release, dict[str, bytes]]:
    """The draft of ``request`` for these rows, by way of a draw that was stored, as the application makes it."""
    counts = {statistic: exact(statistic, rows) for statistic in request.statistics}
    drawn = measure(request, counts, charge_id=None, noise=noise)
    stored = ReleaseDraw.from_json(drawn.to_json(), charge_id=None, request_sha256=request.sha256)
    return draft(request, stored, key=None, rules=rules(request))


EPSILONS = st.one_of(
    st.sampled_from(["0.1", "1", "3"]),
    st.builds("{}e{}".format, st.integers(1, 9), st.integers(-12, 11)),
)
DELTAS = st.one_of(st.just("1e-6"), st.builds("{}e-{}".format, st.integers(1, 9), st.integers(1, 30)))
CONFIDENCES = st.sampled_from([0.5, 0.9, 0.95, 0.999])
HISTOGRAMS = [
    "adaptive_grid",
    "ahp",
    "dawa",
    "geometric",
    "greedy_h",
    "hb",
    "laplace",
    "mwem",
    "shrunken_tree",
    "uniform",
]
BOUNDS = st.sampled_from([[0, 1], [-1e100, 1e100], [0, 1e-100], [1e15, 1e15 + 4096], [-3, 0], [0, 1e-9]])


def _kind(kind: str, **options: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    weights = st.sampled_from(["0.001", "1", "1000"])
    return st.fixed_dictionaries({"kind": st.just(kind)}, optional={**options, "weight": weights})


def _grouped(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    return _kind(
        kind,
        method=st.sampled_from(["auto", "recursive_medians", "fixed_bins"]),
        bins=st.sampled_from([2, 8, 16, 20, 256]),
        confidence=CONFIDENCES,
        share=st.booleans(),
    )


def _figure(kind: str, *more: str, **options: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    methods = ["auto", "polynomial", "cauchy", "laplace", "counts", *more]
    return _kind(kind, method=st.sampled_from(methods), confidence=CONFIDENCES, **options)


_ROC = st.one_of(
    _kind(
        "roc_curve",
        method=st.sampled_from(["auto", "tree", "equi_depth"]),
        thresholds=st.sampled_from([2, 8, 100, 65536]),
        share=st.booleans(),
    ),
    _kind(
        "roc_curve",
        method=st.sampled_from(["fixed_cells", "recursive_medians"]),
        thresholds=st.sampled_from([2, 8, 256, 65536]),
        histogram=st.sampled_from(HISTOGRAMS),
    ).filter(lambda options: "histogram" not in options or "method" in options),
)
_ECDF = st.one_of(
    _kind("ecdf", points=st.sampled_from([2, 512]), smoothing=st.sampled_from(["2-norm", "1-norm"])),
    st.builds(
        lambda options, bounds: {**options, "column": "amount", "bounds": bounds},
        _kind("ecdf", cells=st.sampled_from([256, 32768]), quantiles=st.just([0.0, 0.5, 1.0])),
        BOUNDS,
    ),
    st.builds(
        lambda options: {**options, "column": "amount"},
        _kind("ecdf", scale=st.sampled_from(["linear", "log"]), unit=st.sampled_from([1e-100, 1.0, 1e100])),
    ),
    st.builds(
        lambda options, bounds: {**options, "column": "amount", "scale": "log", "bounds": bounds},
        _kind("ecdf", cells=st.sampled_from([4096, 32768])),
        BOUNDS,
    ),
)
_QUANTILE = st.one_of(
    _kind("quantile", level=st.sampled_from([0.0, 0.5, 0.999999]), confidence=CONFIDENCES),
    st.builds(
        lambda options, bounds: {**options, "column": "amount", "bounds": bounds},
        _kind("quantile", cells=st.sampled_from([256, 32768]), scale=st.sampled_from(["linear", "log"])),
        BOUNDS,
    ),
    st.builds(lambda options: {**options, "column": "amount"}, _kind("quantile", unit=st.sampled_from([1e-100, 1.0]))),
)
_LINES = st.builds(
    lambda options, x_bounds, y_bounds, grouped: {
        **options,
        "x": "x",
        "y": "y",
        "x_bounds": x_bounds,
        "y_bounds": y_bounds,
        **({"group_by": "tract", "groups": KEYS} if grouped else {}),
    },
    _kind(
        "linear_regression",
        method=st.sampled_from(
            [
                "auto", "noisy_moments", "noisy_moments_zcdp", "noisy_stats", "noisy_stats_zcdp", "noisy_intercept",
                "dp_exp_theil_sen", "dp_wide_theil_sen", "dp_ss_theil_sen", "dp_grad_descent", "dp_grad_descent_zcdp",
            ]
        ),
        at=st.sampled_from([[0.5], [0.0, 1.0], [0.25, 0.5, 0.75]]),
        size_bound=st.sampled_from([1, 10**12]),
        matchings=st.sampled_from([1, 1000]),
        public_sizes=st.booleans(),
        cells=st.sampled_from([2, 16, 1024]),
    ),
    BOUNDS,
    BOUNDS,
    st.booleans(),
)  # fmt: skip
_FITTING = {
    "method": st.sampled_from(["auto", "k_norm", "laplace", "gaussian"]),
    "confidence": CONFIDENCES,
    "categorical": st.just({"region": ["north", "south", "west"]}),
}
KINDS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "aggregates": st.builds(
        lambda options, bounds: {
            **options,
            "by": [{"column": "tract", "values": KEYS}],
            "measures": [{"of": "amount", "bounds": bounds}],
        },
        _kind("aggregates", confidence=CONFIDENCES),
        BOUNDS,
    ),
    "profile": st.builds(
        lambda options, bounds: {
            **options,
            "columns": [{"column": "tract", "values": KEYS}, {"column": "amount", "bounds": bounds}],
            "pairs": [["tract", "amount"]],
        },
        _kind("profile", confidence=CONFIDENCES, bins=st.sampled_from([8, 100, 256])),
        BOUNDS,
    ),
    "roc_curve": _ROC,
    "roc_comparison": st.builds(
        lambda options: {**options, "other": {"kind": "columns", "score": "other", "basis": "public"}},
        _kind("roc_comparison", confidence=CONFIDENCES),
    ),
    "auc": _figure("auc"),
    "average_precision": _figure("average_precision", "weighted_counts", interval=st.booleans()),
    "binormal_roc": _figure("binormal_roc", points=st.sampled_from([2, 201])),
    "confusion_matrix": _kind("confusion_matrix", thresholds=st.sampled_from([[0.5], [0.0, 0.3, 1.0]])),
    "ranking_figures": _kind("ranking_figures", depths=st.sampled_from([[0.5], [0.01, 1.0]])),
    "recalibration": _kind("recalibration", clip=st.sampled_from([0.001, 0.1])),
    "by_group": st.builds(
        lambda options, kinds: {**options, "group_by": "tract", "groups": KEYS, "kinds": kinds},
        _kind("by_group", confidence=CONFIDENCES),
        st.sampled_from([["auc"], ["roc_curve", "calibration"], ["average_precision", "confusion_matrix"]]),
    ),
    "binned_residuals": _grouped("binned_residuals"),
    "calibration": _grouped("calibration"),
    "ecdf": _ECDF,
    "quantile": _QUANTILE,
    "cdf_points": st.one_of(
        _kind("cdf_points", thresholds=st.sampled_from([[], [0.5], [0.0, 0.25, 1.0]]), more_evaluations=st.just(7)),
        st.builds(
            lambda options, bounds: {**options, "column": "amount", "bounds": bounds, "thresholds": [bounds[0]]},
            _kind("cdf_points", cells=st.sampled_from([256, 32768]), quantiles=st.sampled_from([[], [0.0, 0.5, 1.0]])),
            BOUNDS,
        ),
    ),
    "residual_plot": st.builds(
        lambda options: {**options, "outcome": "wage"},
        _kind(
            "residual_plot",
            unit=st.sampled_from([1e-100, 0.125, 1e100]),
            method=st.sampled_from(["auto", *HISTOGRAMS]),
            bins=st.sampled_from([2, 32, 256]),
            coverage=st.sampled_from([0.5, 0.999]),
        ),
    ),
    "linear_regression": _LINES,
    "linear_fit": st.builds(
        lambda options, x, y: {**options, "features": {"x": x}, "outcome": "y", "outcome_bounds": y},
        _kind("linear_fit", **_FITTING),
        BOUNDS,
        BOUNDS,
    ),
    "logistic_fit": st.builds(
        lambda options, x: {**options, "features": {"x": x}},
        _kind("logistic_fit", **_FITTING, radius=st.sampled_from([1.0, 4.0, 16.0])),
        BOUNDS,
    ),
}
KINDS |= {
    kind: st.sampled_from([{"kind": kind, **options} for options in EXAMPLES[kind]])
    for kind in DIAGNOSTICS
    if kind not in KINDS
}
"""Options of each kind, valid by themselves or nearly so; its examples, where nothing is listed."""


@st.composite
def requests(draw: st.DrawFn, *kinds: str, most: int = 3) -> dict[str, Any]:
    """The fields of a request of one diagnostic or several, in any order; some are refused when they are read."""
    chosen = draw(st.lists(st.sampled_from(kinds or tuple(KINDS)), min_size=1, max_size=most, unique=True))
    rows = draw(st.sampled_from([1, 1, 2, 7, 1_000_000]))
    return {
        "account": "visits",
        "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        "label": "label",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
        "diagnostics": [draw(KINDS[kind]) for kind in chosen],
        "budget": {"epsilon": draw(EPSILONS), "delta": draw(st.one_of(st.just("0"), DELTAS))},
        "neighbours": draw(st.sampled_from(["add_remove", "replace_one"])),
        "unit": {"column": "person", "max_rows": rows} if rows > 1 else {},
    }
