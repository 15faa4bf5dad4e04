"""Exact least squares for hierarchies of counts that add up and are not negative.

Given noisy measurements ``y_v`` of variance ``s_v``, the result is the counts ``x`` that minimise
``sum (x_v - y_v)^2 / (2 s_v)`` such that every node is the sum of its children and no leaf is below 0. This is
post-processing of released values, without further cost. Chen 2018 publishes the noisy aggregates without this step, so
that a node's count and the sum of its children's counts differ.

Method. Let ``F_v(x)`` be the smallest cost of v and the nodes below it if v has count x, and ``x_v(p)`` the count at
which its slope is p: the demand of the subtree at price p. The demand of a leaf is ``max(0, y + s p)``. All children of
a node have the same price, so that their demands add up; the measurement of the node itself raises the price by
``(x - y) / s`` on the way up. All demands are nondecreasing, convex and piecewise linear in p, with one bend for each
leaf below: they are stored as bends and slopes, and the price of the root is 0. This takes ``O(leaves log(leaves))``
for each level, for any weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy

_AT_ONCE = 1 << 18
"""So many counts are adjusted at a time, which bounds memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Demands:
    """The demands of the subtrees of one level, in each of n tables: sums of ``slope * max(0, price - bend)``.

    Attributes:
        sizes: the number of leaves below each node of the level, shape (nodes,); subtrees are one after the other.
        bends: shape (n, leaves), ascending in each subtree.
        slopes: the increase of the slope at each bend, at least 0; of the same shape.
    """

    sizes: NDArray[np.intp]
    bends: FloatArray
    slopes: FloatArray

    def at(self, prices: FloatArray) -> FloatArray:
        """The counts of the nodes at their prices, shape (n, nodes)."""
        demands = np.empty_like(prices)
        for nodes, leaves in _of_equal_size(self.sizes):
            bends, slopes = (np.take(values, leaves, axis=1) for values in (self.bends, self.slopes))
            demands[:, nodes] = (slopes * np.maximum(prices[:, nodes, None] - bends, 0.0)).sum(axis=-1)
        return demands

    def above(
        self, children: NDArray[np.intp], measurements: FloatArray, variances: FloatArray, ends: BoolArray
    ) -> _Demands:
        """The demands of the level above, with the measurements of its nodes, shape (n, nodes).

        Args:
            children: the number of children of each of its nodes.
            measurements: of its nodes.
            variances: of the measurements.
            ends: where nothing below a node is measured; its demand is then that of a leaf.
        """
        sizes = np.add.reduceat(self.sizes, np.cumsum(children) - children)
        bends, slopes = np.empty_like(self.bends), np.empty_like(self.slopes)
        for nodes, leaves in _of_equal_size(sizes):
            order = np.argsort(np.take(self.bends, leaves, axis=1), axis=-1, kind="stable")
            joined = [
                np.take_along_axis(np.take(values, leaves, axis=1), order, axis=-1)
                for values in (self.bends, self.slopes)
            ]
            bends[:, leaves], slopes[:, leaves] = _with_root(
                joined[0], joined[1], measurements[:, nodes, None], variances[:, nodes, None], ends[:, nodes, None]
            )
        return _Demands(sizes=sizes, bends=bends, slopes=slopes)


def _of_equal_size(sizes: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """For each size of subtrees: the nodes that have it, shape (m,), and their leaves, shape (m, size)."""
    firsts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes):
        nodes = np.flatnonzero(sizes == size)
        yield nodes, firsts[nodes, None] + np.arange(size)


