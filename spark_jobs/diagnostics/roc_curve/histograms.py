"""Counts of a class by a histogram method instead of a tree: the last step of PriROC.

Privacy: each class is released by a method that is differentially private for one row added or removed. Under
``ADD_REMOVE`` a row is in one class, so both classes may spend the whole epsilon (parallel composition). Under
``REPLACE_ONE`` each class spends half of epsilon. A replaced row is one removed and one added row. If both are in the
same class, its counts change by two rows, each at half of epsilon (group privacy). If they are in different classes,
the counts of each class change by one row, at half of epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours, share
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.noise import Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed

KNOWN_NOISE = frozenset({"geometric", "laplace", "hb", "greedy_h"})
"""Methods whose noise has a public distribution that does not depend on the counts, so that zeros can simulate it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HistogramCells:
    """The counts of one class, released by a histogram method.

    Attributes:
        method: a name of ``mechanisms.histograms.methods()``.
        epsilon: cost for one row added or removed.
        cells: estimates of the counts, lowest scores first; possibly negative. Shape (k,).
    """

    method: str
    epsilon: Decimal
    cells: FloatArray

    @property
    def noise_is_known(self) -> bool:
        """Whether the distribution of the error is public, so that there can be bands."""
        return self.method in KNOWN_NOISE

    @property
    def scale(self) -> float:
        """Scale of Laplace noise in one cell at this cost."""
        return laplace_scale(self.epsilon, 1)

    def counts(self) -> FloatArray:
        """The estimated counts."""
        return self.cells

    def range_variance(self, first: int, last: int) -> float:
        """Variance of Laplace noise in the cells ``first`` to ``last - 1`` together; a yardstick for other methods."""
        return (last - first) * laplace_variance(self.scale)

    def errors(self, copies: int, noise: Noise) -> FloatArray:
        """Fresh copies of the error, if its distribution is public; shape (copies, k).

        Args:
            copies: number of copies.
            noise: sampler with a public seed.
        """
        zeros = np.zeros(self.cells.size, dtype=np.int64)
        drawn = [
            release_histogram(zeros, epsilon=self.epsilon, noise=noise, method=self.method).cells for _ in range(copies)
        ]
        return np.stack(drawn)


def histogram_cells(
    counts: Int64Array, *, method: str, epsilon: Decimal, neighbours: Neighbours, noise: Noise
) -> HistogramCells:
    """Release one of two disjoint classes by a histogram method; both together are ``epsilon``-DP (see the module).

    Args:
        counts: exact counts of the class in public cells; private.
        method: a name of ``mechanisms.histograms.methods()``.
        epsilon: cost of both classes together.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    part = share(epsilon, rows_changed(neighbours))
    released = release_histogram(counts, epsilon=part, neighbours=Neighbours.ADD_REMOVE, noise=noise, method=method)
    return HistogramCells(method=method, epsilon=part, cells=released.cells)
