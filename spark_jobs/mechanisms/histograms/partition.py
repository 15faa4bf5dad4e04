"""DAWA's first stage, corrected: a private partition of a line into buckets of nearly equal counts.

Candidates are the aligned dyadic buckets: for every power of two b, cells ``[j b, (j + 1) b)``, cut off at the end of
the line; together they make a binary tree. A bucket's cost is its deviation ``dev(B) = sum_j |x_j - mean|`` plus a
public penalty; the partition of least noisy cost is found in one pass up the tree.

Sensitivity. One row more or less in a cell of B changes ``dev(B)`` by at most ``D_B = 2 (1 - 1 / |B|)``: the cell moves
by ``1 - 1/|B|`` against the mean, each of the others by ``1/|B|``. For N cells ``D_max = 2 (1 - 1 / N)``.

Noise: two-sided geometric of scale ``(D_B + D_max) / epsilon`` on **every** candidate, single cells included (their
``D_B`` is 0), and no noisy cost is ever clipped.

Formal guarantee: epsilon-DP when a row is added or removed; with twice the noise when one is replaced.
Proof. Fix a partition P, and let B in P be the bucket that holds the changed cell. Fix the noise of all other buckets.
Partitions that use B have the same term for B, and nothing else in them changes: which of them is least does not depend
on the change. Every other partition holds exactly one other bucket B' over that cell, and its cost moves by at most
``D_B' <= D_max``. So P wins iff B's noise is below a threshold that moves by at most ``D_B + D_max``, and the chance of
that changes by ``e^epsilon`` at most; integrate over the other noise. Penalties are constants and drop out.
The argument needs B to have noise, and all of it: the published code leaves single cells bare, has half this scale,
and clips; its loss is above its epsilon without bound (the tests show it).

Costs are counted in steps of ``1 / STEPS`` by exact integer arithmetic: ``floor(STEPS dev)`` moves by at most
``ceil(STEPS D_B)`` steps, which is what the noise is scaled to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale
from spark_jobs.mechanisms.prefix_sums import rows_changed

STEPS = 1 << 10
_MAX_TOTAL = 1 << 50
"""Cells of the line together, in the costs alone; larger counts are clipped one by one, which moves no row further."""
MAX_NOISE = 2.0**54
"""Noise scale times cells: sums of costs then leave int64 with a chance below exp(-2^8), whatever epsilon is."""
_BLOCK = 1 << 16
_SHORT = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """One level of candidate buckets.

    Attributes:
        length: cells of a bucket.
        last: cells of the last bucket; fewer where the line ends in it.
        costs: in steps, without noise or penalty. int64.
    """

    length: int
    last: int
    costs: Int64Array


def private_partition(
    counts: Int64Array,
    *,
    epsilon: Cost,
    penalty: float,
    neighbours: Neighbours,
    noise: Noise,
    steps: int = STEPS,
) -> Int64Array:
    """Where the buckets of the least noisy cost begin: ascending, the first of them 0.

    Neighbours, sensitivity, guarantee and proof: the module's. O(N log N).

    Args:
        counts: exact counts of disjoint cells, shape (N,).
        epsilon: the total cost.
        penalty: what every bucket costs besides its deviation, in counts; public.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise, called once for each length of buckets.
        steps: of the lattice of costs, in one count.

    Raises:
        InvalidRequest: epsilon is so small that sums of noisy costs might leave int64.
    """
    scale = laplace_scale(epsilon, max(1, rows_changed(neighbours) * 2 * change_in_steps(counts.size, steps)))
    if scale * counts.size > MAX_NOISE:
        raise InvalidRequest(
            "epsilon",
            value=epsilon,
            requirement=f"must be at least {scale * counts.size / MAX_NOISE * float(epsilon):.0e} for {counts.size} "
            "cells",
            remedy="give this method more of the budget, or take fewer cells",
        )
    levels = candidates(counts, steps=steps)
    own = [noisy_costs(level, counts.size, epsilon, neighbours, noise, steps) for level in levels]
    return cheapest(own, penalty=round(penalty * steps), cells=counts.size)


def noisy_costs(
    level: Candidates, cells: int, epsilon: Cost, neighbours: Neighbours, noise: Noise, steps: int
) -> Int64Array:
    """A level's costs with noise of ``(D_B + D_max) / epsilon``, in steps, under the relation."""

    def noisy(costs: Int64Array, length: int) -> Int64Array:
        change = change_in_steps(length, steps) + change_in_steps(cells, steps)
        return noise.laplace(costs, epsilon=epsilon, l1_sensitivity=max(1, rows_changed(neighbours) * change))

    if level.last == level.length:
        return noisy(level.costs, level.length)
    return np.concatenate([noisy(level.costs[:-1], level.length), noisy(level.costs[-1:], level.last)])


