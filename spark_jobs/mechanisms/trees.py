"""Trees of counts over a line of cells, and least squares on them: shapes, estimates and exact variances.

A tree of branching ``b`` over ``cells`` leaves groups ``b`` neighbouring nodes of one level into a node of the next, up
to one root; the last node of a level may have fewer children. When every measured node carries independent noise of one
variance, the least-squares estimate that makes each node the sum of its children is found in two passes (Hay, Rastogi,
Miklau, Suciu, PVLDB 2010; for unequal children, Honaker 2015), and so is the variance of every linear query. This
module has no access to data: variances are functions of the shape only, in units of the noise of one node.

Notation of the passes, for a node ``v``: ``z`` is the estimate of its count from the node itself and the nodes below
it, ``var`` is the variance of ``z``, and ``t`` is the sum of its children's ``var``. The estimate of a measured node
combines its own measurement, of variance 1, and the sum of its children, of variance ``t``, weighted by inverse
variances. On the way down, the correction of a parent is distributed to its children in proportion to ``var``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The public shape of a tree of counts.

    Attributes:
        cells: the number of leaves.
        branching: the number of children of a node; at least 2.
        root: ``"noisy"`` (measured like any node), ``"absent"`` (not measured) or ``"public"`` (known exactly).
    """

    cells: int
    branching: int
    root: str = "noisy"

    def __post_init__(self) -> None:
        if self.cells < 1:
            raise ValueError(f"cells: got {self.cells}; must be at least 1")
        if self.branching < 2:
            raise ValueError(f"branching: got {self.branching}; must be at least 2")
        if self.root not in ("noisy", "absent", "public"):
            raise ValueError(f"root: got {self.root!r}; must be noisy, absent or public")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of nodes of each level, leaves first, the root last."""
        sizes = [self.cells]
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // self.branching))
        return tuple(sizes)

    @property
    def measured(self) -> int:
        """The number of levels with noise, leaves first: the 1-norm of one row in the vector of all measured nodes."""
        levels = len(self.sizes)
        return max(1, levels if self.root == "noisy" else levels - 1)

    def group_sums(self, level: NDArray[Any]) -> NDArray[Any]:
        """The sum of a level's values for each parent node, along the last axis; the type is kept."""
        sums: NDArray[Any] = np.add.reduceat(level, np.arange(0, level.shape[-1], self.branching), axis=-1)
        return sums

    def nodes(self, counts: Int64Array) -> tuple[Int64Array, ...]:
        """The exact counts of the measured levels, leaves first."""
        levels = [counts]
        while len(levels) < self.measured:
            levels.append(self.group_sums(levels[-1]))
        return tuple(levels)

    @cached_property
    def _variances(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """For each level: ``var`` of its nodes, and ``t`` (unused at the leaves)."""
        levels = [(np.ones(self.cells), np.ones(self.cells))]
        for number, size in enumerate(self.sizes[1:], start=1):
            below = self.group_sums(levels[-1][0])
            levels.append((below / (1 + below) if number < self.measured else below, below))
            if below.size != size:
                raise ArithmeticError("the sizes of a tree's levels are inconsistent")
        return tuple(levels)

    def least_squares(self, nodes: tuple[NDArray[Any], ...], *, total: float | None = None) -> FloatArray:
        """The leaves' estimates, consistent with every measured node.

        Args:
            nodes: noisy counts of the measured levels, leaves first; leading axes are kept.
            total: the exact total, if ``root`` is public.
        """
        estimates = [np.asarray(nodes[0], dtype=np.float64)]
        sums = [estimates[0]]
        for number in range(1, len(self.sizes)):
            below = self.group_sums(estimates[-1])
            t = self._variances[number][1]
            sums.append(below)
            estimates.append((t * nodes[number] + below) / (1 + t) if number < self.measured else below)
        known = estimates[-1] if total is None else np.full_like(estimates[-1], total)
        for number in range(len(self.sizes) - 1, 0, -1):
            var = self._variances[number - 1][0]
            surplus = (known - sums[number]) / self._variances[number][1]
            known = estimates[number - 1] + var * np.repeat(surplus, self.branching, axis=-1)[..., : var.size]
        return known

    def variance(self, weights: FloatArray) -> float:
        """The variance of the least-squares estimate of ``weights @ counts``."""
        own, with_total = weights**2, weights.astype(np.float64)
        for number in range(1, len(self.sizes)):
            t = self._variances[number][1]
            own = self.group_sums(own)
            with_total = self.group_sums(with_total)
            if number < self.measured:
                own = own - with_total**2 / (1 + t)
                with_total = with_total / (1 + t)
        if self.root == "public":
            own = own - with_total**2 / self._variances[-1][0]
        return float(max(own[0], 0.0))

    @cached_property
    def prefix_variances(self) -> FloatArray:
        """The variances of the estimated counts of the first 0, 1, ..., ``cells`` cells."""
        own, with_total = np.ones(self.cells), np.ones(self.cells)
        index = np.arange(self.cells)
        for number in range(1, len(self.sizes)):
            var = self._variances[number - 1][0]
            first = index - index % self.branching
            running = np.concatenate([[0.0], np.cumsum(var)])
            left = running[index] - running[first]
            own, with_total = own + left, with_total + left
            index = index // self.branching
            if number < self.measured:
                t = self._variances[number][1][index]
                own = own - with_total**2 / (1 + t)
                with_total = with_total / (1 + t)
        if self.root == "public":
            own = own - with_total**2 / self._variances[-1][0][0]
        return np.concatenate([[0.0], np.maximum(own, 0.0)])


@lru_cache(maxsize=256)
def best_tree(cells: int, *, public_total: bool = False) -> Tree:
    """The tree whose prefix counts have the smallest mean variance at a fixed cost in pure differential privacy.

    One row contributes to every measured level, so the variance of the noise is proportional to ``measured ** 2``. The
    flat histogram, the full trees of each depth and the small branchings are compared by their exact variances.
    (Branchings of 2 and 3 are never best on large grids: Qardaji, Yang, Li, PVLDB 2013.)
    """
    if cells == 1:
        return Tree(cells=1, branching=2, root="public" if public_total else "noisy")
    full = (math.ceil(round(cells ** (1 / depth), 9)) for depth in range(1, 5))
    branchings = sorted({max(2, branching) for branching in full} | set(range(2 if cells <= 256 else 4, 25)))
    roots = ("public",) if public_total else ("absent", "noisy")
    trees = [Tree(cells=cells, branching=branching, root=root) for branching in branchings for root in roots]
    return min(trees, key=lambda tree: float(tree.prefix_variances.mean()) * tree.measured**2)
