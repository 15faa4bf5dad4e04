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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy


@dataclass(frozen=True, kw_only=True, eq=False)
class _Demand:
    """The demand of a subtree at a price, in each of n tables: a sum of ``slope * max(0, price - bend)``.

    Attributes:
        bends: shape (n, leaves below), ascending in each row.
        slopes: the increase of the slope at each bend, at least 0; of the same shape.
    """

    bends: FloatArray
    slopes: FloatArray

    def at(self, price: FloatArray) -> FloatArray:
        """The counts at prices of shape (n,)."""
        demands: FloatArray = (self.slopes * np.maximum(price[:, None] - self.bends, 0.0)).sum(axis=1)
        return demands

    def with_root(self, measurement: FloatArray, variance: FloatArray) -> _Demand:
        """The demand if the root of the subtree is measured as well."""
        steep = np.cumsum(self.slopes, axis=1)
        steps = steep[:, :-1] * np.diff(self.bends, axis=1)
        counts = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
        bends = self.bends + (counts - measurement[:, None]) / variance[:, None]
        flatter = steep / (1.0 + steep / variance[:, None])
        return _Demand(bends=bends, slopes=np.maximum(np.diff(flatter, axis=1, prepend=0.0), 0.0))

    def ended(self, here: BoolArray, measurement: FloatArray, variance: FloatArray) -> _Demand:
        """The same, but the demand of a leaf in the tables where nothing below the node is measured."""
        first = np.arange(self.bends.shape[1]) == 0
        leaf = np.where(first, variance[:, None], 0.0)
        return _Demand(
            bends=np.where(here[:, None], -(measurement / variance)[:, None], self.bends),
            slopes=np.where(here[:, None], leaf, self.slopes),
        )

    @classmethod
    def together(cls, parts: Sequence[_Demand]) -> _Demand:
        """The total demand of several subtrees at a common price."""
        bends = np.concatenate([part.bends for part in parts], axis=1)
        slopes = np.concatenate([part.slopes for part in parts], axis=1)
        order = np.argsort(bends, axis=1, kind="stable")
        return cls(bends=np.take_along_axis(bends, order, axis=1), slopes=np.take_along_axis(slopes, order, axis=1))


def consistent_counts(
    measurements: Sequence[FloatArray],
    variances: Sequence[FloatArray],
    *,
    hierarchy: Hierarchy,
    ends: Sequence[BoolArray],
) -> list[FloatArray]:
    """The nonnegative counts nearest to the measurements, each the sum of its children where these are measured.

    Args:
        measurements: the measurements of each level, the root first, shape (n, nodes of the level): n tables at once.
        variances: of the measurements, above 0, of the same shapes; only their ratios matter.
        hierarchy: the public shape.
        ends: for each level but the last, whether nothing below the node is measured; the nodes below are then 0.

    Returns:
        Counts, of the shapes of ``measurements``.
    """
    levels = _upwards(measurements, variances, hierarchy, ends)
    prices = [np.zeros_like(measurements[0], dtype=np.float64)]
    demands: list[FloatArray] = []
    measured = np.ones(measurements[0].shape, dtype=np.bool_)
    for depth, subtrees in enumerate(levels):
        counts = np.column_stack([part.at(prices[-1][:, node]) for node, part in enumerate(subtrees)])
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
) -> list[list[_Demand]]:
    """The demands of all subtrees, level by level from the root."""
    leaves = [
        _Demand(bends=-(measurement / variance)[:, None], slopes=variance[:, None])
        for measurement, variance in zip(measurements[-1].T, variances[-1].T, strict=True)
    ]
    levels = [leaves]
    for depth in range(len(ends) - 1, -1, -1):
        stops = np.cumsum(hierarchy.children[len(ends) - 1 - depth])
        above = []
        for node, (start, stop) in enumerate(zip(np.append(0, stops[:-1]), stops, strict=True)):
            measurement, variance = measurements[depth][:, node], variances[depth][:, node]
            joined = _Demand.together(levels[-1][start:stop]).with_root(measurement, variance)
            above.append(joined.ended(ends[depth][:, node], measurement, variance))
        levels.append(above)
    return levels[::-1]
