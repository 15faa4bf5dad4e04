"""Counts of a class by any histogram method, in place of the tree: PriROC's last step.

Privacy. Each class is released by a method that is differentially private for one row added or removed. Under
``ADD_REMOVE`` a row is of one class, and both may have the whole of epsilon (parallel composition). Under
``REPLACE_ONE`` each has half: a replaced row is one removed and one added, of one class (two steps of half of epsilon
each: group privacy) or of both (one step each).
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
"""Methods that add noise of a public law to the counts, whatever these are: what they do to zeros is that law."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HistogramCells:
    """One class, as a histogram method released it.

    Attributes:
        method: a name of ``mechanisms.histograms.METHODS``.
        epsilon: what it cost for one row added or removed.
        cells: estimates of the counts, lowest scores first; possibly negative.
    """

    method: str
    epsilon: Decimal
    cells: FloatArray

    @property
    def noise_is_known(self) -> bool:
        """Whether the law of the error is public: without it there is no band."""
        return self.method in KNOWN_NOISE

    @property
    def scale(self) -> float:
        """Of plain noise in one cell at this cost."""
        return laplace_scale(self.epsilon, 1)

    def counts(self) -> FloatArray:
        """The estimates."""
        return self.cells

    def range_variance(self, first: int, last: int) -> float:
        """What plain noise in each of the cells ``first`` up to, not including, ``last`` adds up to: a yardstick."""
        return (last - first) * laplace_variance(self.scale)

    def errors(self, copies: int, noise: Noise) -> FloatArray:
        """Fresh draws of the error, (copies, cells), where its law is known; ``noise`` is of a public seed."""
        zeros = np.zeros(self.cells.size, dtype=np.int64)
        drawn = [
            release_histogram(zeros, epsilon=self.epsilon, noise=noise, method=self.method).cells for _ in range(copies)
        ]
        return np.stack(drawn)


def histogram_cells(
    counts: Int64Array, *, method: str, epsilon: Decimal, neighbours: Neighbours, noise: Noise
) -> HistogramCells:
    """One of two disjoint classes by a histogram method; both classes together are ``epsilon``-DP (see the module).

    Args:
        counts: exact counts of the class in public cells; private.
        method: a name of ``mechanisms.histograms.METHODS``.
        epsilon: what both classes cost together.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    part = share(epsilon, rows_changed(neighbours))
    released = release_histogram(counts, epsilon=part, neighbours=Neighbours.ADD_REMOVE, noise=noise, method=method)
    return HistogramCells(method=method, epsilon=part, cells=released.cells)
