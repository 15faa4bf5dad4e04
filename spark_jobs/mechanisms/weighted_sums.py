"""A noisy sum, over all rows, of weights that depend only on a row's cell and class.

Weights are whole numbers, public or computed from released values only, so that the sum is a whole number too.

Privacy. One row added or removed changes the sum by its weight: the sensitivity is the largest absolute weight. One row
replaced, which may change its class as well as its cell, changes the sum by the difference of two weights, or by one
weight if one of the two rows is not counted (it has no score, or a filter excludes it): the sensitivity is the largest
weight minus the smallest, where 0 counts as a weight. Two-sided geometric noise of scale sensitivity / epsilon is
epsilon-DP (``spark_jobs.mechanisms.noise``). If the weights depend on earlier releases, the sum composes with these
sequentially.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale

LARGEST = 4_096
"""The largest absolute weight: the noise then has far more steps than one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CellWeights:
    """A public weight for each cell of a partition and each class.

    Attributes:
        cuts: the partition.
        weights: whole multiples of ``resolution``; shape (2, k), negatives first.
        resolution: the value that the whole number 1 stands for.
    """

    cuts: Int64Array
    weights: Int64Array
    resolution: float

    def sensitivity(self, neighbours: Neighbours) -> int:
        """The largest difference of the sum between neighbours; at least 1."""
        if neighbours is Neighbours.REPLACE_ONE:
            return max(int(self.weights.max(initial=0) - self.weights.min(initial=0)), 1)
        return max(int(np.abs(self.weights).max()), 1)

    def total(self, counts: Int64Array) -> int:
        """The exact sum over rows that are counted in fine cells, shape (2, grid), negatives first; private."""
        rows = np.add.reduceat(counts, self.cuts[:-1], axis=-1)
        return int((rows.astype(np.int64) * self.weights).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedSum:
    """A noisy sum of weights.

    Attributes:
        weights: the weights of the rows of each cell.
        total: the noisy sum, in multiples of ``weights.resolution``.
        scale: the scale of its two-sided geometric noise.
    """

    weights: CellWeights
    total: int
    scale: float


def weighted_sum(
    counts: Int64Array, weights: CellWeights, *, epsilon: Cost, neighbours: Neighbours, noise: Noise
) -> WeightedSum:
    """One noisy measurement of the sum; ``epsilon``-DP (see the module's proof).

    Args:
        counts: exact counts of fine cells of both classes, negatives first; shape (2, grid).
        weights: public, or computed from released values only.
        epsilon: the cost of the release.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    sensitivity = weights.sensitivity(neighbours)
    exact = np.array([weights.total(counts)], dtype=np.int64)
    noisy = noise.laplace(exact, epsilon=epsilon, l1_sensitivity=sensitivity)
    return WeightedSum(weights=weights, total=int(noisy[0]), scale=laplace_scale(epsilon, sensitivity))
