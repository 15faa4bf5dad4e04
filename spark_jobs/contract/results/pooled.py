"""Released groups of scores: binned residuals and calibrations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.contract.figure import Number, Numbers, figure
from spark_jobs.contract.published import Result
from spark_jobs.contract.result_checks import ResultCheck, adjoining, counts_up, finite, same_length, within
from spark_jobs.contract.results.curves import SHARE

if TYPE_CHECKING:
    from spark_jobs.arrays import FloatArray, Int64Array

_DISTANCE: dict[str, Any] = {"limits": SHARE, "share": True, "inside": ("interval",)}
"""A mean distance: labels are drawn, which makes distances larger, so the interval of what it is in the population, in
these pools, may lie below the released figure."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledBins(Result):
    """The fields that released binned residuals and calibrations share: bins of the score, and their pools.

    The length of all arrays is the number of bins, which the request fixes. Adjacent bins with too few rows for the
    noise form one pool and share all values but their edges.

    Attributes:
        positives, negatives: noisy class sizes.
        p_value_floor: the smallest p-value that the simulation can give.
        lower, upper: edges of each bin, as scores.
        pool: index of the pool of each bin; 0, 0, 1, ...
        predicted: mean score of the pool: the share of positives that the model predicts.
        zone_lower, zone_upper: range in which the released figure of a calibrated model lies with probability
            ``confidence``, over the sampling of labels and the noise.
        rows: noisy number of rows of the pool.
        status: ``ok``, or ``undefined`` if the noisy number of rows is below three standard deviations of its noise;
            then all values except edges, pools, rows and sizes are NaN or None.
    """

    ORDER: ClassVar[str] = "status confidence positives negatives epsilon neighbours guarantee *"

    positives: float
    negatives: float
    p_value_floor: float
    lower: FloatArray
    upper: FloatArray
    pool: Int64Array
    predicted: FloatArray = figure("mean score of the pool", limits=SHARE, axis="pool")
    zone_lower: FloatArray = figure("lower end of the zone", limits=(-1, 1), axis="pool")
    zone_upper: FloatArray = figure("upper end of the zone", limits=(-1, 1), axis="pool")
    rows: FloatArray

    RULES: ClassVar[tuple[ResultCheck, ...]] = (
        adjoining("lower", "upper", first=0, last=1),
        counts_up("pool"),
        same_length("lower", "upper", "pool", "rows"),
        finite("rows", low=0),
        finite("positives", "negatives"),
    )

    @property
    def pool_starts(self) -> list[int]:
        """The index of the first bin of each pool."""
        pools = self.pool.tolist()
        return [i for i, pool in enumerate(pools) if not i or pool != pools[i - 1]]


@dataclass(frozen=True, kw_only=True, eq=False)
class BinnedResiduals(PooledBins):
    """Released binned residuals: the mean of label minus score, over bins of the score.

    Attributes:
        mean_distance: mean absolute residual of the pools, weighted by rows, with a correction for the noise: the
            expected calibration error in these pools. Its interval for the population may lie below it.
        mean_distance_calibrated: upper limit, at the level ``confidence``, of the released distance of a calibrated
            model, which is above 0 because rows are finite in number.
        p_value: p-value of the test of fit, which combines the tests of ``trend_p_value`` and ``scatter_p_value``: the
            probability, by simulation of labels and noise, that a calibrated model's release is at least as extreme.
        trend_p_value: p-value for a shift, slope or curve of the log-odds.
        scatter_p_value: p-value for single pools whose mean residual is too far from 0.
        residual: mean of label minus score in the pool.
    """

    mean_distance: Number = figure("mean distance", "interval", "population", **_DISTANCE, headline="mean distance")
    mean_distance_calibrated: float | None = figure("upper limit of a calibrated model's", limits=SHARE)
    p_value: float | None = figure("p-value of the test of fit", limits=SHARE)
    trend_p_value: float | None = figure("p-value of a trend", limits=SHARE)
    scatter_p_value: float | None = figure("p-value of scatter", limits=SHARE)
    residual: Numbers = figure(
        "mean of label minus score", "interval", "population", share=True, limits=(-1, 1), axis="pool"
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration(PooledBins):
    """A released reliability diagram, the Hosmer-Lemeshow test, and the expected calibration error.

    Bins with fewer than five expected rows of either class are pooled, too.

    Attributes:
        statistic: estimate of the Hosmer-Lemeshow statistic of the exact counts in these pools, less the mean
            contribution of the noise; None if the noise hides whether each pool expects a row of either class.
        degrees: number of pools: the degrees of freedom for a model that was fitted on other rows.
        p_value: probability that the release of a calibrated model deviates at least as much, by simulation of labels
            and noise. A comparison of ``statistic`` with a chi-squared distribution would ignore the noise.
        ece: expected calibration error: the mean distance of ``observed`` from ``predicted``, weighted by rows, with a
            correction for the noise. Its interval for the population may lie below it.
        ece_calibrated: upper limit, at the level ``confidence``, of the released error of a calibrated model, which is
            above 0 because rows are finite in number.
        observed: share of positives of the pool.
    """

    statistic: Number = figure("Hosmer-Lemeshow statistic", "interval", forecast=False, nullable=True)
    degrees: int
    p_value: float | None = figure("p-value of perfect calibration", limits=SHARE)
    ece: Number = figure(
        "expected calibration error", "interval", "population", **_DISTANCE, headline="calibration error"
    )
    ece_calibrated: float | None = figure("upper limit of a calibrated model's", limits=SHARE)
    observed: Numbers = figure("share of positives", "interval", "population", share=True, limits=SHARE, axis="pool")

    RULES: ClassVar[tuple[ResultCheck, ...]] = (*PooledBins.RULES, within("zone_lower", "zone_upper"))
