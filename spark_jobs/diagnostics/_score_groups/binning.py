"""Bins of scores, and the groups of bins that are counted together.

A release shows bins with nearly equal numbers of rows; the request sets how many. A group is a run of bins that is
counted as one; there are fewer groups than bins if rows times epsilon is small. Bins and groups depend only on the
request and on noisy counts that were paid for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics._score_cells import locate_rows
from spark_jobs.mechanisms.cells import NoisyCells, equal_depth, equal_width, noisy_cells, totals
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import monotone, noisy_tree, rows_changed
from spark_jobs.mechanisms.quantiles import node_budgets, private_quantile
from spark_jobs.mechanisms.sparse_vector import merge_cells
from spark_jobs.mechanisms.trees import best_tree

AGAIN_SHARE, TREE_SHARE = Decimal("0.12"), Decimal("0.06")
"""Shares of the budget for a second histogram of the same cells, where the first one shows few rows, and for a tree."""
HISTOGRAM_CELLS = 24
REFINING_COST, REFINING_SHARES = 80, (0.04, 0.08)
"""A refined histogram gets this cost over the signal as its share of the budget, within these bounds."""
REFINING_SIGNAL, FULL_GRID_SIGNAL = 500, 200_000
"""Rows times epsilon from which a refined histogram, and a tree over the whole grid, are worth their cost."""
SIZE_SHARE, MEDIANS_SHARE, MERGING_SHARE = Decimal("0.05"), Decimal("0.15"), Decimal("0.15")
FAILURE = 0.1
"""Probability that a merged group is smaller than half an average bin. (Chen 2018 printed 0.9, at which nine of ten
groups may be smaller.)"""
MIN_GROUPS = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class Placement:
    """Where bins and groups lie.

    Attributes:
        bins: edges of the bins, as cuts of the grid; their number is fixed by the request.
        ends: for each group, the number of bins up to its end; ascending, the last is the number of all bins.
        located: the noisy histograms of ``auto``; a noisy tree is not among them.
    """

    bins: Int64Array
    ends: Int64Array
    located: tuple[NoisyCells, ...] = ()

    @property
    def cuts(self) -> Int64Array:
        """Edges of the groups, as cuts of the grid."""
        return np.concatenate([self.bins[:1], self.bins[self.ends]])


def bins_by_noisy_histogram(
    counts: Int64Array, bins: int, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> Placement:
    """Bins of near-equal depth by one to three noisy histograms, or by a noisy tree if there are many rows.

    Privacy: each histogram counts disjoint cells, which the earlier ones placed; they compose sequentially, as does the
    tree.

    Args:
        counts: exact counts of the fine cells, both classes together; private.
        bins: number of bins, at most the number of fine cells.
        meter: pays for the histograms.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    grid = counts.size
    located, signal = locate_rows(counts, again=AGAIN_SHARE, meter=meter, neighbours=neighbours, noise=noise)
    histogram = located[-1]
    if signal >= FULL_GRID_SIGNAL:
        cuts = _by_tree(counts, bins, meter=meter, neighbours=neighbours, noise=noise)
    else:
        if signal >= REFINING_SIGNAL:
            edges = equal_depth(histogram.cuts, histogram.weights(), grid=grid, cells=min(HISTOGRAM_CELLS, grid))
            portion = Decimal(round(min(max(REFINING_COST / signal, REFINING_SHARES[0]), REFINING_SHARES[1]), 6))
            cost = meter.spend_share(round(portion, 6), label="where the scores lie, closer")
            histogram = noisy_cells(counts, edges, epsilon=cost, neighbours=neighbours, noise=noise)
            located += (histogram,)
        cuts = equal_depth(
            histogram.cuts, histogram.weights(), grid=grid, cells=bins, keep_edges=bins < HISTOGRAM_CELLS // 2
        )
    groups = groups_for(signal, bins)
    ends = np.arange(1, groups + 1, dtype=np.int64) * bins // groups
    return Placement(bins=cuts, ends=ends, located=located)


def groups_for(signal: float, bins: int) -> int:
    """Number of groups that balances noise and resolution; at most one for each bin.

    Args:
        signal: rows times epsilon, both released.
        bins: number of bins of the request.
    """
    return min(bins, max(MIN_GROUPS, math.ceil(0.45 * math.pow(signal, 0.4))))


def bins_by_medians(
    counts: Int64Array, bins: int, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> Placement:
    """Recursive medians, merged until each group has enough rows: the first two steps of PriBRP, corrected.

    Privacy: three steps compose sequentially. They are a noisy size of the table, ``log2(bins)`` levels of medians, and
    the merging of nested counts (``merge_cells``). An added or removed row takes part in one median of each level, a
    replaced row in two (one at the root). Permute-and-flip chooses the medians: it is ``epsilon``-DP without a delta,
    and stays accurate where smooth sensitivity falls back on midpoints.

    Args:
        counts: exact counts of the fine cells, both classes together; private.
        bins: number of bins: a power of two, at most the number of fine cells.
        meter: pays for all steps.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    everything = np.array([0, counts.size], dtype=np.int64)
    cost = meter.spend_share(SIZE_SHARE, label="noisy size")
    rows = noisy_cells(counts, everything, epsilon=cost, neighbours=neighbours, noise=noise).total
    levels = bins.bit_length() - 1
    cost = meter.spend_share(MEDIANS_SHARE, label=f"{levels} levels of medians")
    edges = [0, counts.size]
    for depth, budget in enumerate(node_budgets(cost, levels, neighbours)):
        edges = _halve(counts, edges, bins >> (depth + 1), budget, neighbours, noise)
    cuts = np.array(edges, dtype=np.int64)
    cost = meter.spend_share(MERGING_SHARE, label="merging of small bins")
    threshold = max(rows, 1.0) / (2 * bins) + 2 * rows_changed(neighbours) * math.log(2 / FAILURE) / float(cost)
    ends = merge_cells(totals(counts, cuts), threshold=threshold, epsilon=cost, neighbours=neighbours, noise=noise)
    return Placement(bins=cuts, ends=np.array(ends, dtype=np.int64))


def _halve(
    counts: Int64Array, edges: list[int], below: int, epsilon: Decimal, neighbours: Neighbours, noise: Noise
) -> list[int]:
    """Cut every interval at a private median, with at least ``below`` cells on each side, so that no bin is empty."""
    split = [edges[0]]
    for start, end in pairwise(edges):
        median = private_quantile(counts[start:end], level="0.5", epsilon=epsilon, neighbours=neighbours, noise=noise)
        split += [min(max(start + median + 1, start + below), end - below), end]
    return split


def _by_tree(counts: Int64Array, bins: int, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise) -> Int64Array:
    """Cuts at the quantiles of a consistent noisy tree over the whole grid."""
    cost = meter.spend_share(TREE_SHARE, label="quantiles of the scores")
    tree = noisy_tree(counts, tree=best_tree(counts.size), epsilon=cost, neighbours=neighbours, noise=noise)
    below = monotone(tree.prefix_counts())
    order = np.arange(1, bins, dtype=np.int64)
    inner = np.searchsorted(below, order / bins * below[-1] * (1 - 1e-12))
    inner = np.maximum.accumulate(np.clip(inner, order, counts.size - bins + order) - order) + order
    return np.concatenate([[0], inner, [counts.size]])


def bins_of_equal_width(grid: int, bins: int) -> Placement:
    """Bins of equal width, each its own group; they are public, so they cost nothing."""
    return Placement(bins=equal_width(grid, bins), ends=np.arange(1, bins + 1, dtype=np.int64))
