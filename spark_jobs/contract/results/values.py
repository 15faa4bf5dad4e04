"""Released distribution functions and quantiles of a column of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.contract.figure import Number, Numbers, figure
from spark_jobs.contract.published import OfOneFigure, PublishedFields, Result, nested
from spark_jobs.contract.result_checks import (
    ResultCheck,
    finite,
    inside,
    interval,
    never_falls,
    null_together,
    whole,
    within,
)
from spark_jobs.contract.results.curves import SHARE

if TYPE_CHECKING:
    from spark_jobs.arrays import FloatArray


@dataclass(frozen=True, kw_only=True)
class Quantile(OfOneFigure, PublishedFields):
    """A quantile with its interval: the smallest value of the grid that a fraction ``level`` of the rows do not exceed.

    If bounds were found privately, an interval that reaches beyond a bound is open on that side: its end is that of the
    public grid, and the quantile may lie anywhere beyond the bound.
    """

    level: float
    figure: Number = figure("the quantile", "interval", value="value", stem="")

    RULES: ClassVar[tuple[ResultCheck, ...]] = (within("level"),)


@dataclass(frozen=True, kw_only=True)
class Distance(OfOneFigure, PublishedFields):
    """A Kolmogorov-Smirnov distance, to a reference distribution or to another release.

    Attributes:
        figure: the largest difference of the two functions at the edges of cells.
        at: the value at which the two functions differ most.
        p_value: p-value of the hypothesis that the rows are a sample of the reference, or that the rows of both
            releases are samples of one distribution; it accounts for sampling, noise and smoothing.
        p_value_floor: the smallest p-value that the simulation can give.
        confidence: nominal level of the interval.
    """

    ORDER: ClassVar[str] = "value at interval *"

    at: float | None = figure("where it is", nullable=True)
    p_value: float | None = figure("p-value of equal distributions", limits=SHARE, nullable=True)
    p_value_floor: float | None = figure("smallest p-value", limits=SHARE, nullable=True)
    confidence: float
    figure: Number = figure("the distance", "interval", limits=SHARE, value="value", stem="", nullable=True)

    RULES: ClassVar[tuple[ResultCheck, ...]] = (null_together("value", "p_value"),)


@dataclass(frozen=True, kw_only=True, eq=False)
class EcdfComparison(PublishedFields):
    """The comparison of a released distribution function with an earlier release.

    Attributes:
        released_by: release key of the earlier release.
        named: name of the earlier release's values; None for scores.
        status: status of the earlier release, ``ok`` or ``undefined``.
        cdf: the earlier release's fractions at the cells of this release, shape (cells,); not in the manifest.
        distance: the distance of the two functions, with a test of the hypothesis that both tables are samples of one
            distribution.
    """

    released_by: str
    named: str | None
    status: str
    cdf: FloatArray
    distance: Distance = nested(Distance)

    def published(self) -> dict[str, Any]:
        """The published fields, without the fractions, which are in the request and in the data file."""
        return {name: value for name, value in super().published().items() if name != "cdf"}


@dataclass(frozen=True, kw_only=True, eq=False)
class DistributionFunction(Result):
    """A released empirical distribution function on its whole grid.

    Arrays have one entry per cell; their length is fixed by the request. Values beyond the bounds count as the nearer
    bound. Bands and intervals are for the same rows without noise; they do not account for the sampling of the rows.
    The band of a cell covers the distribution function at every value in the cell: where a cell may hold several
    values, the lower end of its band is therefore that of the band of the cell before.

    Attributes:
        values: start of each cell, ascending.
        function: fraction of the rows whose value is in this cell or one before, with pointwise and simultaneous bands;
            non-decreasing, and 1 at the last cell. Published as ``cdf``.
        bounds: lower and upper bound of the values.
        bounds_found: whether the bounds are private (released) values; otherwise they are public.
        quantiles: the requested quantiles.
        distance: distance to the requested reference; None without a reference.
        comparison: comparison with the requested earlier release; None without one.
        rows: noisy number of rows.
        named: name of the values; None for scores.
        smoothing, points: as requested.
        status: ``ok``, or ``undefined`` if the noisy number of rows is below 1 or below three standard deviations of
            its noise: the function and its bands are then NaN, quantiles and distances None.
    """

    values: FloatArray
    function: Numbers = figure(
        "fraction of the rows that do not exceed the value", "interval", "everywhere",
        limits=SHARE, axis="values", value="cdf", stem="",
    )  # fmt: skip
    bounds: tuple[float, float]
    bounds_found: bool
    quantiles: tuple[Quantile, ...] = nested(Quantile, many=True, is_figure=True)
    distance: Distance | None = nested(Distance, is_figure=True)
    comparison: EcdfComparison | None = nested(EcdfComparison)
    rows: float
    named: str | None
    smoothing: str
    points: int

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        finite("values", "bounds", "rows"),
        never_falls("values", "cdf", "lower", "upper", "lower_everywhere", "upper_everywhere"),
        interval("bounds"),
    )


@dataclass(frozen=True, kw_only=True)
class SingleQuantile(OfOneFigure, Result):
    """A released quantile: estimates the smallest value of the grid that a fraction ``level`` of rows do not exceed.

    Attributes:
        figure: the quantile: the first value of a cell of the grid. Its interval is for the quantile of the same rows,
            and accounts for the noise and for the grid: the interval ends at the end of a cell, or at a bound if the
            noise hides the rows beyond. There is no interval if it was not paid for.
        level: the requested level.
        rows: noisy number of rows; None without an interval.
        bounds: lower and upper bound of the values.
        named: name of the values; None for scores.
        status: ``ok``; ``undefined`` if the noisy number of rows is below 1 or below three standard deviations of its
            noise; ``unchecked`` if there is no noisy number of rows.
    """

    ORDER: ClassVar[str] = "* status confidence epsilon neighbours guarantee"

    figure: Number = figure(
        "the quantile", "interval", value="value", stem="", optional=("interval",), headline="quantile"
    )
    level: float
    rows: float | None
    bounds: tuple[float, float]
    named: str | None

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        finite("bounds"),
        finite("rows", low=0, nullable=True),
        within("level"),
        interval("bounds"),
        null_together("interval", "rows"),
        inside("value", "bounds"),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class CdfPoints(Result):
    """A released distribution function at thresholds, with quantiles.

    Values beyond the bounds count as the nearer bound. Intervals are for the same rows without noise. The intervals of
    ``cdf`` are for the function at ``thresholds``; the interval of a quantile covers the cells in which the quantile
    may lie.

    Attributes:
        thresholds: the requested thresholds moved to the grid, shape (m,): each to the end of its cell.
        cdf: fraction of the rows up to each of ``thresholds``, shape (m,); NaN where undefined. If the grid has a step,
            rows at a moved threshold count. If the grid has none, only rows below a moved threshold count; these
            include all rows at the requested threshold.
        quantiles: the requested quantiles.
        rows: noisy number of rows.
        evaluations: how many evaluations of the function were paid for.
        left: how many of these evaluations have not been used.
        bounds: lower and upper bound of the values.
        named: name of the values; None for scores.
        status: ``ok``, or ``undefined`` if the noisy number of rows is below 1 or below three standard deviations of
            its noise.
    """

    ORDER: ClassVar[str] = "quantiles rows evaluations left bounds named status confidence epsilon neighbours guarantee"

    thresholds: FloatArray
    cdf: Numbers = figure(
        "fraction of the rows up to a threshold", "interval", limits=SHARE, axis="thresholds", stem=""
    )
    quantiles: tuple[Quantile, ...] = nested(Quantile, many=True, is_figure=True)
    rows: float
    evaluations: int
    left: int
    bounds: tuple[float, float]
    named: str | None

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        never_falls("thresholds"),
        finite("thresholds", "bounds"),
        finite("rows", "evaluations", "left", low=0),
        whole("evaluations", "left"),
        interval("bounds"),
    )
