"""The released recalibration of a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.undefined import plain_fields

Ends = tuple[float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Recalibration:
    """Released figures of scores as probabilities, and the map that recalibrates them.

    Every figure has two intervals: for the same rows without noise, and (``population``) for the population that the
    rows are a sample of, which accounts for the noise and for the sampling.

    Attributes:
        brier_privacy_share, log_loss_privacy_share, slope_privacy_share, intercept_privacy_share: share of the width of
            the figure's interval for the population that is due to the noise: what a figure without noise would not
            have.
        brier, brier_interval, brier_population_interval: Brier score: the mean squared difference of score and label.
        log_loss, log_loss_interval, log_loss_population_interval: the mean negative natural logarithm of the
            probability that the score gives the label, with scores clipped to [clip, 1 - clip].
        slope, slope_interval, slope_population_interval: slope of the logistic regression of the label on the log-odds
            of the clipped score: 1 if the model is calibrated, below 1 if its scores are too extreme. At most 20 in
            absolute value.
        intercept, intercept_interval, intercept_population_interval: its intercept: 0 if the model is calibrated. At
            most 60 in absolute value.
        map: ``intercept``, ``slope`` and ``clip``: the recalibrated probability of a score ``s`` is ``1 / (1 +
            exp(-(intercept + slope ln(c / (1 - c)))))`` with ``c`` the clipped score.
        score: scores at which the map is given; public.
        recalibrated, recalibrated_lower, recalibrated_upper: what the map makes of them, with a pointwise band for the
            map of the same rows without noise.
        recalibrated_population_lower, recalibrated_population_upper: pointwise band for that of the population.
        clip: from the request.
        positives, negatives: noisy class sizes.
        status: ``ok``, or ``undefined`` if a noisy class size is below 1 or below three standard deviations of its
            noise; then all figures are None, and NaN in arrays.
        confidence: nominal level.
        epsilon: cost of the release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    status: str
    brier: float | None
    brier_interval: Ends | None
    brier_population_interval: Ends | None
    brier_privacy_share: float | None
    log_loss: float | None
    log_loss_interval: Ends | None
    log_loss_population_interval: Ends | None
    log_loss_privacy_share: float | None
    slope: float | None
    slope_interval: Ends | None
    slope_population_interval: Ends | None
    slope_privacy_share: float | None
    intercept: float | None
    intercept_interval: Ends | None
    intercept_population_interval: Ends | None
    intercept_privacy_share: float | None
    map: dict[str, float] | None
    clip: float
    confidence: float
    positives: float
    negatives: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str
    score: FloatArray
    recalibrated: FloatArray
    recalibrated_lower: FloatArray
    recalibrated_upper: FloatArray
    recalibrated_population_lower: FloatArray
    recalibrated_population_upper: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; null for what is undefined."""
        return plain_fields(self)
