"""The released result of a calibration."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._score_groups.result import PooledBins


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration(PooledBins):
    """A released reliability diagram, the Hosmer-Lemeshow test, and the expected calibration error.

    The length of all arrays is the number of bins, which the request fixes. Neighbouring bins with too few rows for the
    noise, or with fewer than five expected rows of either class, form one pool and share all values but their edges.

    Attributes:
        lower, upper: edges of each bin, as scores.
        pool: index of the pool of each bin; 0, 0, 1, ...
        predicted: mean score of the pool: the share of positives that the model predicts.
        observed: share of positives of the pool.
        observed_lower, observed_upper: interval of ``observed`` for the same rows without noise, at level
            ``confidence``. It measures the noise, not the sampling of the rows.
        observed_population_lower, observed_population_upper: the same for the population that the rows are a sample of.
        observed_privacy_share: share of the width of the interval for the population that is due to the noise: what an
            observed share without noise would not have.
        zone_lower, zone_upper: range of the released ``observed`` of a calibrated model, at this level: the sampling of
            labels and the noise together.
        rows: noisy number of rows of the pool.
        statistic: estimate of the Hosmer-Lemeshow statistic of the exact counts in these pools, less the mean
            contribution of the noise.
        statistic_interval: its interval for the same rows without noise, at level ``confidence``.
        degrees: number of pools: the degrees of freedom for a model that was fitted on other rows.
        p_value: probability that the release of a calibrated model deviates at least as much, by simulation of labels
            and noise. A comparison of ``statistic`` with a chi-squared distribution would ignore the noise.
        p_value_floor: the smallest p-value that the simulation can give.
        ece: expected calibration error: the mean distance of ``observed`` from ``predicted``, weighted by rows, with a
            correction for the noise.
        ece_interval: its interval for the same rows without noise, at level ``confidence``.
        ece_population_interval: the interval of what it is, in these pools, in the population that the rows are a
            sample of. Labels are drawn, which makes distances larger: it may lie below ``ece``.
        ece_privacy_share: share of the width of ``ece_population_interval`` that is due to the noise.
        ece_calibrated: upper limit, at this level, of the released error of a calibrated model, which is above 0 on
            finitely many rows.
        positives, negatives: noisy class sizes.
        status: ``ok``, or ``undefined`` if the noisy number of rows is below three standard deviations of its noise;
            then all values except edges, pools, rows and sizes are NaN or None.
        confidence: nominal level.
        epsilon: cost of the release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    statistic: float | None
    statistic_interval: tuple[float, float] | None
    degrees: int
    p_value: float | None
    ece: float | None
    ece_interval: tuple[float, float] | None
    ece_population_interval: tuple[float, float] | None
    ece_privacy_share: float | None
    ece_calibrated: float | None
    observed: FloatArray
    observed_lower: FloatArray
    observed_upper: FloatArray
    observed_population_lower: FloatArray
    observed_population_upper: FloatArray
    observed_privacy_share: FloatArray
