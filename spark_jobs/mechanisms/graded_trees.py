"""Prefix counts by a consistent tree whose nodes have noise by their place: less where many prefix counts need them.

For neighbours that replace a row, so that the total is public. In a group of siblings whose sum is known, the prefix
count after a share ``s`` of the noise has variance ``s (1 - s)``; averaged over all prefix counts, a sibling at place
``x`` in (0, 1) counts with ``x^2 - x + 1/3``: at the ends four times as much as in the middle. So nodes at the ends
of their group get a larger share of epsilon than those in the middle, and leave less to the nodes below them. On
32,768 cells that takes 4% off the mean variance of the best tree with equal shares (``trees.best_tree``).

Privacy. Every node has a whole weight, and the weights on the path from the root's children to any leaf add up to
``UNITS``. Noise in a node of weight ``w`` is two-sided geometric of scale ``2 UNITS / (w epsilon)``. A replaced row
changes the nodes of its old path by one and those of its new path by one (less where they meet): the loss is at most
the sum of ``w epsilon / (2 UNITS)`` over both, which is epsilon. The root is the number of rows, which this relation
makes public.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import MAX_DIGITS, Neighbours, exact_decimal
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.trees import Tree

UNITS = 128
"""What the weights on a path add up to."""
_MEAN = 0.022
_GRADE = 0.12
"""By how much the mean share of a level falls short of an even one, and how shares grow towards the ends of a group."""


@dataclass(frozen=True, kw_only=True)
class GradedTree:
    """The public shape of a tree with graded noise.

    Attributes:
        cells: leaves; at least 2.
        branching: children of a node; at least 2.
    """

    cells: int
    branching: int

    def __post_init__(self) -> None:
        if self.cells < 2:
            raise ValueError(f"cells: got {self.cells}; must be at least 2")
        if self.branching < 2:
            raise ValueError(f"branching: got {self.branching}; must be at least 2")

    @cached_property
    def plain(self) -> Tree:
        """The same groups of cells."""
        return Tree(cells=self.cells, branching=self.branching, root="public")

    @cached_property
    def weights(self) -> tuple[Int64Array, ...]:
        """The weight of each node, leaves first, the root left out: at least 1, and ``UNITS`` on every path."""
        sizes = self.plain.sizes
        left = np.array([UNITS])
        weights = []
        for number in range(len(sizes) - 2, 0, -1):
            nodes = np.arange(sizes[number])
            parents = nodes // self.branching
            siblings = np.minimum(self.branching, sizes[number] - parents * self.branching)
            place = (nodes - parents * self.branching + 0.5) / siblings
            share = 1 / (number + 1) - _MEAN + _GRADE * ((2 * place - 1) ** 2 - 1 / 3)
            budget = left[parents]
            weight = np.clip(np.rint(budget * share), 1, budget - number).astype(np.int64)
            weights.append(weight)
            left = budget - weight
        weights.append(left[np.arange(self.cells) // self.branching])
        return tuple(weights[::-1])

    def prefix_variances(self, variances: tuple[FloatArray, ...]) -> FloatArray:
        """Variances of the least-squares estimates of the counts of the first 1, ..., ``cells`` cells.

        Args:
            variances: of the noise in each node, leaves first.
        """
        own, with_total, index = variances[0].copy(), variances[0].copy(), np.arange(self.cells)
        for number, (var, below) in enumerate(self._combined(variances), start=1):
            first = index - index % self.branching
            running = np.concatenate([[0.0], np.cumsum(var)])
            left = running[index] - running[first]
            own, with_total = own + left, with_total + left
            index = index // self.branching
            t = below[index]
            if number < len(variances):
                node = variances[number][index]
                own, with_total = own - with_total**2 / (node + t), with_total * node / (node + t)
            else:
                own = own - with_total**2 / t
        return np.maximum(own, 0.0)

    def least_squares(
        self, nodes: tuple[NDArray[Any], ...], variances: tuple[FloatArray, ...], total: float
    ) -> FloatArray:
        """The leaves' estimates, consistent with every node and with the total.

        Args:
            nodes: noisy counts, leaves first, the root left out.
            variances: of the noise in each node.
            total: the exact count of all cells.
        """
        combined = self._combined(variances)
        estimates, sums = [np.asarray(nodes[0], dtype=np.float64)], []
        for number, (_, below) in enumerate(combined, start=1):
            sums.append(self.plain.group_sums(estimates[-1]))
            if number < len(variances):
                node = variances[number]
                estimates.append((below * nodes[number] + node * sums[-1]) / (node + below))
        known = np.full(1, float(total))
        for number in range(len(combined) - 1, -1, -1):
            var, below = combined[number]
            surplus = (known - sums[number]) / below
            known = estimates[number] + var * np.repeat(surplus, self.branching)[: var.size]
        return known

    def _combined(self, variances: tuple[FloatArray, ...]) -> list[tuple[FloatArray, FloatArray]]:
        """For each level below the root: variances of its nodes given all below, and their sums over siblings."""
        combined, var = [], variances[0]
        for number in range(1, len(variances) + 1):
            below = self.plain.group_sums(var)
            combined.append((var, below))
            if number < len(variances):
                var = below * variances[number] / (below + variances[number])
        return combined


@dataclass(frozen=True, kw_only=True, eq=False)
class GradedPrefixes:
    """A graded tree's noisy nodes, and the prefix counts that follow.

    Attributes:
        tree: the public shape.
        nodes: noisy counts, leaves first, the root left out.
        scales: of the two-sided geometric noise in nodes of weight 1, 2, ..., ``UNITS``.
        total: the exact number of rows.
    """

    tree: GradedTree
    nodes: tuple[Int64Array, ...]
    scales: FloatArray
    total: int

    def counts(self) -> FloatArray:
        """Least-squares estimates of the cells' counts: unbiased, consistent, possibly negative."""
        return self.tree.least_squares(self.nodes, self._variances, self.total)

    def prefix_counts(self) -> FloatArray:
        """Unbiased estimates of the counts of the first 0, 1, ..., ``cells`` cells."""
        return np.concatenate([[0.0], np.cumsum(self.counts())])

    def prefix_variances(self) -> FloatArray:
        """Exact variances of ``prefix_counts``; a function of public facts."""
        return np.concatenate([[0.0], self.tree.prefix_variances(self._variances)])

    @cached_property
    def _variances(self) -> tuple[FloatArray, ...]:
        by_weight = np.array([laplace_variance(float(scale)) for scale in self.scales])
        return tuple(by_weight[weights - 1] for weights in self.tree.weights)


