"""The released result of a ROC curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.roc_area import RocArea
from spark_jobs.diagnostics.undefined import plain_fields


@dataclass(frozen=True, kw_only=True, eq=False)
class RocCurve:
    """A released ROC curve, in scikit-learn's order: thresholds fall, and the first is infinite.

    The length of all arrays is the number of thresholds plus one, which the request fixes. Bands and ``auc_interval``
    are for the curve of the same rows without noise, unless they are said to be for the population.

    Attributes:
        thresholds: a row is predicted positive if its score is at least this; scores are rounded down to the grid.
        fpr, tpr: false and true positive rates; from (0, 0) to (1, 1), never falling.
        tpr_lower, tpr_upper: pointwise band of ``tpr`` at ``fpr``, at level ``confidence``.
        tpr_lower_everywhere, tpr_upper_everywhere: simultaneous band of the whole curve at that level.
        tpr_population_lower, tpr_population_upper: pointwise band of the curve of the population that the rows are a
            sample of.
        tpr_population_lower_everywhere, tpr_population_upper_everywhere: simultaneous band of that whole curve.
        auc: area under the curve, by trapezoids; in a release that measured the area more than once, the mean of all.
        auc_interval: interval of ``auc`` at level ``confidence``, for the noise alone.
        auc_population_interval: the same for the area of the population that the rows are a sample of.
        auc_privacy_share: share of the width of ``auc_population_interval`` that is due to the noise: what an area
            without noise would not have.
        positives, negatives: noisy class sizes.
        status: ``ok``, or ``undefined`` if a noisy class size is below 1 or below three standard deviations of its
            noise; then the rates are NaN, and the area, its intervals and the share are None.
        confidence: nominal level.
        epsilon: cost of the release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    status: str
    auc: float | None
    auc_interval: tuple[float, float] | None
    auc_population_interval: tuple[float, float] | None
    auc_privacy_share: float | None
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
    tpr_population_lower: FloatArray
    tpr_population_upper: FloatArray
    tpr_population_lower_everywhere: FloatArray
    tpr_population_upper_everywhere: FloatArray

    @property
    def roc_area(self) -> RocArea | None:
        """The area and its errors."""
        return RocArea.of(self.auc, self.auc_interval, self.auc_population_interval, self.confidence)

    def with_roc_area(self, area: RocArea) -> RocCurve:
        """The same points with this area, which other measurements of the release are in too."""
        return replace(self, **area.auc_fields(self.confidence))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; null stands for the infinite threshold and for what is undefined."""
        return {**plain_fields(self), "thresholds": [None, *self.thresholds[1:].tolist()]}