def candidates(counts: Int64Array, *, steps: int = STEPS) -> list[Candidates]:
    """The costs of all candidates, cells first, doubling the length up to the whole line."""
    cells = np.clip(counts, -(_MAX_TOTAL // counts.size), _MAX_TOTAL // counts.size)
    levels = [Candidates(length=1, last=1, costs=np.zeros(cells.size, dtype=np.int64))]
    while levels[-1].length < cells.size:
        length = 2 * levels[-1].length
        whole = cells.size - cells.size % length
        block = max(length, _BLOCK)
        costs = [
            _deviations(cells[start : min(start + block, whole)].reshape(-1, length), steps)
            for start in range(0, whole, block)
        ]
        if whole < cells.size:
            costs.append(_deviations(cells[whole:].reshape(1, -1), steps))
        levels.append(Candidates(length=length, last=cells.size - whole or length, costs=np.concatenate(costs)))
    return levels


def change_in_steps(length: int, steps: int) -> int:
    """``ceil(2 (1 - 1 / length) steps)``: how far one row moves the cost of a bucket of that many cells."""
    return -(-2 * (length - 1) * steps // length)


def cheapest(levels: Sequence[Int64Array], *, penalty: int, cells: int) -> Int64Array:
    """Where the buckets of the cheapest partition begin, given noisy costs of all aligned dyadic buckets.

    Ties go to the longer bucket. Where the end of the line leaves a bucket with one half alone, it is the same set of
    cells as that half: it stands for the cheapest partition below, and is no candidate of its own.
    """
    best = levels[0] + penalty
    split: list[np.ndarray] = [np.zeros(best.size, dtype=bool)]
    for costs in levels[1:]:
        pairs = best.size // 2
        halves = best[0 : 2 * pairs : 2] + best[1 : 2 * pairs : 2]
        whole = costs[:pairs] + penalty
        split.append(np.append(halves < whole, np.ones(best.size % 2, dtype=bool)))
        best = np.append(np.minimum(halves, whole), best[2 * pairs :])
    reached = np.ones(1, dtype=bool)
    starts = []
    for level in range(len(levels) - 1, -1, -1):
        ends_here = reached & ~split[level]
        starts.append(np.flatnonzero(ends_here) << level)
        if level:
            reached = np.repeat(reached & split[level], 2)[: split[level - 1].size]
    return np.sort(np.concatenate(starts)).astype(np.int64)


def _deviations(buckets: Int64Array, steps: int) -> Int64Array:
    """``floor(steps * sum |x - mean|)`` of each row, exactly.

    With ``sum = q m + r``, ``sum |x - q| = 2 sum max(x, q) - 2 q m - r``; the mean is ``r / m`` further from each cell
    of at most q, and so much nearer to the others. Short buckets are laid in columns: long inner loops are fast.
    """
    length = buckets.shape[1]
    axis = 0 if length <= _SHORT else 1
    laid = np.ascontiguousarray(buckets.T) if axis == 0 else buckets
    quotient, remainder = np.divmod(laid.sum(axis=axis), length)
    q = np.expand_dims(quotient, axis)
    above = np.maximum(laid, q)
    high = above.sum(axis=axis)
    not_above = np.maximum(laid, q + 1, out=above).sum(axis=axis) - high
    around: Int64Array = (2 * (high - length * quotient) - remainder) * steps
    part: Int64Array = remainder * (2 * not_above - length) * steps // length
    return around + part
