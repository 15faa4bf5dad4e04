"""The released residual plot."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours, plain
from spark_jobs.diagnostics.undefined import listed


@dataclass(frozen=True, kw_only=True, eq=False)
class ResidualPlot:
    """A released residual plot: residuals against fitted values, with trend, spread, tests and a verdict.

    The box has ``m x m`` equal cells; m and the box are computed from noisy numbers. A residual is the outcome minus
    the fitted value. Each interval covers, at level ``confidence``, what the exact counts of the same rows on the same
    grid would give: it accounts for the privacy noise, not for the sampling of the rows. P-values account for both.

    Attributes:
        fitted_edges: edges of the cells along fitted values; shape (m + 1,).
        residual_edges: edges along residuals, from ``-residual_bound`` to ``residual_bound``; shape (m + 1,).
        fitted_lower, fitted_upper: first and last edge of the box along fitted values.
        residual_bound: last edge of the box along residuals.
        bins: m, the number of cells per axis.
        counts: number of rows in each cell, whole and at least 0; shape (m, m), fitted values first.
        counts_left, counts_right: rows with a fitted value beyond either end of the box, by the cell of their residual;
            shape (m,).
        counts_below, counts_above: rows with a residual beyond either end, by the cell of their fitted value, the first
            and the last of them beyond the box; shape (m + 2,).
        points_fitted, points_residual: a synthetic scatter of the released counts, shape (k,). Each point is uniform
            within its cell; points beyond the box lie in one more cell on its sides. There is one point per row, up to
            a public limit, beyond which the counts are scaled down in proportion.
        overflow: noisy number of rows outside the box, on all four sides together.
        trend_fitted: middle of each column of the box; shape (m,), like column_rows, trend and spread. Neighbouring
            columns with too few rows for the noise are pooled and share their values.
        column_rows: noisy number of rows of the pool that the column belongs to.
        trend, trend_lower, trend_upper: mean residual and its interval; residuals beyond the box count at its edge.
        spread, spread_lower, spread_upper: half the distance between the 16% and 84% quantiles of the residuals, which
            is the standard deviation if they are normally distributed; and its interval.
        qq_theoretical: quantiles of the standard normal distribution, fixed; shape (q,).
        qq_residual, qq_lower, qq_upper: quantiles of the residuals at the same levels, and their intervals; shape (q,).
        qq_line: quantiles of the normal distribution with the same quartiles; shape (q,).
        shift, slope, bow, spread_ratio: effect sizes (``residual_plot.effects``): the mean residual; its change per
            unit of the fitted value; how far it lies higher at both ends than halfway, by a parabola; the spread of the
            fifth of the rows with the largest fitted values, divided by that of the fifth with the smallest. None if
            the noise leaves too few columns. Residuals beyond the box count at its edge.
        shift_interval, slope_interval, bow_interval, spread_ratio_interval: their intervals, which unlike the others
            account for the sampling of the rows as well.
        line_p_value: p-value of the test for a slope of the mean residual along the fitted values.
        curvature_p_value: p-value of the test for curvature of the mean residual.
        variance_p_value: p-value of the test for a spread that grows or shrinks with the fitted value.
        shift_p_value: p-value of the test for a mean of all residuals other than 0.
        p_value: p-value of all four tests together, based on the most extreme of them.
        p_value_floor: the smallest p-value that the simulation can show.
        verdict: the findings in words.
        findings: the tests that reject: any of ``line``, ``curvature``, ``variance``, ``shift``.
        error_rate: bound on the probability that any of the four tests rejects a correct model.
        rows: noisy number of rows, at least 0.
        status: ``ok``, or ``undefined`` if the noisy number of rows is too small for the noise; trend, spread,
            quantiles and their intervals are then NaN, p-values None.
        method: histogram method of the counts.
        confidence: nominal level of the intervals; ``1 - error_rate``.
        epsilon: privacy cost of the release.
        neighbours: neighbouring relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    fitted_edges: FloatArray
    residual_edges: FloatArray
    fitted_lower: float
    fitted_upper: float
    residual_bound: float
    bins: int
    counts: Int64Array
    counts_left: Int64Array
    counts_right: Int64Array
    counts_below: Int64Array
    counts_above: Int64Array
    points_fitted: FloatArray
    points_residual: FloatArray
    overflow: float
    trend_fitted: FloatArray
    column_rows: FloatArray
    trend: FloatArray
    trend_lower: FloatArray
    trend_upper: FloatArray
    spread: FloatArray
    spread_lower: FloatArray
    spread_upper: FloatArray
    qq_theoretical: FloatArray
    qq_residual: FloatArray
    qq_lower: FloatArray
    qq_upper: FloatArray
    qq_line: FloatArray
    shift: float | None
    shift_interval: tuple[float, float] | None
    slope: float | None
    slope_interval: tuple[float, float] | None
    bow: float | None
    bow_interval: tuple[float, float] | None
    spread_ratio: float | None
    spread_ratio_interval: tuple[float, float] | None
    line_p_value: float | None
    curvature_p_value: float | None
    variance_p_value: float | None
    shift_p_value: float | None
    p_value: float | None
    p_value_floor: float
    verdict: str
    findings: tuple[str, ...]
    error_rate: float
    rows: float
    status: str
    method: str
    confidence: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, with null for undefined figures."""
        return {field.name: _as_json(getattr(self, field.name)) for field in fields(self)}


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return listed(value)
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, Neighbours):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