def graded_prefixes(
    counts: Int64Array, *, tree: GradedTree, epsilon: Cost, neighbours: Neighbours, noise: Noise, public_total: bool
) -> GradedPrefixes:
    """Measure every node of a graded tree once; ``epsilon``-DP (see the module's proof).

    Args:
        counts: exact counts of disjoint cells, one for each leaf of the tree; of the rows of all classes together.
        tree: its public shape.
        epsilon: what it costs.
        neighbours: the relation; ``REPLACE_ONE``.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        public_total: must be said to be True: the number of counted rows is public and used exactly, so a replaced row
            cannot become one that is not counted.

    Raises:
        InvalidRequest: epsilon is no cost.
        ValueError: the counts do not fit the tree, or the total is not public.
    """
    if counts.shape != (tree.cells,):
        raise ValueError(f"counts: got shape {counts.shape}; must be ({tree.cells},), one count for each leaf")
    if neighbours is not Neighbours.REPLACE_ONE:
        raise ValueError(f"neighbours: got {neighbours}; must be REPLACE_ONE, under which a total can be public")
    if not public_total:
        raise ValueError("public_total: got False; this tree needs the exact number of rows: use noisy_tree")
    cost = exact_decimal(epsilon, what="epsilon")
    exact, weights = np.concatenate(tree.plain.nodes(counts)), np.concatenate(tree.weights)
    noisy = np.empty_like(exact)
    for weight in np.unique(weights).tolist():
        at = weights == weight
        noisy[at] = noise.laplace(exact[at], epsilon=_times(cost, weight), l1_sensitivity=2 * UNITS)
    return GradedPrefixes(
        tree=tree,
        nodes=tuple(np.split(noisy, np.cumsum([level.size for level in tree.weights])[:-1])),
        scales=np.array([laplace_scale(_times(cost, weight), 2 * UNITS) for weight in range(1, UNITS + 1)]),
        total=int(counts.sum()),
    )


def _times(cost: Decimal, weight: int) -> Decimal:
    with localcontext(prec=2 * MAX_DIGITS):
        return cost * weight


@lru_cache(maxsize=64)
def best_graded_tree(cells: int) -> GradedTree:
    """The graded tree whose prefix counts have the least mean variance."""

    def mean_variance(tree: GradedTree) -> float:
        return float(tree.prefix_variances(tuple(1.0 / weights**2 for weights in tree.weights)).mean())

    trees = [GradedTree(cells=cells, branching=branching) for branching in range(2, 25)]
    return min((tree for tree in trees if len(tree.plain.sizes) <= 12), key=mean_variance)
