"""The first stage of DAWA, corrected: a private partition of a line into buckets of nearly equal counts.

Candidates are the aligned dyadic buckets: for every power of two b, cells ``[j b, (j + 1) b)``, truncated at the end of
the line; together they form a binary tree. The cost of a bucket is its deviation ``dev(B) = sum_j |x_j - mean|`` plus a
public penalty; the partition of smallest noisy cost is computed in one pass up the tree.

Sensitivity. Adding or removing one row in a cell of B changes ``dev(B)`` by at most ``D_B = 2 (1 - 1 / |B|)``: the
count of this cell moves by ``1 - 1/|B|`` relative to the mean, that of each other cell by ``1/|B|``. For N cells
``D_max = 2 (1 - 1 / N)``.

Noise: two-sided geometric of scale ``(D_B + D_max) / epsilon`` on **every** candidate, single cells included (their
``D_B`` is 0), and no noisy cost is ever clipped.

Formal guarantee: epsilon-DP when a row is added or removed; with twice the noise when one is replaced.
Proof. Fix a partition P, and let B in P be the bucket that contains the changed cell. Fix the noise of all other
buckets. All partitions that use B contain the same term for B, and their other terms do not change: which of these
partitions is cheapest does not depend on the change. Every other partition has exactly one bucket B' over the changed
cell, and its cost moves by at most ``D_B' <= D_max``. So P is selected iff B's noise is below a threshold that moves by
at most ``D_B + D_max``, and the probability of this changes by a factor of at most ``e^epsilon``; integrate over the
other noise. Penalties are constants and cancel. The argument requires noise of this scale in every bucket B: the
published code adds no noise to single cells, uses half this scale, and clips; its loss exceeds its epsilon without
bound, as the tests show.

Costs are computed in steps of ``1 / STEPS`` by exact integer arithmetic: ``floor(STEPS dev)`` moves by at most
``ceil(STEPS D_B)`` steps, which determines the scale of the noise.
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
"""The largest total of the line, in the costs only; cells are clipped one by one, which does not add sensitivity."""
MAX_NOISE = 2.0**54
"""The largest noise scale times cells: sums of costs overflow with a probability below exp(-2^8), for any epsilon."""
_BLOCK = 1 << 16
_SHORT = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """One level of candidate buckets.

    Attributes:
        length: the number of cells of a bucket.
        last: the number of cells of the last bucket, which may be truncated.
        costs: in steps, without noise or penalty; int64.
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
    """The starts of the buckets of the partition with the smallest noisy cost: ascending, the first one 0.

    Neighbours, sensitivity, guarantee and proof: see the module. O(N log N).

    Args:
        counts: exact counts of disjoint cells, shape (N,).
        epsilon: the total cost.
        penalty: added to the deviation of every bucket, in counts; public.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise, called once for each bucket length.
        steps: lattice steps of costs per count.

    Raises:
        InvalidRequest: epsilon is so small that sums of noisy costs might overflow.
    """
    scale = laplace_scale(epsilon, max(1, rows_changed(neighbours) * 2 * change_in_steps(counts.size, steps)))
    if scale * counts.size > MAX_NOISE:
        raise InvalidRequest(
            "epsilon", epsilon,
            f"must be at least {scale * counts.size / MAX_NOISE * float(epsilon):.0e} for {counts.size} " "cells",
            "give this method more of the budget, or take fewer cells",
        )  # fmt: skip
    levels = candidates(counts, steps=steps)
    own = [noisy_costs(level, counts.size, epsilon, neighbours, noise, steps) for level in levels]
    return cheapest(own, penalty=round(penalty * steps), cells=counts.size)


def noisy_costs(
    level: Candidates, cells: int, epsilon: Cost, neighbours: Neighbours, noise: Noise, steps: int
) -> Int64Array:
    """A level's costs with noise of scale ``(D_B + D_max) / epsilon``, in steps, under ``neighbours``."""

    def noisy(costs: Int64Array, length: int) -> Int64Array:
        change = change_in_steps(length, steps) + change_in_steps(cells, steps)
        return noise.laplace(costs, epsilon=epsilon, l1_sensitivity=max(1, rows_changed(neighbours) * change))

    if level.last == level.length:
        return noisy(level.costs, level.length)
    return np.concatenate([noisy(level.costs[:-1], level.length), noisy(level.costs[-1:], level.last)])


def candidates(counts: Int64Array, *, steps: int = STEPS) -> list[Candidates]:
    """The costs of all candidates: single cells first, then lengths that double up to the whole line."""
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
    """``ceil(2 (1 - 1 / length) steps)``: the sensitivity of the cost of a bucket of ``length`` cells to one row."""
    return -(-2 * (length - 1) * steps // length)


def cheapest(levels: Sequence[Int64Array], *, penalty: int, cells: int) -> Int64Array:
    """The starts of the buckets of the cheapest partition, given noisy costs of all aligned dyadic buckets.

    Ties go to the longer bucket. If the end of the line truncates a bucket to its first half, it has the same cells as
    that half: it then represents the cheapest partition of the half and is not a candidate itself.
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
    """The exact ``floor(steps * sum |x - mean|)`` of each row.

    With ``sum = q m + r``, ``sum |x - q| = 2 sum max(x, q) - 2 q m - r``; the mean is further than q by ``r / m`` from
    each cell of at most q, and nearer by ``r / m`` to the others. Short buckets are transposed, because long inner
    loops are faster.
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
