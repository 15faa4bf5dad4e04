"""A released figure of a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.undefined import plain_fields


@dataclass(frozen=True, kw_only=True)
class ScoreFigure:
    """One released number in [0, 1] with its interval.

    The interval covers what the exact counts of the same rows would give: it measures the noise, not the sampling of
    the rows.

    Attributes:
        value: the figure; None where it is undefined.
        interval: at level ``confidence``; None too where the noisy sizes it needs were not paid for.
        positives, negatives: noisy class sizes; None where they were not paid for.
        status: ``ok``; ``undefined`` where a noisy class size is below 1 or below three standard deviations of its
            noise: value and interval are then None; ``unchecked`` where the sizes were not paid for, so that nothing
            tells whether there were rows enough.
        method: how noise was scaled.
        confidence: nominal level.
        epsilon, delta: what the release cost.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    status: str
    value: float | None
    interval: tuple[float, float] | None
    confidence: float
    positives: float | None
    negatives: float | None
    method: str
    epsilon: Decimal
    delta: Decimal
    neighbours: Neighbours
    guarantee: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return plain_fields(self)
