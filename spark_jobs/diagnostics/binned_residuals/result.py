"""The released binned residuals."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._score_groups.result import PooledBins


@dataclass(frozen=True, kw_only=True, eq=False)
class BinnedResiduals(PooledBins):
    """Released binned residuals: the mean of label minus score, over bins of the score.

    All arrays have one length, the number of bins, which the request fixes. Neighbouring bins with too few rows for the
    noise are pooled and share all values of their pool but the edges.

    Attributes:
        lower, upper: edges of each bin, as scores.
        pool: the pool that each bin belongs to; 0, 0, 1, ...
        predicted: mean score of the pool.
        residual: mean of label minus score in the pool.
        residual_lower, residual_upper: interval of ``residual``, at level ``confidence``: where the exact counts of the
            same rows would put it. It measures the noise of privacy, not the sampling of the rows.
        zone_lower, zone_upper: where the residual of a model with true scores would be released, at this level: the
            sampling of labels and the noise of privacy together.
        rows: noisy number of rows of the pool.
        p_value: of the test of fit: how often a model with true scores would be released with residuals at least as
            surprising, by ``trend_p_value`` or by ``scatter_p_value``; labels and noise are both drawn again.
        trend_p_value: the same for one question, whether residuals follow a shift, a tilt or a bow of the log-odds.
        scatter_p_value: the same for the other, whether single pools lie too far from 0, wherever they are.
        positives, negatives: noisy class sizes.
        status: ``ok``, or ``undefined`` where the noisy number of rows is below three standard deviations of its noise;
            all values but edges, pools and sizes are then NaN or None.
        confidence: nominal level.
        epsilon: what the release cost.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    p_value: float | None
    trend_p_value: float | None
    scatter_p_value: float | None
    residual: FloatArray
    residual_lower: FloatArray
    residual_upper: FloatArray
