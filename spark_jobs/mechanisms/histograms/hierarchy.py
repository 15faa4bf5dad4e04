"""Hierarchies of sums over the cells of a line or a grid, and least squares over levels with different noise.

``mechanisms.trees`` has the case of a line with the same noise in all nodes; here the noise may differ between levels,
and nodes may group squares of cells. Level 0 is the cells; a node of the next level groups ``branching`` neighbours (a
``branching`` by ``branching`` square on a grid), or fewer at the edges; the last level is the root.

Estimates (Hay, Rastogi, Miklau, Suciu, PVLDB 2010; weighted as in Honaker 2015). On the way up, the estimate of a node
combines its own measurement, of variance ``tau``, and the sum of its children's estimates, of variance ``t``, weighted
by inverse variances; on the way down, the correction of a parent is distributed to its children in proportion to their
variances. ``tau`` is infinite for a level that is not measured, and 0 for a level that is known exactly. The weights
depend only on public shapes and noise scales.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import MAX_DIGITS, Neighbours, exact_difference
from spark_jobs.mechanisms.noise import Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed

MIN_VARIANCE = 1e-100
"""Replaces a variance of noise that is so small that it rounds to 0."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Hierarchy:
    """The public shape of a hierarchy of sums.

    Attributes:
        order: flat indices of the cells, in an order in which the children of every node are neighbours.
        children: for each level above the cells, the number of children of each node.
    """

    order: NDArray[np.intp]
    children: tuple[NDArray[np.intp], ...]

    @classmethod
    def line(cls, cells: int, *, branching: int) -> Hierarchy:
        """The hierarchy over a line of cells."""
        children, size = [], cells
        while size > 1:
            above = -(-size // branching)
            children.append(np.full(above, branching, dtype=np.intp))
            children[-1][-1] = size - (above - 1) * branching
            size = above
        return cls(order=np.arange(cells, dtype=np.intp), children=tuple(children))

    @classmethod
    def grid(cls, shape: tuple[int, int], *, branching: int) -> Hierarchy:
        """The hierarchy over a grid of cells."""
        row, column = (axis.reshape(-1) for axis in np.indices(shape))
        names = [np.arange(row.size)]
        while names[-1].any():
            row, column = row // branching, column // branching
            names.append(row * shape[1] + column)
        order = np.lexsort(names)
        children, first = [], np.arange(order.size)
        for name in names[1:]:
            starts = np.flatnonzero(np.diff(name[order][first], prepend=-1))
            children.append(np.diff(np.append(starts, first.size)))
            first = first[starts]
        return cls(order=order, children=tuple(children))

    @property
    def levels(self) -> int:
        """The number of levels, including cells and root."""
        return len(self.children) + 1

    def sums(self, level: int, values: NDArray[Any]) -> NDArray[Any]:
        """The sum of a level's values, along the last axis, for each node of level ``level + 1``; the type is kept."""
        starts = np.cumsum(self.children[level]) - self.children[level]
        totals: NDArray[Any] = np.add.reduceat(values, starts, axis=-1)
        return totals

    def all_sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sums of the cells' values, along the last axis in ``order``, for all nodes, from the root downwards."""
        return np.concatenate(self._levels(values)[::-1], axis=-1)

    @property
    def cells_below(self) -> Int64Array:
        """The number of cells of each node, in the order of ``all_sums``; 1 for a cell itself."""
        return np.asarray(self.all_sums(np.ones(self.order.size, dtype=np.int64)))

    def nodes(self, counts: Int64Array) -> tuple[Int64Array, ...]:
        """The exact counts of all levels, the cells first, in ``order``."""
        return tuple(self._levels(counts.reshape(-1)[self.order]))

    def _levels(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """The sums of each level, the cells first, from values in ``order``."""
        levels = [values]
        for level in range(len(self.children)):
            levels.append(self.sums(level, levels[-1]))
        return levels

    def least_squares(self, nodes: Sequence[NDArray[Any] | None], variances: Sequence[float]) -> FloatArray:
        """The estimates of the cells, as a flat array in the cells' original order.

        Args:
            nodes: noisy counts of each level, cells first, ordered as in ``nodes``; None for a level that is not
                measured.
            variances: of the noise of each level: infinite if it is not measured, 0 if it is exact; above 0 for cells.
        """
        if nodes[0] is None:
            raise ValueError("nodes: the cells must be measured")
        estimates, level_variances = [np.asarray(nodes[0], dtype=np.float64)], self._variances(variances)
        sums = [estimates[0]]
        for level in range(1, self.levels):
            below = self.sums(level - 1, estimates[-1])
            weight = _own_weight(level_variances[level][1], variances[level])
            measurement = nodes[level]
            estimates.append(below if measurement is None else weight * measurement + (1 - weight) * below)
            sums.append(below)
        known = estimates[-1]
        for level in range(self.levels - 1, 0, -1):
            surplus = (known - sums[level]) / level_variances[level][1]
            known = estimates[level - 1] + level_variances[level - 1][0] * np.repeat(surplus, self.children[level - 1])
        cells = np.empty_like(known)
        cells[self.order] = known
        return cells

    def variance(self, weights: FloatArray, variances: Sequence[float]) -> float:
        """The variance of the least-squares estimate of ``weights @ counts``, given the levels' noise variances."""
        level_variances = self._variances(variances)
        weights = weights[self.order]
        own, with_total = weights**2 * variances[0], weights * variances[0]
        for level in range(1, self.levels):
            t = level_variances[level][1]
            own, with_total = self.sums(level - 1, own), self.sums(level - 1, with_total)
            weight = _own_weight(t, variances[level])
            own, with_total = own - weight * with_total**2 / t, (1 - weight) * with_total
        return float(max(own[0], 0.0))

    def _variances(self, variances: Sequence[float]) -> list[tuple[FloatArray, FloatArray]]:
        """For each level: the variances of the estimates on the way up, with and without the own measurement."""
        levels = [(np.full(self.order.size, float(variances[0])),) * 2]
        for level in range(1, self.levels):
            t = self.sums(level - 1, levels[-1][0])
            levels.append(((1 - _own_weight(t, variances[level])) * t, t))
        return levels


def measured_cells(
    hierarchy: Hierarchy,
    counts: Int64Array,
    *,
    epsilons: Sequence[Decimal],
    neighbours: Neighbours,
    noise: Noise,
    public_total: bool = False,
) -> FloatArray:
    """The least-squares estimates of the cells from one noisy measurement of every level.

    Sensitivity: a row lies in one node of each level, so that the counts of a level change by 1 in 1-norm when a row is
    added or removed, and by at most 2 when one is replaced. Each level gets two-sided geometric noise of scale
    sensitivity over its own epsilon.
    Formal guarantee: differential privacy at the sum of ``epsilons``, by sequential composition. A root that is known
    exactly is public and costs nothing.

    Args:
        hierarchy: the public shape.
        counts: exact counts of disjoint cells.
        epsilons: the cost of each level, cells first; 0 if it is not measured; above 0 for the cells.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        public_total: whether the root is known exactly; its epsilon must then be 0.

    Raises:
        ValueError: the total is public, but its epsilon is not 0.
    """
    if public_total and len(epsilons) > 1 and epsilons[-1] > 0:
        raise ValueError("epsilons: the last must be 0 where the total is public")
    exact, rows = hierarchy.nodes(counts), rows_changed(neighbours)
    nodes: list[NDArray[Any] | None] = []
    variances = []
    for level, epsilon in zip(exact, epsilons, strict=True):
        measured = epsilon > 0
        nodes.append(noise.laplace(level, epsilon=epsilon, l1_sensitivity=rows) if measured else None)
        scale = laplace_scale(epsilon, rows) if measured else math.inf
        variances.append(max(laplace_variance(scale), MIN_VARIANCE) if measured else math.inf)
    if public_total and len(epsilons) > 1:
        nodes[-1], variances[-1] = exact[-1], 0.0
    return hierarchy.least_squares(nodes, variances).reshape(counts.shape)


def split_evenly(epsilon: Decimal, parts: int) -> tuple[Decimal, ...]:
    """``epsilon`` in equal parts, rounded down; the first part, for the cells, gets the remainder."""
    return split_by(epsilon, (Decimal(1) / parts,) * parts)


def split_by(epsilon: Decimal, shares: Sequence[Decimal]) -> tuple[Decimal, ...]:
    """``epsilon`` in these shares, whose sum is at most 1: parts are rounded down, the first gets the remainder."""
    upper = tuple(share_down(epsilon, part) for part in shares[1:])
    return (exact_difference(epsilon, *upper), *upper)


def share_down(epsilon: Decimal, part: Decimal) -> Decimal:
    """``epsilon * part``, rounded down to a number of digits that the ledger can record."""
    step = Decimal(1).scaleb(max(epsilon.adjusted(), 0) - 24)
    with localcontext(prec=2 * MAX_DIGITS, rounding=ROUND_FLOOR):
        return (epsilon * part / step).to_integral_value() * step


def _own_weight(t: FloatArray, tau: float) -> FloatArray:
    """The weight of a node's own measurement, relative to the sum of its children."""
    return np.zeros_like(t) if math.isinf(tau) else t / (t + tau)
