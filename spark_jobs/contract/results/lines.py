"""Released lines through groups of points, and residual plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.contract.figure import Number, Numbers, figure
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.contract.published import Result, as_json
from spark_jobs.contract.result_checks import (
    ResultCheck,
    add_up,
    always_rises,
    among,
    finite,
    inside,
    interval,
    never_falls,
    null_where,
    same_length,
    shape,
    whole,
    within,
)
from spark_jobs.contract.results.curves import SHARE

if TYPE_CHECKING:
    from decimal import Decimal

    from spark_jobs.arrays import FloatArray, Int64Array
    from spark_jobs.contract.values import GroupKey

_LINES = ("slope", "intercept")
_OF_LINES = tuple(f"{name}_{end}" for name in _LINES for end in ("lower", "upper"))


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFit(Result):
    """A released line through the points of each of G groups, in the user's units, evaluated at K places.

    Intervals cover what the same method would give on the same rows without noise: they account for the privacy noise,
    not for the sampling of the rows. For methods of noisy moments, the level holds on average over groups if there are
    16 groups or more (``robust_intervals``), and for each group otherwise. If the noise of a group's method depends on
    the data, an interval would cost budget; the intervals of such groups are NaN.

    Attributes:
        method: the requested method.
        delta: privacy cost of the release, beside ``epsilon``.
        public_sizes: whether group sizes, and which row is in which group, are public.
        x_bounds, y_bounds: bounds of the public box.
        at: places where the line is evaluated, as fractions of the way from the lower to the upper bound of x; shape
            (K,).
        x: these places in units of x; shape (K,).
        keys: public list of group keys; None for one group of all rows.
        methods: the method of each group.
        rows: number of rows of each group: public with ``public_sizes``, otherwise noisy and at least 0; NaN if the
            method does not count rows (gradient descent); shape (G,).
        total_rows: sum of the noisy sizes before they are clipped at 0, and so possibly negative; the sum of clipped
            sizes would be far too large if many groups are empty. NaN if any size is NaN.
        predictions: values of the line at these places, clipped to the bounds of y; shape (G, K).
        slope, intercept: slope of the line, and its value at x = 0; shape (G,).
        status: status of each group: ``ok``, or ``undefined`` if the released spread of x is not above 0. Slope and
            intercept, with their intervals, are then NaN. Predictions are then those of a flat line at the released
            mean of y; for methods of noisy moments, those of the line that is expected given the noise of the group and
            the other groups.
    """

    ORDER: ClassVar[str] = (
        "method confidence epsilon delta neighbours public_sizes guarantee x_bounds y_bounds at x keys status methods "
        "rows total_rows predictions slope intercept *"
    )
    ARRAYS_LAST: ClassVar[bool] = False
    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        shape("status", "methods", "rows", *_LINES, *_OF_LINES, sizes=("keys",)),
        shape("predictions", "predictions_lower", "predictions_upper", sizes=("keys", "x")),
        among("status", values=(OK, UNDEFINED)),
        null_where(*_LINES, by="status", value=UNDEFINED),
        null_where(*_OF_LINES, by="status", value=UNDEFINED, only=False),
        finite("total_rows", nullable=True),
        finite("rows", low=0, nullable=True),
        finite("x"),
        interval("y_bounds"),
        inside("predictions", "y_bounds"),
    )

    status: tuple[str, ...]  # type: ignore[assignment]  # of each group
    method: str
    delta: Decimal
    public_sizes: bool
    x_bounds: tuple[float, float]
    y_bounds: tuple[float, float]
    at: FloatArray
    x: FloatArray
    keys: tuple[GroupKey, ...] | None
    methods: tuple[str, ...]
    rows: FloatArray
    total_rows: float
    predictions: Numbers = figure("value of the line", "interval", split=True, optional=("interval",))
    slope: Numbers = figure("slope", "interval", split=True, nullable=True, optional=("interval",), headline="slope")
    intercept: Numbers = figure("value at x = 0", "interval", split=True, nullable=True, optional=("interval",))

    @property
    def groups(self) -> int:
        """The number of lines."""
        return len(self.status)

    def to_columns(self) -> dict[str, Any]:
        """The fields of ``to_dict``, with arrays of groups as ``ListedArray``: lists of 10^5 groups take 60 MiB."""
        public = ("at", "x")
        return {
            name: ListedArray(value) if hasattr(value, "tolist") and name not in public else as_json(value)
            for name, value in self.published().items()
        }


@dataclass(frozen=True, eq=False)
class ListedArray(Sequence[Any]):
    """A sequence of an array's values as ``as_json`` lists them, without the whole list in memory.

    It equals a list of the same values; its slices are lists.
    """

    array: FloatArray

    def __eq__(self, other: object) -> bool:
        """Whether both list the same values."""
        return isinstance(other, (ListedArray, list)) and list(self) == list(other)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, place: Any) -> Any:
        return as_json(self.array[place])


@dataclass(frozen=True, kw_only=True, eq=False)
class ResidualPlot(Result):
    """A released residual plot: residuals against fitted values, with trend, spread, tests and a verdict.

    The box has ``m x m`` equal cells; m and the box are computed from noisy numbers. A residual is the outcome minus
    the fitted value. Except for effect sizes, each interval is for the figure of the same rows without noise: it
    accounts for the noise and for the width of cells, but not for the sampling of the rows. P-values account for noise
    and sampling. Means and effect sizes place residuals at the midpoints of the cells of ``ResidualCounts``, which are
    finer than those of the box; spreads and quantiles use only the cells of the box.

    Attributes:
        fitted_edges: edges of the cells along fitted values; shape (m + 1,).
        residual_edges: edges along residuals, from ``-residual_bound`` to ``residual_bound``; shape (m + 1,).
        fitted_lower, fitted_upper: first and last edge of the box along fitted values.
        residual_bound: last edge of the box along residuals.
        bins: m, the number of cells per axis.
        counts: number of rows in each cell, whole and at least 0; shape (m, m), fitted values first.
        counts_left, counts_right: rows with a fitted value beyond either end of the box, by the cell of their residual;
            shape (m,).
        counts_below, counts_above: rows with a residual beyond either end, by the cell of their fitted value. The first
            and the last entry count the rows whose fitted value lies beyond the box as well; shape (m + 2,).
        points_fitted, points_residual: a synthetic scatter of the released counts, shape (k,). Each point is uniform
            within its cell; points beyond the box lie in one more cell on its sides. There is one point per row, up to
            a public limit, beyond which the counts are scaled down in proportion.
        overflow: noisy number of rows outside the box, on all four sides together.
        trend_fitted: middle of each column of the box; shape (m,), like column_rows, trend and spread. Neighbouring
            columns with too few rows for the noise are pooled and share their values.
        column_rows: noisy number of rows of the pool that the column belongs to.
        trend: mean residual; a residual beyond the box counts as the box's edge.
        spread: half the distance between the 16% and 84% quantiles of the residuals, which is the standard deviation if
            they are normally distributed.
        qq_theoretical: quantiles of the standard normal distribution, fixed; shape (q,).
        qq_residual: quantiles of the residuals at the same levels; shape (q,).
        qq_line: quantiles of the normal distribution with the same quartiles; shape (q,).
        shift, slope, bow, spread_ratio: effect sizes (``residual_plot.effects``): the mean residual; its change per
            unit of the fitted value; how much higher a fitted parabola lies at both ends than halfway; the spread of
            the fifth of the rows with the largest fitted values, divided by that of the fifth with the smallest. None
            if the noise leaves too few columns. A residual beyond the box counts as the box's edge. The intervals of
            effect sizes account for the sampling of the rows as well.
        line_p_value: p-value of the test for a slope of the mean residual along the fitted values.
        curvature_p_value: p-value of the test for curvature of the mean residual.
        variance_p_value: p-value of the test for a spread that grows or shrinks with the fitted value.
        shift_p_value: p-value of the test for a mean of all residuals other than 0.
        p_value: p-value of all four tests together, based on the most extreme of them.
        p_value_floor: the smallest p-value that the simulation can give.
        verdict: the findings in words.
        findings: the tests that reject: any of ``line``, ``curvature``, ``variance``, ``shift``.
        error_rate: bound on the probability that any of the four tests rejects a correct model.
        rows: noisy number of rows, at least 0.
        method: histogram method of the counts.
        status: ``ok``, or ``undefined`` if the noisy number of rows is too small for the noise; trend, spread,
            quantiles and their intervals are then NaN, p-values None.
        confidence: nominal level of the intervals; ``1 - error_rate``.
    """

    ORDER: ClassVar[str] = "* rows status method confidence epsilon neighbours guarantee"
    ARRAYS_LAST: ClassVar[bool] = False
    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        finite("rows", "overflow", low=0),
        shape("counts", sizes=("bins", "bins")),
        shape("counts_left", "counts_right", "trend_fitted", "column_rows", sizes=("bins",)),
        shape("fitted_edges", "residual_edges", sizes=("bins",), more=1),
        shape("counts_below", "counts_above", sizes=("bins",), more=2),
        finite("counts", "counts_left", "counts_right", "counts_below", "counts_above", low=0),
        whole("counts", "counts_left", "counts_right", "counts_below", "counts_above"),
        add_up("counts_left", "counts_right", "counts_below", "counts_above", total="overflow"),
        finite("fitted_edges", "residual_edges"),
        always_rises("fitted_edges", "residual_edges"),
        finite("trend_fitted"),
        finite("column_rows", low=0),
        finite("qq_theoretical"),
        never_falls("qq_theoretical", "qq_residual", "qq_lower", "qq_upper"),
        same_length("points_fitted", "points_residual"),
        finite("points_fitted", "points_residual"),
        within("p_value_floor"),
        among("findings", values=("line", "curvature", "variance", "shift")),
    )

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
    trend: Numbers = figure("mean residual", "interval", axis="trend_fitted")
    spread: Numbers = figure("spread of the residuals", "interval", limits=(0, None), axis="trend_fitted")
    qq_theoretical: FloatArray
    qq_residual: Numbers = figure("quantile of the residuals", "interval", axis="qq_theoretical", stem="qq")
    qq_line: FloatArray = figure("the same of a normal distribution", axis="qq_theoretical")
    shift: Number = figure("mean residual", "interval", nullable=True)
    slope: Number = figure("change per unit of the fitted value", "interval", nullable=True)
    bow: Number = figure("how far the ends lie above the middle", "interval", nullable=True)
    spread_ratio: Number = figure(
        "ratio of the spreads at both ends", "interval", nullable=True, headline="spread ratio"
    )
    line_p_value: float | None = figure("p-value of a slope", limits=SHARE)
    curvature_p_value: float | None = figure("p-value of curvature", limits=SHARE)
    variance_p_value: float | None = figure("p-value of a changing spread", limits=SHARE)
    shift_p_value: float | None = figure("p-value of a mean other than 0", limits=SHARE)
    p_value: float | None = figure("p-value of all tests", limits=SHARE)
    p_value_floor: float
    verdict: str
    findings: tuple[str, ...]
    error_rate: float
    rows: float
    method: str
