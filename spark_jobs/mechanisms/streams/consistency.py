"""Counts that add up and are not negative: the nearest ones to noisy readings of a hierarchy's nodes, exactly.

For readings ``y_v`` of variance ``s_v`` the counts ``x`` are sought that minimise ``sum (x_v - y_v)^2 / (2 s_v)`` where
every node is the sum of its children and no leaf is below 0. This is post-processing of what was released, and free.
Chen 2018 publishes every aggregate as it is; a node's count and the sum of those below it then say different things.

Method. Let ``F_v(x)`` be the least cost of the nodes below and with v at count x, and ``x_v(p)`` the count at which its
slope is p: what the subtree takes at a price p. A leaf takes ``max(0, y + s p)``. Children of one node face one price,
so they take the sum of what each would; a node's own reading raises the price by ``(x - y) / s`` on the way up. All of
these are nondecreasing, convex and piecewise linear in p, with one bend for each leaf below: they are kept as bends and
slopes, and the root's price is 0. That is ``O(leaves log(leaves))`` for each level, whatever the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy


@dataclass(frozen=True, kw_only=True, eq=False)
class _Taken:
    """What a subtree takes at a price, in each of n tables: a sum of ``slope * max(0, price - bend)``.

    Attributes:
        bends: shape (n, leaves below), ascending in each row.
        slopes: by how much the slope grows at each bend, at least 0; of the same shape.
    """

    bends: FloatArray
    slopes: FloatArray

    def at(self, price: FloatArray) -> FloatArray:
        """The count at prices of shape (n,)."""
        taken: FloatArray = (self.slopes * np.maximum(price[:, None] - self.bends, 0.0)).sum(axis=1)
        return taken

    def read(self, reading: FloatArray, variance: FloatArray) -> _Taken:
        """The same with a reading of the whole subtree."""
        steep = np.cumsum(self.slopes, axis=1)
        steps = steep[:, :-1] * np.diff(self.bends, axis=1)
        counts = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
        bends = self.bends + (counts - reading[:, None]) / variance[:, None]
        flatter = steep / (1.0 + steep / variance[:, None])
        return _Taken(bends=bends, slopes=np.maximum(np.diff(flatter, axis=1, prepend=0.0), 0.0))

    def ended(self, here: BoolArray, reading: FloatArray, variance: FloatArray) -> _Taken:
        """The same, but a leaf in the tables where nothing below is measured."""
        first = np.arange(self.bends.shape[1]) == 0
        leaf = np.where(first, variance[:, None], 0.0)
        return _Taken(
            bends=np.where(here[:, None], -(reading / variance)[:, None], self.bends),
            slopes=np.where(here[:, None], leaf, self.slopes),
        )

    @classmethod
    def together(cls, parts: Sequence[_Taken]) -> _Taken:
        """What several subtrees take at one price."""
        bends = np.concatenate([part.bends for part in parts], axis=1)
        slopes = np.concatenate([part.slopes for part in parts], axis=1)
        order = np.argsort(bends, axis=1, kind="stable")
        return cls(bends=np.take_along_axis(bends, order, axis=1), slopes=np.take_along_axis(slopes, order, axis=1))


def consistent_counts(
    readings: Sequence[FloatArray],
    variances: Sequence[FloatArray],
    *,
    hierarchy: Hierarchy,
    ends: Sequence[BoolArray],
) -> list[FloatArray]:
    """The nonnegative counts nearest to the readings, each the sum of its children where those are measured.

    Args:
        readings: of each level, the root's first, shape (n, nodes of the level): n tables at once.
        variances: of the readings, above 0, of the same shapes; only their ratios matter.
        hierarchy: which node is whose.
        ends: for each level but the last, whether nothing below the node is measured; what is below is then 0.

    Returns:
        Counts of the shapes of ``readings``.
    """
    levels = _upwards(readings, variances, hierarchy, ends)
    prices = [np.zeros_like(readings[0], dtype=np.float64)]
    taken: list[FloatArray] = []
    measured = np.ones(readings[0].shape, dtype=np.bool_)
    for depth, subtrees in enumerate(levels):
        counts = np.column_stack([part.at(prices[-1][:, node]) for node, part in enumerate(subtrees)])
        taken.append(np.where(measured, counts, 0.0))
        if depth < len(ends):
            above = prices[-1] - (counts - readings[depth]) / variances[depth]
            children = hierarchy.children[len(ends) - 1 - depth]
            prices.append(np.repeat(above, children, axis=1))
            measured = np.repeat(measured & ~ends[depth], children, axis=1)
    # what was found for the deepest nodes, added up: sums then hold to the last digit
    for depth in range(len(ends) - 1, -1, -1):
        sums = hierarchy.sums(len(ends) - 1 - depth, taken[depth + 1])
        taken[depth] = np.where(ends[depth], taken[depth], sums)
    return taken


def _upwards(
    readings: Sequence[FloatArray], variances: Sequence[FloatArray], hierarchy: Hierarchy, ends: Sequence[BoolArray]
) -> list[list[_Taken]]:
    """What every subtree takes, level by level from the root."""
    leaves = [
        _Taken(bends=-(reading / variance)[:, None], slopes=variance[:, None])
        for reading, variance in zip(readings[-1].T, variances[-1].T, strict=True)
    ]
    levels = [leaves]
    for depth in range(len(ends) - 1, -1, -1):
        stops = np.cumsum(hierarchy.children[len(ends) - 1 - depth])
        above = []
        for node, (start, stop) in enumerate(zip(np.append(0, stops[:-1]), stops, strict=True)):
            reading, variance = readings[depth][:, node], variances[depth][:, node]
            joined = _Taken.together(levels[-1][start:stop]).read(reading, variance)
            above.append(joined.ended(ends[depth][:, node], reading, variance))
        levels.append(above)
    return levels[::-1]
