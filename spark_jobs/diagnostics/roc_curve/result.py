"""The released ROC curve."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.undefined import plain_fields


@dataclass(frozen=True, kw_only=True, eq=False)
class RocCurve:
    """A released ROC curve, in scikit-learn's order: thresholds fall, the first is infinite.

    All arrays have one length, the number of thresholds plus one, which the request fixes. Bands and intervals cover
    what the exact counts of the same rows would give: they measure the noise, not the sampling of the rows.

    Attributes:
        thresholds: a row counts as positive if its score is at least this; scores are rounded down to the grid.
        fpr, tpr: rates of false and true positives; from (0, 0) to (1, 1), never falling.
        tpr_lower, tpr_upper: pointwise band of ``tpr`` at ``fpr``, at level ``confidence``.
        tpr_lower_everywhere, tpr_upper_everywhere: a band that holds the whole curve at that level.
        auc: area below the curve by trapezoids.
        auc_interval: interval of ``auc`` at level ``confidence``.
        positives, negatives: noisy class sizes.
        status: ``ok``, or ``undefined`` where a noisy class size is below 1 or below three standard deviations of its
            noise: the rates are then NaN, the area and its interval None.
        confidence: nominal level.
        epsilon: what the release cost.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    status: str
    auc: float | None
    auc_interval: tuple[float, float] | None
    confidence: float
    positives: float
    negatives: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str
    thresholds: FloatArray
    fpr: FloatArray
    tpr: FloatArray
    tpr_lower: FloatArray
    tpr_upper: FloatArray
    tpr_lower_everywhere: FloatArray
    tpr_upper_everywhere: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; null stands for the infinite threshold and for what is undefined."""
        return {**plain_fields(self), "thresholds": [None, *self.thresholds[1:].tolist()]}
