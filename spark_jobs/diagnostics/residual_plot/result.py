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

    The box has ``m x m`` equal cells; m and the box come from noisy numbers. A residual is the outcome less the fitted
    value. Intervals hold, at level ``confidence`` and one at a time, what the exact counts of the same rows on the same
    grid would give: they measure the noise of privacy, not the sampling of the rows. P-values account for both.

    Attributes:
        fitted_edges: edges of the cells along fitted values; shape (m + 1,).
        residual_edges: edges along residuals, from ``-residual_bound`` to ``residual_bound``; shape (m + 1,).
        fitted_lower, fitted_upper: the box along fitted values: its first and last edge.
        residual_bound: the box along residuals.
        bins: m.
        counts: rows in each cell, whole numbers of at least 0; shape (m, m), fitted values first.
        counts_left, counts_right: rows with a fitted value beyond either end of the box, by the cell of their residual;
            shape (m,).
        counts_below, counts_above: rows with a residual beyond either end, by the cell of their fitted value, the first
            and the last of them beyond the box; shape (m + 2,).
        points_fitted, points_residual: a scatter of all rows, each point drawn evenly within its cell, those beyond
            the box in one more cell on its sides; one for each row, or as many as a public limit allows, in proportion.
            Shapes (k,).
        overflow: noisy number of rows outside the box: those of all four sides.
        trend_fitted: middle of each column of the box; shape (m,), as all that follow. Neighbouring columns with
            too few rows for the noise are pooled and share their values.
        column_rows: noisy number of rows of the pool that the column belongs to.
        trend, trend_lower, trend_upper: mean residual, and its interval; residuals beyond the box count at its edge.
        spread, spread_lower, spread_upper: half the distance of the residuals' 16% and 84% quantiles, which is the
            standard deviation where they are normal; and its interval.
        qq_theoretical: quantiles of the standard normal distribution; shape (q,), fixed.
        qq_residual, qq_lower, qq_upper: the residuals' quantiles at the same levels, and their intervals; shape (q,).
        qq_line: what the quantiles would be of a normal distribution with the same quartiles; shape (q,).
        line_p_value: of the test for a slope of the mean residual along the fitted values: whether the line is off.
        curvature_p_value: of the test for a bend of the mean residual.
        variance_p_value: of the test for a spread that grows or shrinks with the fitted value.
        shift_p_value: of the test for a mean of all residuals that is off 0.
        p_value: of all four together: how often a model that holds has one at least as striking as the most striking.
        verdict: the findings in words.
        findings: the words' keys: any of ``line``, ``curvature``, ``variance``, ``shift``.
        error_rate: how often a model that holds is found fault with, at most (all four tests together).
        rows: noisy number of rows, at least 0.
        status: ``ok``, or ``undefined`` where the noisy number of rows is too small for the noise; trend, spread,
            quantiles and their intervals are then NaN, p-values None.
        method: the histogram method that made the counts.
        confidence: nominal level of intervals; ``error_rate`` is what is left to 1.
        epsilon: what the release cost.
        neighbours: the relation of the guarantee.
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
    line_p_value: float | None
    curvature_p_value: float | None
    variance_p_value: float | None
    shift_p_value: float | None
    p_value: float | None
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
        """Plain JSON types; null for what is undefined."""
        return {field.name: _as_json(getattr(self, field.name)) for field in fields(self)}


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return listed(value)
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, Neighbours):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
