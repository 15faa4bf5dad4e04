"""Noisy counts over a line of cells, for prefix sums: a noisy tree of counts, and consistent estimates from it.

``noisy_tree`` measures a ``Tree`` of counts once; everything else is post-processing of the stored nodes.

Privacy. ``counts`` are of disjoint cells, so one row lies in one node of each of the tree's ``h`` measured levels.
Adding or removing a row changes ``h`` nodes by 1: the vector of all measured nodes has 1-norm sensitivity ``h``.
Replacing a row changes at most ``2 h``; if the total is public, the root is exact and not measured. Two-sided geometric
noise of scale sensitivity / epsilon on every node is epsilon-DP (``spark_jobs.mechanisms.noise``).

Labels. Two trees over the rows of two classes, each measured with this epsilon, cost epsilon together: under
``ADD_REMOVE`` a row lies in one of the trees (parallel composition); under ``REPLACE_ONE`` the old row and the new row
change ``h`` nodes each, in either tree, and every node has noise of scale ``2 h / epsilon``. A replacement may change
both totals, so that neither is public then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import isotonic_regression

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.trees import Tree


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyTree:
    """The noisy nodes of a tree, and the estimates that follow from them.

    Attributes:
        tree: the public shape.
        nodes: noisy integer counts of the measured levels, leaves first.
        scale: the scale of the two-sided geometric noise in every node. If several trees were added, the scale at which
            such noise has the variance of the nodes' summed noise.
        total: the exact total if it is public, else None.
        summed: the number of noisy trees that were added; they are of tables without common rows. None for a single
            tree.
    """

    tree: Tree
    nodes: tuple[Int64Array, ...]
    scale: float
    total: int | None = None
    summed: int | None = field(default=None, metadata={codec.LEFT_OUT: True})

    def counts(self) -> FloatArray:
        """Least-squares estimates of the cells' counts: unbiased, consistent, possibly negative."""
        return self.tree.least_squares(self.nodes, total=self.total)

    def prefix_counts(self) -> FloatArray:
        """Unbiased estimates of the counts of the first 0, 1, ..., ``cells`` cells."""
        return np.concatenate([[0.0], np.cumsum(self.counts())])

    def prefix_variances(self) -> FloatArray:
        """Exact variances of ``prefix_counts``, from public facts."""
        return self.tree.prefix_variances * laplace_variance(self.scale)

    def variance(self, weights: FloatArray) -> float:
        """Exact variance of ``weights @ counts()`` for weights that do not depend on this noise."""
        return self.tree.variance(weights) * laplace_variance(self.scale)

    def range_variance(self, first: int, last: int) -> float:
        """Exact variance of the estimated count of cells ``first`` up to, not including, ``last``."""
        weights = np.zeros(self.tree.cells)
        weights[first:last] = 1.0
        return self.variance(weights)


def rows_changed(neighbours: Neighbours) -> int:
    """The number of rows in which neighbouring tables differ: the 1-norm sensitivity of counts of disjoint cells."""
    return 2 if neighbours is Neighbours.REPLACE_ONE else 1


def noisy_tree(counts: Int64Array, *, tree: Tree, epsilon: Cost, neighbours: Neighbours, noise: Noise) -> NoisyTree:
    """Measure every level of a tree once; ``epsilon``-DP (see the module's proof).

    Args:
        counts: exact counts of disjoint cells, one for each leaf of the tree.
        tree: its public shape; ``root="public"`` is only for ``REPLACE_ONE`` and rows of one class.
        epsilon: the cost of the release, shared by the trees of disjoint classes.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        ValueError: the counts do not fit the tree, or the total cannot be public.
    """
    if counts.shape != (tree.cells,):
        raise ValueError(f"counts: got shape {counts.shape}; must be ({tree.cells},), one count for each leaf")
    if tree.root == "public" and neighbours is not Neighbours.REPLACE_ONE:
        raise ValueError("root: got public; the total is public only under REPLACE_ONE; use a noisy or absent root")
    l1_sensitivity = tree.measured * rows_changed(neighbours)
    exact = tree.nodes(counts)
    noisy = noise.laplace(np.concatenate(exact), epsilon=epsilon, l1_sensitivity=l1_sensitivity)
    return NoisyTree(
        tree=tree,
        nodes=tuple(np.split(noisy, np.cumsum([level.size for level in exact])[:-1])),
        scale=laplace_scale(epsilon, l1_sensitivity),
        total=int(counts.sum()) if tree.root == "public" else None,
    )


def monotone(prefix: FloatArray, *, upper: float | None = None) -> FloatArray:
    """The nearest non-decreasing sequence within [0, ``upper``] that starts at 0; post-processing.

    The projection (pool adjacent violators) is onto a convex set that contains the exact prefix counts, so that the
    distance to the exact counts never grows. Clipping to a range that contains the exact counts does not increase this
    distance either.

    Args:
        prefix: estimates of the counts of the first 0, 1, ... cells.
        upper: the exact total, if it is public.
    """
    rising = np.clip(isotonic_regression(prefix[1:]).x, 0.0, upper)
    return np.concatenate([[0.0], rising])
