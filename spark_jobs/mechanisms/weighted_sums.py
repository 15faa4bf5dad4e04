"""One sum over all rows of weights that depend on a row's cell and class alone, once, with noise.

Weights are whole numbers, public or computed from released values alone, so that the sum is one too.

Privacy. One row added or removed changes the sum by its weight: the sensitivity is the largest absolute weight. One
row replaced, which may change its class as well as its cell, changes the sum by the difference of two weights, or by
one of them where a row that counts replaces one that does not (no score, or left out by a filter): the sensitivity is
the largest weight less the smallest, 0 being one of them. Two-sided geometric noise of scale sensitivity / epsilon is
epsilon-DP (``spark_jobs.mechanisms.noise``). A sum of weights that earlier releases chose composes with them in
sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale

LARGEST = 4_096
"""Weights are at most this, so that noise is far wider than one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CellWeights:
    """A public weight for each cell of a partition and each class.

    Attributes:
        cuts: the partition.
        weights: whole numbers of ``resolution``; shape (2, k), negatives first.
        resolution: the value of a weight of 1.
    """

    cuts: Int64Array
    weights: Int64Array
    resolution: float

    def sensitivity(self, neighbours: Neighbours) -> int:
        """By how much neighbours may differ in the sum; at least 1."""
        if neighbours is Neighbours.REPLACE_ONE:
            return max(int(self.weights.max(initial=0) - self.weights.min(initial=0)), 1)
        return max(int(np.abs(self.weights).max()), 1)

    def total(self, counts: Int64Array) -> int:
        """The exact sum over rows counted in fine cells; shape (2, grid), negatives first. Private."""
        rows = np.add.reduceat(counts, self.cuts[:-1], axis=-1)
        return int((rows.astype(np.int64) * self.weights).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedSum:
    """A noisy sum of weights.

    Attributes:
        weights: whose sum it is.
        total: the noisy sum, a whole multiple of ``weights.resolution``. scale: of its two-sided geometric noise.
    """

    weights: CellWeights
    total: int
    scale: float


def weighted_sum(
    counts: Int64Array, weights: CellWeights, *, epsilon: Cost, neighbours: Neighbours, noise: Noise
) -> WeightedSum:
    """Measure the sum once; ``epsilon``-DP (see the module's proof).

    Args:
        counts: exact counts of fine cells of both classes, negatives first; shape (2, grid).
        weights: public, or computed from released values alone.
        epsilon: what it costs.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    sensitivity = weights.sensitivity(neighbours)
    exact = np.array([weights.total(counts)], dtype=np.int64)
    noisy = noise.laplace(exact, epsilon=epsilon, l1_sensitivity=sensitivity)
    return WeightedSum(weights=weights, total=int(noisy[0]), scale=laplace_scale(epsilon, sensitivity))
