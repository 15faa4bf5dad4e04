"""The released figures of a classifier's ranking."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics._simulation import DECIMALS, TwoIntervals
from spark_jobs.diagnostics.roc_area import RocArea
from spark_jobs.diagnostics.undefined import plain_fields

Ends = tuple[float, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class RankingFigures:
    """Released figures of a ranking: precision-recall curve, gains and lift, KS, Gini, and the threshold of least cost.

    Every figure has an interval, or a band, of two sorts: for the same rows without noise, and (``population``) for the
    population that the rows are a sample of, which accounts for the noise and for the sampling.

    Attributes:
        recall: the recalls at which the precision is given; public.
        precision: the share of positives among the rows above the threshold that reaches each recall.
        precision_lower, precision_upper: pointwise band at level ``confidence``, for the noise.
        precision_lower_everywhere, precision_upper_everywhere: simultaneous band of the whole curve, for the noise.
        precision_population_lower, precision_population_upper: simultaneous band for the population.
        depths: fractions of all rows, those with the highest scores first; from the request.
        gain, gain_lower, gain_upper, gain_population_lower, gain_population_upper: the share of all positives among
            these rows, with the ends of both intervals.
        lift, lift_lower, lift_upper, lift_population_lower, lift_population_upper: gain divided by depth: how many
            times more frequent positives are among these rows than among all.
        gini_privacy_share, ks_privacy_share, cost_privacy_share: share of the width of the figure's interval for the
            population that is due to the noise: what a figure without noise would not have.
        gini, gini_interval, gini_population_interval: Gini coefficient (accuracy ratio), ``2 AUC - 1``.
        ks, ks_interval, ks_population_interval: Kolmogorov-Smirnov distance: the largest TPR - FPR.
        threshold: the edge of the counted cells at which the expected cost is lowest; above 1 if it is lowest without
            any row that is predicted positive.
        cost, cost_interval, cost_population_interval: the expected cost of a row at this threshold.
        false_positive_cost, false_negative_cost: costs of the two errors; from the request.
        positives, negatives: noisy class sizes.
        status: ``ok``, or ``undefined`` if a noisy class size is below 1 or below three standard deviations of its
            noise; then all figures are None, and NaN in arrays.
        confidence: nominal level.
        epsilon: cost of the release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    status: str
    gini: float | None
    gini_interval: Ends | None
    gini_population_interval: Ends | None
    gini_privacy_share: float | None
    ks: float | None
    ks_interval: Ends | None
    ks_population_interval: Ends | None
    ks_privacy_share: float | None
    threshold: float | None
    cost: float | None
    cost_interval: Ends | None
    cost_population_interval: Ends | None
    cost_privacy_share: float | None
    false_positive_cost: float
    false_negative_cost: float
    confidence: float
    positives: float
    negatives: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str
    recall: FloatArray
    precision: FloatArray
    precision_lower: FloatArray
    precision_upper: FloatArray
    precision_lower_everywhere: FloatArray
    precision_upper_everywhere: FloatArray
    precision_population_lower: FloatArray
    precision_population_upper: FloatArray
    depths: FloatArray
    gain: FloatArray
    gain_lower: FloatArray
    gain_upper: FloatArray
    gain_population_lower: FloatArray
    gain_population_upper: FloatArray
    lift: FloatArray
    lift_lower: FloatArray
    lift_upper: FloatArray
    lift_population_lower: FloatArray
    lift_population_upper: FloatArray

    @property
    def roc_area(self) -> RocArea | None:
        """The area and its errors, from the Gini coefficient."""
        if self.gini is None or self.gini_interval is None or self.gini_population_interval is None:
            return None
        low, high, lowest, highest = ((1 + end) / 2 for end in (*self.gini_interval, *self.gini_population_interval))
        return RocArea.of((1 + self.gini) / 2, (low, high), (lowest, highest), self.confidence)

    def with_roc_area(self, area: RocArea) -> RankingFigures:
        """The result with the Gini coefficient of this area."""
        return replace(self, **gini_of(area.value, area.at(self.confidence)))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; null for what is undefined."""
        return plain_fields(self)


def gini_of(area: float, ends: TwoIntervals) -> dict[str, Any]:
    """The fields of the Gini coefficient of this area."""
    low, high = (tuple(round(2 * end - 1, DECIMALS) for end in one) for one in (ends.noise, ends.population))
    return {
        "gini": round(2 * area - 1, DECIMALS),
        "gini_interval": low,
        "gini_population_interval": high,
        "gini_privacy_share": ends.privacy_share,
    }
