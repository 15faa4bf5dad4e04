"""Quantiles and recursive medians from counts on a public grid.

Where a tree of counts is released anyway, its quantiles are free by post-processing: ``tree_quantiles``.
``recursive_medians`` and ``private_quantile`` release quantiles and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, exact_decimal, share
from spark_jobs.mechanisms.continuous_noise import RESIDUAL_DELTA, PublicGrid, SmoothNoise, polynomial_noise
from spark_jobs.mechanisms.median_bounds import Line, part_medians
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, monotone
from spark_jobs.mechanisms.selection import permute_and_flip, permute_and_flip_runs
from spark_jobs.mechanisms.smooth_sensitivity import whole_counts

MAX_LEVELS = 16
MAX_DENOMINATOR = 10**6


@dataclass(frozen=True, kw_only=True)
class RecursiveMedians:
    """The result of ``recursive_medians``.

    Attributes:
        thresholds: ``2^levels - 1`` boundaries between cells, ascending, from 0 to k, int64: threshold t lies before
            cell t.
        fallbacks: the number of thresholds that are midpoints because the noisy median was outside its interval, or
            because the interval had no boundary inside; a function of the noisy medians, hence public.
    """

    thresholds: Int64Array
    fallbacks: int


def recursive_medians(
    cells: ArrayLike,
    *,
    levels: int,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    rate_share: float = 0.2,
    meter: BudgetMeter | None = None,
) -> RecursiveMedians:
    """Split the rows at a private median, then each part again, to a depth of ``levels``.

    Formal guarantee: ``(epsilon, d * RESIDUAL_DELTA)``-DP, where d is ``levels`` under ADD_REMOVE and ``2 levels``
    under REPLACE_ONE. Each level has ``epsilon / levels``. The nodes of a level hold disjoint parts of the rows, given
    the thresholds above them, which are released. Under ADD_REMOVE one node per level contains the row, and each node
    spends the level's share. Under REPLACE_ONE two nodes per level may contain the old and the new row, and each node
    spends half of the share; only the root, which is a single node, spends all of its share (Chen, Machanavajjhala,
    Reiter, Barrientos 2017, algorithm 2; its smoothing rate and noise exceed their share and are not used here). The
    sensitivity of a node's median has the smooth bound ``median_bound``, which is valid for added, removed and replaced
    rows; for empty nodes the median is defined as well and gets the same noise.

    With few rows a deep recursion returns midpoints; see ``fallbacks``.

    Args:
        cells: counts, shape (k,), k public and at least 1.
        levels: 1 to 16.
        epsilon: the total cost.
        neighbours: one row added or removed, or one replaced.
        noise: source of the random bits (``SecureNoise`` in production).
        rate_share: the parameter of ``polynomial_noise``.
        meter: charged with the cost; None if the caller has already charged it.

    Raises:
        InvalidRequest: ``levels`` is out of bounds, or the epsilon of a node is above 10 or too small.
        ValueError: the counts are not a one-dimensional array of whole numbers.
    """
    if not 1 <= levels <= MAX_LEVELS:
        raise InvalidRequest(
            "levels", levels, f"must be from 1 to {MAX_LEVELS}", "choose a depth of the recursion in this range"
        )
    counts = whole_counts(cells)
    total = exact_decimal(epsilon, what="epsilon")
    shapes = [polynomial_noise(part, rate_share=rate_share) for part in node_budgets(total, levels, neighbours)]
    if meter is not None:
        nodes = 1 if neighbours is Neighbours.ADD_REMOVE else 2
        meter.spend(total, delta=levels * nodes * RESIDUAL_DELTA, label="recursive medians")
    line, edges, fallbacks = Line.of(counts), np.array([0, counts.size]), 0
    for shape in shapes:
        inner, fell_back = _split_all(line, edges, shape, noise)
        edges = np.append(np.column_stack([edges[:-1], inner]), edges[-1])
        fallbacks += fell_back
    return RecursiveMedians(thresholds=edges[1:-1], fallbacks=fallbacks)


def node_budgets(epsilon: Decimal, levels: int, neighbours: Neighbours) -> list[Decimal]:
    """The epsilon of one node at each level, the root first; the path of a row never costs more than ``epsilon``."""
    level = share(epsilon, levels)
    deeper = level if neighbours is Neighbours.ADD_REMOVE else share(level, 2)
    return [level, *[deeper] * (levels - 1)]


def private_quantile(
    cells: ArrayLike,
    *,
    level: Cost,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    meter: BudgetMeter | None = None,
) -> int:
    """The cell that holds the ``level`` quantile, by permute-and-flip.

    With ``level = a / b`` in lowest terms and running sums C, the score of cell y is minus the distance of the target
    from the cell: ``-max(b C_{y-1} - a n, a n - b C_y, 0)``. Sensitivity: an added or removed row changes ``b C - a n``
    by ``b - a`` or ``-a``, so scores change by at most ``max(a, b - a)``; a replaced row changes only C, so scores
    change by at most b.
    Formal guarantee: ``epsilon``-DP under ``neighbours``, by ``selection.permute_and_flip``.

    Args:
        cells: counts, shape (k,), k public and at least 1.
        level: a number in [0, 1], read exactly, with a denominator of at most 10^6.
        epsilon: the total cost.
        neighbours: one row added or removed, or one replaced.
        noise: source of the random bits (``SecureNoise`` in production).
        meter: charged with the cost; None if the caller has already charged it.

    Raises:
        InvalidRequest: ``level`` or ``epsilon`` is out of bounds.
        ValueError: the counts are not one-dimensional.
    """
    target = quantile_target(level)
    return permute_and_flip(
        quantile_scores(cells, target),
        epsilon=epsilon,
        l_inf_sensitivity=quantile_sensitivity(target, neighbours),
        noise=noise,
        meter=meter,
    )


def sparse_quantile(
    cells: Int64Array,
    counts: Int64Array,
    *,
    size: int,
    level: Cost,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
) -> int:
    """``private_quantile`` of counts most of which are 0: the same choice, from the same random words.

    All cells between two neighbouring cells with rows have equal scores, so that one score is computed for each such
    run.

    Args:
        cells: the indices of the cells with rows, ascending, from 0 to ``size - 1``; shape (k,).
        counts: the numbers of rows in these cells, above 0; shape (k,).
        size: the number of cells, public, from 1 to 2^22.
        level: as in ``private_quantile``.
        epsilon: the total cost.
        neighbours: one row added or removed, or one replaced.
        noise: source of the random bits (``SecureNoise`` in production).

    Raises:
        InvalidRequest: ``level`` or ``epsilon`` is out of bounds.
    """
    target = quantile_target(level)
    starts = np.column_stack([cells, cells + 1]).ravel()
    runs = np.zeros(2 * cells.size + 1, dtype=np.int64)
    runs[1::2] = counts
    lengths = np.diff(np.concatenate([[0], starts, [size]]))
    kept = lengths > 0
    return permute_and_flip_runs(
        quantile_scores(runs, target)[kept],
        lengths[kept],
        epsilon=epsilon,
        l_inf_sensitivity=quantile_sensitivity(target, neighbours),
        noise=noise,
    )


def tree_quantiles(tree: NoisyTree, levels: Sequence[Cost]) -> Int64Array:
    """The cells that hold the quantiles of ``levels``, computed from a released tree; non-decreasing in the level.

    Post-processing, without further cost. The quantile of level q is the first cell at which the monotone estimate of
    the prefix counts reaches the share q of the estimated total. If the estimated total is below 1, every quantile is
    the middle cell.

    Args:
        tree: a measured tree over k cells.
        levels: each in [0, 1].

    Returns:
        Cells in [0, k), shape (len(levels),).

    Raises:
        InvalidRequest: a level is outside its bounds.
    """
    shares = np.array([float(quantile_target(level)) for level in levels])
    upto = monotone(tree.prefix_counts(), upper=tree.total)[1:]
    if upto[-1] < 1:
        return np.full(shares.size, tree.tree.cells // 2, dtype=np.int64)
    # rounding must not add a row to a whole number of rows
    reached = np.searchsorted(upto, shares * upto[-1] * (1 - 1e-12))
    cells: Int64Array = np.minimum(reached, tree.tree.cells - 1).astype(np.int64)
    return cells


def quantile_target(level: Cost) -> Fraction:
    """``level`` as a fraction.

    Raises:
        InvalidRequest: it is not in [0, 1], or its denominator is above 10^6.
    """
    target = Fraction(exact_decimal(level, what="level"))
    if not 0 <= target <= 1 or target.denominator > MAX_DENOMINATOR:
        raise InvalidRequest("level", level, "must be in [0, 1] with at most 6 decimals", "give e.g. '0.25'")
    return target


def quantile_scores(cells: ArrayLike, target: Fraction) -> Int64Array:
    """The private scores of ``private_quantile``, shape (k,)."""
    counts = np.asarray(cells, dtype=np.int64)
    upto = np.cumsum(counts)
    goal = target.numerator * int(upto[-1])
    beyond = np.maximum(target.denominator * (upto - counts) - goal, goal - target.denominator * upto)
    return np.asarray(np.minimum(-beyond, 0), dtype=np.int64)


def quantile_sensitivity(target: Fraction, neighbours: Neighbours) -> int:
    """The largest change of a score of ``private_quantile`` by one row."""
    if neighbours is Neighbours.ADD_REMOVE:
        return max(target.numerator, target.denominator - target.numerator)
    return target.denominator


def rings(cell: int, cells: int) -> Int64Array:
    """The edges of rings around a cell, ascending from 0 to ``cells``: the widths double with every ring.

    Args:
        cell: the released cell.
        cells: number of cells.
    """
    reach = 2 ** np.arange(cells.bit_length() + 1) - 1
    edges = np.concatenate([cell - reach, cell + 1 + reach])
    return np.unique(np.clip(edges, 0, cells)).astype(np.int64)


def _split_all(line: Line, edges: Int64Array, shape: SmoothNoise, noise: Noise) -> tuple[Int64Array, int]:
    """A threshold in each part, and the number of midpoints among them."""
    start, widths = edges[:-1], np.diff(edges)
    thresholds = start + widths // 2
    # the right end of a part with at most one cell
    thresholds[widths <= 1] = edges[1:][widths <= 1]
    split = np.flatnonzero(widths > 1)
    if not split.size:
        return thresholds, widths.size
    private = part_medians(line, edges, smoothness=shape.smoothness)
    medians = [Decimal(doubled) / 2 for doubled in private.doubled[split].tolist()]
    # the grid counts cells from the start of the part; the end of the line is beyond every part
    grid = PublicGrid(lower=0, upper=int(edges[-1]), steps=int(edges[-1]))
    noisy = shape.release(medians, private.bounds[split].tolist(), grid=grid, noise=noise).astype(np.int64)
    inside = (noisy > 0) & (noisy < widths[split])
    kept = split[inside]
    thresholds[kept] = start[kept] + noisy[inside]
    return thresholds, widths.size - kept.size
