"""Released confusion matrices."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.undefined import listed, plain_fields

COUNTS = ("true_positives", "false_positives", "false_negatives", "true_negatives")
RATES = ("accuracy", "precision", "recall", "specificity", "f1")


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfusionMatrix:
    """Released confusion matrices at given thresholds, and rates; all arrays have as many values as thresholds.

    Intervals cover what the exact counts of the same rows would give: they measure the noise, not the sampling.

    Attributes:
        thresholds: a row counts as positive if its score is at least this; as asked for, rounded up to the score grid.
        counts: noisy counts at each threshold, by name, at least 0.
        rates: ``accuracy``, ``precision``, ``recall``, ``specificity`` and ``f1`` at each threshold; NaN where the
            rows to divide by are fewer than one, or than three standard deviations of their noise.
        lower, upper: ends of the rates' intervals at level ``confidence``; NaN with their rate.
        positives, negatives: noisy class sizes.
        status: ``ok``, or ``undefined`` where a noisy class size is below 1 or below three standard deviations of its
            noise; all rates are then NaN.
        confidence: nominal level.
        epsilon: what the release cost.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    thresholds: FloatArray
    counts: dict[str, FloatArray]
    rates: dict[str, FloatArray]
    lower: dict[str, FloatArray]
    upper: dict[str, FloatArray]
    positives: float
    negatives: float
    status: str
    confidence: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; null for rates without a value."""
        fields = plain_fields(self)
        named = [("", fields.pop("counts")), ("", fields.pop("rates"))]
        named += [("_lower", fields.pop("lower")), ("_upper", fields.pop("upper"))]
        arrays = {f"{name}{end}": listed(values) for end, group in named for name, values in group.items()}
        return {**fields, **arrays}
