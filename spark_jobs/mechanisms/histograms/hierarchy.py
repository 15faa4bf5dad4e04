"""Sums of neighbouring cells in levels, on a line or a grid, and least squares over levels of unequal noise.

``mechanisms.trees`` knows the line with one noise in all nodes; here levels may differ in their noise, and nodes may
group squares of cells. Level 0 is the cells; a node's parent groups ``branching`` neighbours (a ``branching`` by
``branching`` square on a grid), fewer at the edges; the last level is one root.

Estimates (Hay, Rastogi, Miklau, Suciu, PVLDB 2010; weighted as in Honaker 2015). Upwards, a node joins its own reading,
of variance ``tau``, with the sum of its children's estimates, of variance ``t``, by inverse variances; downwards, what
a parent knows better is shared among its children in proportion to their variances. ``tau`` is infinite where a level
is not measured and 0 where it is known exactly. Nothing but public shapes and noise scales enters the weights.
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
"""Stands for the variance of noise so small that it rounds to nothing."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Hierarchy:
    """The public shape of levels of sums.

    Attributes:
        order: flat indices of the cells, in the order in which the children of every node are neighbours.
        children: for each level above the cells, how many children each of its nodes has.
    """

    order: NDArray[np.intp]
    children: tuple[NDArray[np.intp], ...]

    @classmethod
    def line(cls, cells: int, *, branching: int) -> Hierarchy:
        """Levels over a line of cells."""
        children, size = [], cells
        while size > 1:
            above = -(-size // branching)
            children.append(np.full(above, branching, dtype=np.intp))
            children[-1][-1] = size - (above - 1) * branching
            size = above
        return cls(order=np.arange(cells, dtype=np.intp), children=tuple(children))

    @classmethod
    def grid(cls, shape: tuple[int, int], *, branching: int) -> Hierarchy:
        """Levels over a grid of cells."""
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
        """How many there are, cells and root included."""
        return len(self.children) + 1

    def sums(self, level: int, values: NDArray[Any]) -> NDArray[Any]:
        """The sums of a level's values, along the last axis, in each node of ``level + 1``, in their type."""
        starts = np.cumsum(self.children[level]) - self.children[level]
        totals: NDArray[Any] = np.add.reduceat(values, starts, axis=-1)
        return totals

    def nodes(self, counts: Int64Array) -> tuple[Int64Array, ...]:
        """The exact counts of all levels, the cells first, in ``order``."""
        levels = [counts.reshape(-1)[self.order]]
        for level in range(len(self.children)):
            levels.append(self.sums(level, levels[-1]))
        return tuple(levels)

    def least_squares(self, nodes: Sequence[NDArray[Any] | None], variances: Sequence[float]) -> FloatArray:
        """The cells' estimates, flat, in their own places.

        Args:
            nodes: noisy counts of each level, cells first, as ``nodes`` orders them; None where it is not measured.
            variances: of each level's noise: infinite where it is not measured, 0 where it is exact; above 0 for cells.
        """
        if nodes[0] is None:
            raise ValueError("nodes: the cells must be measured")
        estimates, known_to = [np.asarray(nodes[0], dtype=np.float64)], self._variances(variances)
        sums = [estimates[0]]
        for level in range(1, self.levels):
            below = self.sums(level - 1, estimates[-1])
            weight = _own_weight(known_to[level][1], variances[level])
            reading = nodes[level]
            estimates.append(below if reading is None else weight * reading + (1 - weight) * below)
            sums.append(below)
        known = estimates[-1]
        for level in range(self.levels - 1, 0, -1):
            surplus = (known - sums[level]) / known_to[level][1]
            known = estimates[level - 1] + known_to[level - 1][0] * np.repeat(surplus, self.children[level - 1])
        cells = np.empty_like(known)
        cells[self.order] = known
        return cells

    def variance(self, weights: FloatArray, variances: Sequence[float]) -> float:
        """The variance of the least-squares estimate of ``weights @ counts``, for this noise in each level."""
        known_to = self._variances(variances)
        weights = weights[self.order]
        own, with_total = weights**2 * variances[0], weights * variances[0]
        for level in range(1, self.levels):
            t = known_to[level][1]
            own, with_total = self.sums(level - 1, own), self.sums(level - 1, with_total)
            weight = _own_weight(t, variances[level])
            own, with_total = own - weight * with_total**2 / t, (1 - weight) * with_total
        return float(max(own[0], 0.0))

    def _variances(self, variances: Sequence[float]) -> list[tuple[FloatArray, FloatArray]]:
        """For each level: the variances of what its nodes know from below and themselves, and from below alone."""
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
    """The cells' least-squares estimates after every level was measured once.

    Sensitivity: a row lies in one node of each level, so a level's counts change by 1 in 1-norm when a row is added or
    removed, by at most 2 when one is replaced. Each level has two-sided geometric noise of that over its own epsilon.
    Formal guarantee: the sum of ``epsilons``, by sequential composition; a root that is known exactly is public.

    Args:
        hierarchy: the public shape.
        counts: exact counts of disjoint cells.
        epsilons: what each level may cost, cells first; 0 where a level is not measured; above 0 for the cells.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        public_total: whether the root is known exactly; its epsilon must then be 0.

    Raises:
        ValueError: a public total that was also to be paid for.
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
    """``epsilon`` in equal parts, rounded down; the first, of the cells, takes what rounding left."""
    return split_by(epsilon, (Decimal(1) / parts,) * parts)


def split_by(epsilon: Decimal, shares: Sequence[Decimal]) -> tuple[Decimal, ...]:
    """``epsilon`` in these shares, whose sum is at most 1, rounded down; the first takes what is left of the whole."""
    upper = tuple(share_down(epsilon, part) for part in shares[1:])
    return (exact_difference(epsilon, *upper), *upper)


def share_down(epsilon: Decimal, part: Decimal) -> Decimal:
    """``epsilon * part``, rounded down to the digits that a ledger keeps beyond epsilon's own."""
    step = Decimal(1).scaleb(max(epsilon.adjusted(), 0) - 24)
    with localcontext(prec=2 * MAX_DIGITS, rounding=ROUND_FLOOR):
        return (epsilon * part / step).to_integral_value() * step


def _own_weight(t: FloatArray, tau: float) -> FloatArray:
    """The weight of a node's own reading against its children's sum."""
    return np.zeros_like(t) if math.isinf(tau) else t / (t + tau)
