"""HB: a hierarchy of counts with the best branching for its shape (Qardaji, Yang, Li, PVLDB 2013)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy, measured_cells, split_evenly
from spark_jobs.mechanisms.histograms.interface import PublicFacts
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import noisy_tree
from spark_jobs.mechanisms.trees import best_tree

_PLANNED_CELLS = 1 << 14
_BRANCHINGS = (2, 3, 4, 5, 6, 8, 10, 12, 16)
_RECTANGLES = 32


def hb(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """A consistent hierarchy of counts; epsilon-DP for the meter's remaining epsilon.

    On a line, ``noisy_tree`` measures the tree whose prefix counts have the smallest mean variance (``best_tree``). On
    a grid, nodes are squares of b by b nodes of the level below, and the lowest h levels are measured; b and h are
    those with the smallest mean variance over fixed rectangles. A single cell is a hierarchy of one level; so is a flat
    histogram, which is measured if it is best.

    Sensitivity: a row lies in one node of each of the h measured levels, each of which is measured at epsilon / h; the
    1-norm sensitivity of all measured nodes is h when a row is added or removed and 2 h when one is replaced. A public
    total is an exact root, which is not measured.
    """
    epsilon = meter.spend_rest(label="hierarchy of counts")
    if counts.ndim == 1:
        tree = best_tree(counts.size, public_total=facts.total is not None)
        if tree.cells > 1 or tree.root != "public":
            return noisy_tree(counts, tree=tree, epsilon=epsilon, neighbours=neighbours, noise=noise).counts()
        return counts.astype(np.float64)
    branching, measured = best_squares(counts.shape[0], counts.shape[1])
    hierarchy = Hierarchy.grid((counts.shape[0], counts.shape[1]), branching=branching)
    public_total = facts.total is not None and hierarchy.levels > 1
    levels = min(measured, hierarchy.levels - public_total)
    epsilons = (*split_evenly(epsilon, levels), *[epsilon * 0] * (hierarchy.levels - levels))
    return measured_cells(
        hierarchy, counts, epsilons=epsilons, neighbours=neighbours, noise=noise, public_total=public_total
    )


@lru_cache(maxsize=64)
def best_squares(rows: int, columns: int) -> tuple[int, int]:
    """The branching and the number of measured levels with the smallest mean variance over fixed rectangles of a grid.

    The choice depends only on the public shape. For grids of more than 2^14 cells it is made on a smaller grid of the
    same proportions.
    """
    shrink = max(1.0, math.sqrt(rows * columns / _PLANNED_CELLS))
    shape = max(1, round(rows / shrink)), max(1, round(columns / shrink))
    queries = _rectangles(shape)
    best, lowest = (2, 1), math.inf
    for branching in _BRANCHINGS:
        hierarchy = Hierarchy.grid(shape, branching=branching)
        for measured in range(1, hierarchy.levels + 1):
            variances = [1.0] * measured + [math.inf] * (hierarchy.levels - measured)
            mean = float(np.mean([hierarchy.variance(query, variances) for query in queries])) * measured**2
            if mean < lowest * (1 - 1e-9):
                best, lowest = (branching, measured), mean
    return best


def _rectangles(shape: tuple[int, int]) -> list[FloatArray]:
    """Fixed rectangles of all sizes and positions, from a low-discrepancy sequence, as weights on the cells."""
    root = 1.1673039782614187  # Roberts' R4: the positive solution of x^5 = x + 1
    index = np.arange(1, _RECTANGLES + 1)
    corners = np.stack([(0.5 + index / root**power) % 1 for power in range(1, 5)], axis=1)
    rectangles = []
    for top, bottom, left, right in corners:
        weights = np.zeros(shape)
        rows, columns = (
            sorted((int(a * n), int(b * n))) for a, b, n in ((top, bottom, shape[0]), (left, right, shape[1]))
        )
        weights[rows[0] : rows[1] + 1, columns[0] : columns[1] + 1] = 1.0
        rectangles.append(weights.reshape(-1))
    return rectangles
