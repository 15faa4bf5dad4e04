"""The released calibration of a classifier."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._score_groups.result import PooledBins


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration(PooledBins):
    """A released reliability diagram, the Hosmer-Lemeshow test, and the expected calibration error.

    All arrays have one length, the number of bins, which the request fixes. Neighbouring bins with too few rows for the
    noise, or with fewer than five rows expected of either class, are pooled and share all values of their pool but the
    edges.

    Attributes:
        lower, upper: edges of each bin, as scores.
        pool: the pool that each bin belongs to; 0, 0, 1, ...
        predicted: mean score of the pool: the share of positives that the model expects.
        observed: share of positives of the pool.
        observed_lower, observed_upper: interval of ``observed``, at level ``confidence``: where the exact counts of the
            same rows would put it. It measures the noise of privacy, not the sampling of the rows.
        zone_lower, zone_upper: where the observed share of a model with true scores would be released, at this level:
            the sampling of labels and the noise of privacy together.
        rows: noisy number of rows of the pool.
        statistic: the Hosmer-Lemeshow statistic of the exact counts in these pools, estimated: what noise adds to the
            squares on average is taken off again.
        statistic_interval: where the exact counts of the same rows would put it, at level ``confidence``.
        degrees: pools, the degrees of freedom of a model that was fitted on other rows.
        p_value: how often a model with true scores would be released with pools at least as far off; labels and noise
            are both drawn again. Comparing ``statistic`` with a chi-squared law would forget the noise.
        ece: expected calibration error over these pools: the mean distance of ``observed`` from ``predicted``, weighed
            by rows; what noise adds is taken off as far as it is known.
        ece_interval: where the exact counts of the same rows would put it, at level ``confidence``.
        ece_calibrated: what the released error of a model with true scores would stay below, at this level: no model's
            error is 0 on finitely many rows.
        positives, negatives: noisy class sizes.
        status: ``ok``, or ``undefined`` where the noisy number of rows is below three standard deviations of its noise;
            all values but edges, pools and sizes are then NaN or None.
        confidence: nominal level.
        epsilon: what the release cost.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    statistic: float | None
    statistic_interval: tuple[float, float] | None
    degrees: int
    p_value: float | None
    ece: float | None
    ece_interval: tuple[float, float] | None
    ece_calibrated: float | None
    observed: FloatArray
    observed_lower: FloatArray
    observed_upper: FloatArray
