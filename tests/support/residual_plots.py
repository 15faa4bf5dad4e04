"""Residuals of every kind, and what holds for each release of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from spark_jobs.diagnostics.residual_plot.summary import MAX_POINTS
from spark_jobs.statistics import ResidualCounts
from tests.support.undefined import is_undefined


def tables():
    random = np.random.default_rng(4)
    x = random.uniform(0, 50, 4000)
    z = random.normal(size=4000)
    return {
        "ordinary": (x, z),
        "fan": (x, z * x / 10),
        "curved": (x, z + 0.01 * (x - 25) ** 2 - 2),
        "far from 0": (170 + z, random.normal(size=4000)),
        "negative": (-x - 100, z),
        "large": (x * 1e9, z * 1e7),
        "tiny": (x * 1e-9, z * 1e-9),
        "constant fitted": (np.full(500, 3.3), z[:500]),
        "constant residual": (x[:500], np.full(500, 0.25)),
        "all zero": (np.zeros(500), np.zeros(500)),
        "heavy tails": (x, random.standard_cauchy(4000)),
        "one row": (np.array([7.0]), np.array([0.5])),
        "empty": (np.array([]), np.array([])),
        "infinities": (np.array([np.inf, -np.inf, 1.0] * 300), np.array([1.0, np.inf, -np.inf] * 300)),
        "all outside": (np.full(900, 1e300), np.full(900, -1e300)),
        "nulls": (np.full(900, np.nan), np.zeros(900)),
    }


TABLES = tables()
EVERY_TABLE = pytest.mark.parametrize("name", TABLES)
ARRAYS = (
    "trend_fitted",
    "column_rows",
    "trend",
    "trend_lower",
    "trend_upper",
    "spread",
    "spread_lower",
    "spread_upper",
)


def counted(name, unit=1.0):
    return ResidualCounts.from_arrays(*TABLES[name], unit=unit)


def check_form(plot):
    """What holds for every release, whatever the rows were."""
    m = plot.bins
    assert m in {2**i for i in range(1, 9)}
    assert plot.fitted_edges.shape == plot.residual_edges.shape == (m + 1,)
    for edges in (plot.fitted_edges, plot.residual_edges):
        widths = np.diff(edges)
        assert (widths > 0).all()
        np.testing.assert_allclose(widths, widths[0], rtol=1e-9)
    assert (plot.fitted_lower, plot.fitted_upper) == (plot.fitted_edges[0], plot.fitted_edges[-1])
    assert plot.residual_bound == plot.residual_edges[-1] == -plot.residual_edges[0]
    assert plot.counts.shape == (m, m)
    assert plot.counts.dtype == np.int64
    assert (plot.counts >= 0).all()
    sides = (plot.counts_left, plot.counts_right, plot.counts_below, plot.counts_above)
    assert [side.shape for side in sides] == [(m,), (m,), (m + 2,), (m + 2,)]
    assert min(side.min() for side in sides) >= 0
    assert plot.overflow == sum(side.sum() for side in sides)
    assert plot.counts.sum() + plot.overflow == round(plot.rows)
    assert plot.points_fitted.shape == plot.points_residual.shape == (min(round(plot.rows), MAX_POINTS),)
    for points, edges in ((plot.points_fitted, plot.fitted_edges), (plot.points_residual, plot.residual_edges)):
        reach = 1.000001 * (edges[1] - edges[0])  # of the frame
        assert (points >= edges[0] - reach).all()
        assert (points <= edges[-1] + reach).all()
    published = plot.published()
    for name in ARRAYS:
        assert published[name].shape == (m,)
    assert plot.qq_theoretical.shape == plot.qq_residual.value.shape == plot.qq_line.shape == (33,)
    assert set(plot.findings) <= {"line", "curvature", "variance", "shift"}
    assert "\n" not in plot.verdict
    if is_undefined("residual_plot", plot):
        return
    assert plot.status == "ok"
    for figure in (plot.trend, plot.spread, plot.qq_residual):
        assert (np.abs(figure.value) <= plot.residual_bound).all()
    for p in (plot.line_p_value, plot.curvature_p_value, plot.variance_p_value, plot.shift_p_value, plot.p_value):
        assert 0 < p <= 1
    assert type(plot).violations(json.loads(json.dumps(plot.to_dict(), allow_nan=False))) == []
