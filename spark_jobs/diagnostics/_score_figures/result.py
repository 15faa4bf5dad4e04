"""The released result of one figure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.undefined import plain_fields


@dataclass(frozen=True, kw_only=True)
class ScoreFigure:
    """One released number in [0, 1], with its intervals.

    ``interval`` is for the figure of the same rows without noise: it measures the noise, not the sampling of the rows.

    Attributes:
        value: the figure; None if it is undefined.
        interval: interval at level ``confidence``; None if the figure is undefined, or the noisy sizes that it needs
            were not paid for.
        population_interval: the same for the figure of the population that the rows are a sample of.
        privacy_share: share of the width of ``population_interval`` that is due to the noise: what a figure without
            noise would not have.
        positives, negatives: noisy class sizes; None if they were not paid for.
        status: ``ok``; ``undefined`` if a noisy class size is below 1 or below three standard deviations of its noise;
            ``unchecked`` if the sizes were not paid for.
        method: method of the release; never ``auto``.
        confidence: nominal level.
        epsilon, delta: cost of the release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    status: str
    value: float | None
    interval: tuple[float, float] | None
    population_interval: tuple[float, float] | None
    privacy_share: float | None
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
