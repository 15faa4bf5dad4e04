"""The random part of confusion matrices: noisy counts of both classes between the thresholds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import ConfusionMatrixOptions
from spark_jobs.contract.privacy import Neighbours, exact_sum
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, noisy_tree
from spark_jobs.mechanisms.trees import best_tree
from spark_jobs.statistics import ScoreCounts

SECURE = SecureNoise()


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """The draw: noisy counts of both classes in the cells between thresholds.

    Attributes:
        confidence: nominal level of intervals.
        neighbours: the relation of the guarantee.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        spendings: what it cost.
        grid: cells of the score grid.
        at: the thresholds, in cells of the grid.
        negatives, positives: noisy counts of each class in the cells between distinct thresholds.
    """

    confidence: float
    neighbours: Neighbours
    guarantee: str
    spendings: tuple[Spending, ...]
    grid: int
    at: tuple[int, ...]
    negatives: NoisyTree
    positives: NoisyTree

    @property
    def epsilon(self) -> Decimal:
        """What it cost."""
        return exact_sum(*(spending.epsilon for spending in self.spendings))

    @property
    def cuts(self) -> Int64Array:
        """The counted cells, as cuts of the grid."""
        return cuts_at(self.at, self.grid)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "confidence": self.confidence,
            "neighbours": str(self.neighbours),
            "guarantee": self.guarantee,
            "spendings": [spending.to_dict() for spending in self.spendings],
            "grid": self.grid,
            "at": list(self.at),
            "negatives": self.negatives.to_dict(),
            "positives": self.positives.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Measurement:
        """The measurement that ``to_dict`` described."""
        return cls(
            confidence=fields["confidence"],
            neighbours=Neighbours(fields["neighbours"]),
            guarantee=fields["guarantee"],
            spendings=tuple(Spending.from_dict(spending) for spending in fields["spendings"]),
            grid=fields["grid"],
            at=tuple(fields["at"]),
            negatives=NoisyTree.from_dict(fields["negatives"]),
            positives=NoisyTree.from_dict(fields["positives"]),
        )


def cuts_at(at: Sequence[int], grid: int) -> Int64Array:
    """The cells between distinct thresholds, as cuts of the grid."""
    return np.unique(np.array([0, *at, grid], dtype=np.int64))


def measure(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    thresholds: Sequence[float] = (0.5,),
    confidence: float = 0.9,
) -> Measurement:
    """Draw the noise of confusion matrices; ``epsilon``-DP for one row added, removed or replaced.

    Cells between thresholds are disjoint, and so are the classes: one tree for each class at the whole epsilon
    (``mechanisms.prefix_sums``). With one threshold these are the four cells of the matrix, with noise of scale
    ``1 / epsilon`` (``2 / epsilon`` under ``REPLACE_ONE``).

    Args:
        statistic: exact counts; private.
        epsilon: what the release may cost; all of it is spent.
        neighbours: the relation.
        noise: where the noise comes from.
        thresholds: from 0 to 1, ascending; public.
        confidence: nominal level of intervals.

    Raises:
        RequestRefused: an option is out of its bounds.
    """
    options = ConfusionMatrixOptions(kind="confusion_matrix", thresholds=tuple(thresholds), confidence=confidence)
    grid, meter = statistic.cells, BudgetMeter(epsilon)
    at = tuple(min(math.ceil(threshold * grid), grid - 1) for threshold in options.thresholds)
    cuts = cuts_at(at, grid)
    tree = best_tree(cuts.size - 1)
    cost = meter.spend_rest(label=f"counts of both classes in {cuts.size - 1} cells")
    negatives, positives = (
        noisy_tree(totals(row, cuts), tree=tree, epsilon=cost, neighbours=neighbours, noise=noise)
        for row in (statistic.negatives, statistic.positives)
    )
    return Measurement(
        confidence=options.confidence,
        neighbours=neighbours,
        guarantee=noise.guarantee,
        spendings=meter.events,
        grid=grid,
        at=at,
        negatives=negatives,
        positives=positives,
    )
