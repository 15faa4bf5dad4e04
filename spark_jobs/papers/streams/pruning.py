"""The private pruning of a tree of counts: which nodes of a hierarchy are worth refining.

Where most of a domain is empty, measuring every leaf of its hierarchy spends budget on empty cells. A pruning decides,
for each node whose parent is refined, whether it is refined as well; its cost does not depend on the height of the
tree.

Neighbours and sensitivity: a row that is added or removed changes the counts of the nodes on one path from the root to
a leaf by 1 each. Every node has noise of its own and the threshold has none, so this is not the sparse vector
technique.

Guarantee: ``epsilon``-DP when a row is added or removed. A replaced row changes two paths, so that the same mechanism
at half of epsilon is ``epsilon``-DP under replacement.

There are two ways of testing; a public rule selects one (``node_noise``).

*Falling scores* (after Zhang, Xiao, Xie, *PrivTree*, SIGMOD 2016). Let d be a whole number of at least 1. A node at
depth j with count c has the score ``b = max(c - j d, t - d)``. The node is refined iff ``b + noise > t``; the noise is
two-sided geometric, and ``e``-DP for one row. Let D' have one row more than D. A node's loss is the privacy loss of its
answer between D and D'. Nodes off the path of this row have the same score under both, and no loss. On the path let v
be the deepest node whose score under D' lies above the floor ``t - d``, by a whole ``a >= 1``. Deeper nodes on the path
are at the floor under both, and have no loss. Scores rise by at least d per level towards the root, so under D' the
j-th ancestor of v lies ``(j - 1) d + a`` or more above the threshold. The answer "refined" has the loss e if the node's
score under D is at most t, and ``ln((1 + r - r^(m+1)) / (1 + r - r^m))`` if this score is t + m, with ``r = exp(-e)``.
So the total loss is largest at a = 1: ``2 e`` for v and its parent, and the sum of these logarithms over m = d, 2d, ...
for the other ancestors.

- For ``e <= 1`` and ``d >= 1 / e`` the total loss is at most ``(1 + 1 / (1 - 1/E)) e``, a geometric series with Euler's
  number E. So ``e = (E - 1) / (2E - 1) epsilon`` suffices.
- For ``d = 1`` the logarithms telescope to ``ln(1 + r)``: the total loss is ``2 e + ln(1 + r)``, which is at most
  ``2 e + 0.3133`` for ``e >= 1``. So ``e = (epsilon - 0.3133) / 2`` suffices if this number is at least 1.

For the answer "not refined" only the node itself has a loss, which is e.

*Separate tests*: each of at most h tested nodes on a path is refined iff ``c + noise > t``, at ``e = epsilon / h``: h
of them lose at most epsilon. The noise of these tests vanishes as epsilon grows, and they compare counts, which are not
lowered with depth. So in the limit exactly the nodes with more than ``t`` rows are refined. This way is selected from
``epsilon / h = 1`` on.

Two-sided geometric noise on integers shifts like Laplace noise, so the same bounds apply.

Algorithm 18 of Chen 2018, which draws a new noisy threshold for every node and claims the cost of one sparse vector
test, loses up to half its epsilon for each level of the tree, as the tests show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import BoolArray, Int64Array
from spark_jobs.contract.privacy import MAX_DIGITS, Neighbours, exact_decimal
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed

NODE_SHARE = Decimal("0.3873")
"""``(e - 1) / (2e - 1)``, rounded down: the share of epsilon that determines the noise of one node."""
FAR_ABOVE = Decimal("0.3133")
"""``ln(1 + 1/e)``, rounded up: what nodes above the threshold lose together, where the noise of one is small."""


def refined_nodes(
    counts: ArrayLike,
    *,
    threshold: int,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    branching: int = 2,
    meter: BudgetMeter | None = None,
) -> tuple[BoolArray, ...]:
    """Which nodes of the hierarchy over ``counts`` are refined, level by level from the root.

    Guarantee, neighbours and proof: see the module. Noise is drawn for all nodes, so that the running time does not
    depend on the answers.

    Args:
        counts: exact counts of disjoint cells, integers, shape (N,): the leaves. A node of height k groups
            ``branching ** k`` of them, the last node of a level perhaps fewer.
        threshold: the approximate number of rows from which a node is refined; public.
        epsilon: the total cost.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        branching: the number of children of a node, at least 2.
        meter: charged with the cost; None if the caller has already charged it.

    Returns:
        One boolean array for each level above the leaves; a node whose parent is not refined is False.

    Raises:
        ValueError: there are no cells, or a parameter is out of its bounds.
        TypeError: the counts are not integers.
    """
    leaves = np.asarray(counts)
    if leaves.ndim != 1 or not leaves.size:
        raise ValueError(f"counts: got shape {leaves.shape}; must be one row of at least one cell")
    if leaves.dtype.kind not in "iu":
        raise TypeError(f"counts: got {leaves.dtype}; must be integers")
    if branching < 2:
        raise ValueError(f"branching: got {branching}; must be at least 2")
    cost = exact_decimal(epsilon, what="epsilon")
    if meter is not None:
        meter.spend(cost, label="pruning of the hierarchy")
    totals = levels_above(leaves.astype(np.int64), branching)
    parents = [np.arange(level.size) // branching for level in totals[1:]]
    return refined_levels(totals, parents, threshold=threshold, epsilon=cost, neighbours=neighbours, noise=noise)


def refined_levels(
    totals: Sequence[Int64Array],
    parents: Sequence[NDArray[np.intp]],
    *,
    threshold: int,
    epsilon: Decimal,
    neighbours: Neighbours,
    noise: Noise,
) -> tuple[BoolArray, ...]:
    """``refined_nodes`` for any public tree, and for several tables of disjoint rows at once; ``epsilon`` covers all.

    Args:
        totals: exact counts of the levels that may be refined, the root first, each of shape (..., nodes of the level);
            a row is in one node of each level, in one of the tables along the leading axes.
        parents: for each level but the first, the index of each node's parent in the level before.
        threshold: as in ``refined_nodes``.
        epsilon: the total cost.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Returns:
        One boolean array of the shape of each level.
    """
    of_node, step = node_noise(epsilon, neighbours, levels=len(totals))
    answers: list[BoolArray] = []
    for depth, exact in enumerate(totals):
        scores = np.maximum(exact - depth * step, threshold - step) if step else exact
        passed = noise.laplace(scores, epsilon=of_node, l1_sensitivity=1) > threshold
        answers.append(passed & answers[-1][..., parents[depth - 1]] if depth else passed)
    return tuple(answers)


def node_noise(epsilon: Decimal, neighbours: Neighbours, *, levels: int) -> tuple[Decimal, int]:
    """The epsilon of the noise of one node, and the whole number by which scores fall per level; 0 for separate tests.

    Args:
        epsilon: the cost of all tests.
        neighbours: the neighbouring relation.
        levels: how many nodes of a path are tested at most.
    """
    with localcontext(prec=MAX_DIGITS, rounding=ROUND_FLOOR):
        of_path = epsilon / rows_changed(neighbours)
        apart = of_path / max(levels, 1)
        if apart >= 1:
            return apart, 0
        large = (of_path - FAR_ABOVE) / 2
        of_node = large if large >= 1 else min(of_path * NODE_SHARE, Decimal(1))
    return of_node, math.ceil(1 / Fraction(of_node))


def levels_above(leaves: Int64Array, branching: int) -> list[Int64Array]:
    """The totals of every level above the leaves, the root first; empty for a single leaf."""
    levels: list[Int64Array] = []
    below = leaves
    while below.size > 1:
        below = np.add.reduceat(below, np.arange(0, below.size, branching)).astype(np.int64)
        levels.append(below)
    return levels[::-1]
