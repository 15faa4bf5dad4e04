"""Released residual plots and lines to publish: made up here, without tables or noise."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from scipy.stats import norm

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.release import PRIVATE
from spark_jobs.diagnostics.linear_regression import LinearFit
from spark_jobs.diagnostics.residual_plot import ResidualPlot


def residual_plot(*, bins: int = 32, rows: int = 6000, bow: float = 0.02, funnel: float = 0.05) -> ResidualPlot:
    """A bowed, widening cloud of residuals between fitted values 8 and 56."""
    random = np.random.default_rng(5)
    fitted = np.clip(random.normal(30, 7, rows), 8, 56)
    residual = bow * (fitted - 30) ** 2 - bow * 49 + random.normal(0, 1, rows) * (1.5 + funnel * (fitted - 8))
    bound = 16.0
    fitted_edges, residual_edges = np.linspace(0.0, 64.0, bins + 1), np.linspace(-bound, bound, bins + 1)
    counts = np.histogram2d(fitted, residual, bins=(fitted_edges, residual_edges))[0].astype(np.int64)
    middles = (fitted_edges[1:] + fitted_edges[:-1]) / 2
    # columns in pairs, as if the noise had pooled them
    pooled = np.repeat(np.arange(bins // 2), 2)
    place = np.repeat(middles.reshape(-1, 2).mean(axis=1), 2)
    columns = np.bincount(pooled, counts.sum(axis=1))[pooled]
    half = 6.0 / np.sqrt(np.maximum(columns, 1.0))
    trend = np.where(columns > 0, bow * (place - 30) ** 2 - bow * 49, 0.0)
    spread = 1.5 + funnel * np.maximum(place - 8, 0)
    levels = norm.ppf(np.linspace(0.02, 0.98, 25))
    quantiles = 2.6 * levels + 0.3 * levels**2 - 0.3
    return ResidualPlot(
        fitted_edges=fitted_edges,
        residual_edges=residual_edges,
        fitted_lower=0.0,
        fitted_upper=64.0,
        residual_bound=bound,
        bins=bins,
        counts=counts,
        counts_left=np.zeros(bins, dtype=np.int64),
        counts_right=np.arange(bins) // (bins // 2),
        counts_below=np.eye(1, bins + 2, dtype=np.int64)[0],
        counts_above=np.full(bins + 2, 2),
        points_fitted=fitted[:500],
        points_residual=np.clip(residual[:500], -bound, bound),
        overflow=float(bins // 2 + 1 + 2 * (bins + 2)),
        trend_fitted=middles,
        column_rows=columns.astype(np.float64),
        trend=around(trend, half),
        spread=Figure(value=spread, interval=Ends(np.maximum(spread - half, 0.0), spread + half)),
        qq_theoretical=levels,
        qq_residual=around(quantiles, 0.4),
        qq_line=2.6 * levels,
        shift=Figure(value=0.1, interval=Ends(-0.1, 0.3)),
        slope=Figure(value=0.02, interval=Ends(-0.01, 0.05)),
        bow=Figure(value=3.1, interval=Ends(2.8, 3.4)),
        spread_ratio=Figure(value=2.5, interval=Ends(2.2, 2.9)),
        line_p_value=0.41,
        curvature_p_value=0.0004,
        variance_p_value=0.012,
        shift_p_value=0.6,
        p_value=0.0008,
        p_value_floor=1 / 2001,
        verdict="The mean residual is curved, and the spread changes with the fitted value.",
        findings=("curvature", "variance"),
        error_rate=0.05,
        rows=float(rows) + 0.4,
        status="ok",
        method="laplace",
        confidence=0.95,
        epsilon=Decimal(1),
        neighbours=Neighbours.ADD_REMOVE,
        guarantee=PRIVATE,
    )


def around(value: FloatArray, half: FloatArray | float) -> Figure[FloatArray]:
    """Figures with intervals of this half width."""
    return Figure(value=value, interval=Ends(value - half, value + half))


def undefined_residual_plot(*, bins: int = 1) -> ResidualPlot:
    """What is released of too few rows: the same form, and nothing in it."""
    nothing = np.zeros(bins)
    return replace(
        residual_plot(),
        fitted_edges=np.linspace(-1.0, 1.0, bins + 1),
        residual_edges=np.linspace(-1.0, 1.0, bins + 1),
        fitted_lower=-1.0,
        fitted_upper=1.0,
        residual_bound=1.0,
        bins=bins,
        counts=np.zeros((bins, bins), dtype=np.int64),
        **dict.fromkeys(("counts_left", "counts_right"), np.zeros(bins, dtype=np.int64)),
        **dict.fromkeys(("counts_below", "counts_above"), np.zeros(bins + 2, dtype=np.int64)),
        points_fitted=np.zeros(0),
        points_residual=np.zeros(0),
        overflow=0.0,
        trend_fitted=nothing,
        column_rows=nothing,
        **dict.fromkeys(("trend", "spread"), around(nothing, nothing)),
        verdict="Too few rows to tell.",
        findings=(),
        rows=0.0,
        status="undefined",
    )


def linear_fit(groups: int | None = None, **changes: Any) -> LinearFit:
    """A line through incomes of children over those of their parents; or one for each of so many tracts."""
    random = np.random.default_rng(6)
    many = 1 if groups is None else groups
    slope = random.normal(0.4, 0.15, many)
    intercept = random.normal(9_000, 2_500, many)
    failed = np.arange(many) % 7 == 3
    own, slope = np.where(failed, np.nan, slope), np.where(failed, 0.0, slope)
    x = np.array([25_000.0, 75_000.0])
    predictions = np.clip(intercept[:, None] + slope[:, None] * x, 0, 60_000)
    half = random.uniform(800, 6_000, (many, 1))
    rows = random.uniform(20, 400, many).round(1)
    made = LinearFit(
        keys=None if groups is None else tuple(f"tract {number:05}" for number in range(groups)),
        at=np.array([0.25, 0.75]),
        x=x,
        predictions=around(predictions, half),
        slope=around(own, 0.1),
        intercept=around(np.where(failed, np.nan, intercept), 3_000),
        status=tuple("undefined" if each else "ok" for each in failed),
        rows=rows,
        total_rows=float(rows.sum()),
        methods=("noisy_stats",) * many,
        method="auto",
        x_bounds=(0.0, 100_000.0),
        y_bounds=(0.0, 60_000.0),
        public_sizes=False,
        confidence=0.9,
        epsilon=Decimal(1),
        delta=Decimal(0),
        neighbours=Neighbours.ADD_REMOVE,
        guarantee=PRIVATE,
    )
    return replace(made, **changes)


def undefined_fit(groups: int | None) -> LinearFit:
    """Lines of too few rows, none of which has a slope."""
    found = linear_fit(groups)
    status = ("undefined",) * found.groups
    return replace(found, status=status, slope=found.slope.withheld(), intercept=found.intercept.withheld())


def without_intervals(found: LinearFit) -> LinearFit:
    """The same of a method whose noise depends on the data."""
    figures = {name: getattr(found, name) for name in ("predictions", "slope", "intercept")}
    return replace(
        found,
        methods=("dp_exp_theil_sen",) * found.groups,
        **{name: replace(one, interval=one.withheld().interval) for name, one in figures.items()},
    )
