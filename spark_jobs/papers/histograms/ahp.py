"""AHP: cells with nearly equal noisy counts, wherever they lie, share one measurement.

Specification (Zhang, Chen, Xu, Meng, Xie, *Towards accurate histogram publication under differential privacy*, SDM
2014). Let N be the number of cells, epsilon = epsilon_1 + epsilon_2, and r the 1-norm sensitivity of the counts, 1 or
2.

1. ``y_i = x_i + noise`` of scale ``r / epsilon_1`` in every cell; ``y_i = 0`` where
   ``y_i <= THRESHOLD r ln(N) / epsilon_1``.
2. Sort the y. Cut the sorted line into clusters so that the sum over clusters C of ``sum_{i in C} (y_i - mean_C y)^2 +
   V / |C|`` is smallest, where V is the variance of the noise of step 3. If step 1 were exact, this would be the
   expected squared error of C's cells. Cells with equal y stay together.
3. For each cluster ``t_C = sum_{i in C} x_i + noise`` of scale ``r / epsilon_2``; every cell of C is estimated by
   ``t_C / |C|``. If the total is public, the t_C are first adjusted by equal amounts, so that they add up to the total.

Formal guarantee: epsilon-DP under either relation.
Proof. The cells are disjoint: step 1 is epsilon_1-DP, as their vector changes by r in 1-norm. Step 2 uses only the
released y and public numbers. Given y, the clusters are a fixed partition of the cells, and their sums change by at
most r in 1-norm: step 3 is epsilon_2-DP, and the two compose by adaptive sequential composition. The proof would fail
if the threshold, the order or the clusters depended on x in any other way than through y.

The published clustering is greedy. Here it is optimal: the cost of a cluster of the sorted line has the Monge property,
so the best last cut does not move left as the line grows, and a queue of candidates takes O(V log V) for V distinct
values of y.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from functools import partial

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.interface import PublicFacts
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed

CLUSTERING_SHARE = Decimal("0.8")
THRESHOLD = 0.35


def ahp(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """Cells clustered by noisy counts, with a noisy total for each cluster; epsilon-DP for what the meter has left.

    Sensitivity and proof: see the module. Cost: a share of the budget for the clusters, the rest for their totals.
    """
    rows = rows_changed(neighbours)
    first = meter.spend_share(CLUSTERING_SHARE, label="clusters of cells")
    second = meter.spend_rest(label="totals of clusters")
    noisy = noise.laplace(counts.reshape(-1), epsilon=first, l1_sensitivity=rows)
    clusters = cluster_cells(
        noisy,
        threshold=THRESHOLD * math.log(counts.size) * laplace_scale(first, rows),
        variance=laplace_variance(laplace_scale(second, rows)),
    )
    sizes = np.bincount(clusters)
    exact = np.zeros(sizes.size, dtype=np.int64)
    np.add.at(exact, clusters, counts.reshape(-1))
    totals = noise.laplace(exact, epsilon=second, l1_sensitivity=rows).astype(np.float64)
    if facts.total is not None:
        totals += (facts.total - totals.sum()) / totals.size
    estimates: FloatArray = (totals / sizes)[clusters].reshape(counts.shape)
    return estimates


def cluster_cells(noisy: Int64Array, *, threshold: float, variance: float) -> NDArray[np.intp]:
    """The cluster of each cell, numbered by ascending count; a function of released counts and public numbers.

    Args:
        noisy: noisy counts, shape (N,).
        threshold: counts up to this are set to 0.
        variance: of the noise in the total of each cluster.
    """
    kept = np.where(noisy <= threshold, 0, noisy).astype(np.float64)
    values, place, repeats = np.unique(kept, return_inverse=True, return_counts=True)
    starts = best_cuts(values, repeats, variance)
    cluster = np.zeros(values.size, dtype=np.intp)
    cluster[starts[1:]] = 1
    return np.asarray(np.cumsum(cluster)[place.reshape(-1)], dtype=np.intp)


def best_cuts(values: FloatArray, repeats: NDArray[np.intp], variance: float) -> list[int]:
    """The starts of the clusters of consecutive values for which the sum of the clusters' costs is smallest.

    Dynamic programming over the end of the last cluster. Each entry of the queue is a pair: a start of the last
    cluster, and the first end from which on this start is the best one. Later entries are for later ends.

    Args:
        values: ascending.
        repeats: the number of cells that have each value.
        variance: of the noise of a cluster's total.
    """
    cost = _cluster_cost(values, repeats, variance)
    size = values.size
    best, back = [0.0] * (size + 1), [0] * (size + 1)
    queue: deque[tuple[int, int]] = deque([(0, 1)])

    def wins(start: int, other: int, end: int) -> bool:
        return best[start] + cost(start, end) < best[other] + cost(other, end)

    for end in range(1, size + 1):
        while len(queue) > 1 and queue[1][1] <= end:
            queue.popleft()
        back[end] = queue[0][0]
        best[end] = best[back[end]] + cost(back[end], end)
        while len(queue) > 1 and wins(end, *queue[-1]):
            queue.pop()
        rival, since = queue[-1]
        ends = range(max(since, end + 1), size + 1)
        turn = bisect_left(ends, True, key=partial(wins, end, rival))
        if turn < len(ends):
            queue.append((end, ends[turn]))
    starts = [back[size]]
    while starts[-1]:
        starts.append(back[starts[-1]])
    return starts[::-1]


def _cluster_cost(values: FloatArray, repeats: NDArray[np.intp], variance: float) -> Callable[[int, int], float]:
    """``sum (y - mean)^2 + variance / cells`` of the values from a start up to an end."""
    # centred on the middle value, to avoid cancellation
    centred = values - values[values.size // 2]
    cells, sums, squares = (
        np.concatenate([[0.0], np.cumsum(repeats * centred**power)]).tolist() for power in (0, 1, 2)
    )

    def cost(start: int, end: int) -> float:
        inside, total = cells[end] - cells[start], sums[end] - sums[start]
        return float(max(squares[end] - squares[start] - total * total / inside, 0.0) + variance / inside)

    return cost
