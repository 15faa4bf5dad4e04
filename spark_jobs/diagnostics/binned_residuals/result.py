"""The released result of binned residuals."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._score_groups.result import PooledBins


@dataclass(frozen=True, kw_only=True, eq=False)
class BinnedResiduals(PooledBins):
    """Released binned residuals: the mean of label minus score, over bins of the score.

    The length of all arrays is the number of bins, which the request fixes. Neighbouring bins with too few rows for the
    noise form one pool and share all values but their edges.

    Attributes:
        lower, upper: edges of each bin, as scores.
        pool: index of the pool of each bin; 0, 0, 1, ...
        predicted: mean score of the pool.
        residual: mean of label minus score in the pool.
        residual_lower, residual_upper: interval of ``residual`` for the same rows without noise, at level
            ``confidence``. It measures the noise, not the sampling of the rows.
        residual_population_lower, residual_population_upper: the same for the population that the rows are a sample of.
        residual_privacy_share: share of the width of the interval for the population that is due to the noise: what a
            residual without noise would not have.
        zone_lower, zone_upper: range of the released ``residual`` of a calibrated model, at this level: the sampling of
            labels and the noise together.
        rows: noisy number of rows of the pool.
        mean_distance: mean absolute residual of the pools, weighted by rows, with a correction for the noise: the
            expected calibration error in these pools.
        mean_distance_interval: its interval for the same rows without noise, at level ``confidence``.
        mean_distance_population_interval: the interval of what it is, in these pools, in the population that the rows
            are a sample of. Labels are drawn, which makes distances larger: it may lie below ``mean_distance``.
        mean_distance_privacy_share: share of the width of ``mean_distance_population_interval`` that is due to noise.
        mean_distance_calibrated: upper limit, at this level, of the released distance of a calibrated model, which is
            above 0 on finitely many rows.
        p_value: p-value of the test of fit, which combines the following two; the probability, by simulation of labels
            and noise, that the release of a calibrated model is at least as extreme.
        trend_p_value: p-value for a shift, slope or curve of the log-odds.
        scatter_p_value: p-value for single pools that are too far from 0.
        p_value_floor: the smallest p-value that the simulation can give.
        positives, negatives: noisy class sizes.
        status: ``ok``, or ``undefined`` if the noisy number of rows is below three standard deviations of its noise;
            then all values except edges, pools, rows and sizes are NaN or None.
        confidence: nominal level.
        epsilon: cost of the release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    mean_distance: float | None
    mean_distance_interval: tuple[float, float] | None
    mean_distance_population_interval: tuple[float, float] | None
    mean_distance_privacy_share: float | None
    mean_distance_calibrated: float | None
    p_value: float | None
    trend_p_value: float | None
    scatter_p_value: float | None
    residual: FloatArray
    residual_lower: FloatArray
    residual_upper: FloatArray
    residual_population_lower: FloatArray
    residual_population_upper: FloatArray
    residual_privacy_share: FloatArray