def _with_root(
    bends: FloatArray, slopes: FloatArray, measurement: FloatArray, variance: FloatArray, end: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """The bends and slopes of subtrees, shape (n, m, size), after their roots' measurements, shape (n, m, 1)."""
    steep = np.cumsum(slopes, axis=-1)
    steps = steep[..., :-1] * np.diff(bends, axis=-1)
    counts = np.concatenate([np.zeros_like(measurement), np.cumsum(steps, axis=-1)], axis=-1)
    flatter = steep / (1.0 + steep / variance)
    leaf = np.where(np.arange(bends.shape[-1]) == 0, variance, 0.0)
    return (
        np.where(end, -(measurement / variance), bends + (counts - measurement) / variance),
        np.where(end, leaf, np.maximum(np.diff(flatter, axis=-1, prepend=0.0), 0.0)),
    )


def consistent_counts(
    measurements: FloatArray, variances: FloatArray, *, hierarchy: Hierarchy, ends: BoolArray | None = None
) -> FloatArray:
    """The nonnegative counts nearest to the measurements; a count with measured children is the sum of its children.

    Args:
        measurements: the noisy counts of all nodes in n tables, level by level from the root; shape (n, nodes).
        variances: the variances of the measurements, above 0, of the same shape; only their ratios within a table
            matter.
        hierarchy: the public shape.
        ends: for each node, whether nothing below it is measured, of the same shape; in the result, the counts below
            such a node are 0. By default every node is measured.

    Returns:
        Counts, of the shape of ``measurements``.
    """
    cuts = np.cumsum([len(children) for children in reversed(hierarchy.children)], dtype=np.intp)
    last = np.zeros(measurements.shape, dtype=np.bool_) if ends is None else ends
    result = np.empty(measurements.shape)
    at_once = max(1, _AT_ONCE // max(measurements.shape[1], 1))
    for start in range(0, len(measurements), at_once):
        part = slice(start, start + at_once)
        of_levels: Any = [np.split(values[part], cuts, axis=1) for values in (measurements, variances, last)]
        levels, spreads, lasts = of_levels
        adding_up = _consistent_levels(levels, spreads, hierarchy=hierarchy, ends=lasts[:-1])
        result[part] = np.concatenate(adding_up, axis=1)
    return result


def _consistent_levels(
    measurements: Sequence[FloatArray],
    variances: Sequence[FloatArray],
    *,
    hierarchy: Hierarchy,
    ends: Sequence[BoolArray],
) -> list[FloatArray]:
    """``consistent_counts`` of a few tables, with an array for each level, the root first."""
    levels = _upwards(measurements, variances, hierarchy, ends)
    prices = [np.zeros_like(measurements[0], dtype=np.float64)]
    demands: list[FloatArray] = []
    measured = np.ones(measurements[0].shape, dtype=np.bool_)
    for depth, subtrees in enumerate(levels):
        counts = subtrees.at(prices[-1])
        demands.append(np.where(measured, counts, 0.0))
        if depth < len(ends):
            above = prices[-1] - (counts - measurements[depth]) / variances[depth]
            children = hierarchy.children[len(ends) - 1 - depth]
            prices.append(np.repeat(above, children, axis=1))
            measured = np.repeat(measured & ~ends[depth], children, axis=1)
    # add up the counts of the deepest nodes, so that sums are exact to the last digit
    for depth in range(len(ends) - 1, -1, -1):
        sums = hierarchy.sums(len(ends) - 1 - depth, demands[depth + 1])
        demands[depth] = np.where(ends[depth], demands[depth], sums)
    return demands


def _upwards(
    measurements: Sequence[FloatArray], variances: Sequence[FloatArray], hierarchy: Hierarchy, ends: Sequence[BoolArray]
) -> list[_Demands]:
    """The demands of all subtrees, level by level from the root."""
    spread = variances[-1]
    sizes = np.ones(spread.shape[1], dtype=np.intp)
    levels = [_Demands(sizes=sizes, bends=-(measurements[-1] / spread), slopes=spread)]
    for depth in range(len(ends) - 1, -1, -1):
        children = hierarchy.children[len(ends) - 1 - depth]
        levels.append(levels[-1].above(children, measurements[depth], variances[depth], ends[depth]))
    return levels[::-1]
