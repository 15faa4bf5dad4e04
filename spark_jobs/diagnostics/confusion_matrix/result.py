"""The released result of confusion matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics._simulation import rounded
from spark_jobs.diagnostics.undefined import listed, plain_fields

COUNTS = ("true_positives", "false_positives", "false_negatives", "true_negatives")
ENDS = ("lower", "upper", "population_lower", "population_upper")
RATES = ("accuracy", "precision", "recall", "specificity", "f1")


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfusionMatrix:
    """Released confusion matrices and rates; the length of all arrays is the number of thresholds.

    A rate has an interval for the same rows without noise, and one for the population that they are a sample of.

    Attributes:
        thresholds: the thresholds in force: those of the request, rounded down to the start of their cell of the
            score grid. A row is predicted positive if its score is at least the threshold in force.
        asked: the thresholds of the request.
        counts: noisy counts at each threshold, at least 0, by the names in ``COUNTS``.
        rates: rates at each threshold, by the names in ``RATES``; NaN if the denominator is below 1 or below three
            standard deviations of its noise.
        lower, upper: ends of the intervals of the rates for the same rows without noise, at level ``confidence``; NaN
            where the rate is NaN.
        population_lower, population_upper: the same for the population.
        privacy_share: share of the width of the interval for the population that is due to the noise: what a rate
            without noise would not have; NaN where the rate is NaN.
        positives, negatives: noisy class sizes.
        status: ``ok``, or ``undefined`` if a noisy class size is below 1 or below three standard deviations of its
            noise; then all rates are NaN.
        confidence: nominal level.
        epsilon: cost of the release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    thresholds: FloatArray
    asked: FloatArray
    counts: dict[str, FloatArray]
    rates: dict[str, FloatArray]
    lower: dict[str, FloatArray]
    upper: dict[str, FloatArray]
    population_lower: dict[str, FloatArray]
    population_upper: dict[str, FloatArray]
    privacy_share: dict[str, FloatArray]
    positives: float
    negatives: float
    status: str
    confidence: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str

    def with_class_sizes(self, *, negatives: float, positives: float) -> ConfusionMatrix:
        """The matrices with these sizes, which the counts add up to; their parts of a class remain."""
        counts = dict(self.counts)
        for size, inside, outside in zip((positives, negatives), COUNTS[:2], COUNTS[2:], strict=True):
            own = counts[inside] + counts[outside]
            counts[inside] = rounded(size * counts[inside] / np.maximum(own, 1.0))
            counts[outside] = rounded(size - counts[inside])
        return replace(self, counts=counts, negatives=negatives, positives=positives)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; null for NaN."""
        fields = plain_fields(self)
        named = [("", fields.pop("counts")), ("", fields.pop("rates"))]
        named += [(f"_{end}", fields.pop(end)) for end in (*ENDS, "privacy_share")]
        arrays = {f"{name}{end}": listed(values) for end, group in named for name, values in group.items()}
        return {**fields, **arrays}
