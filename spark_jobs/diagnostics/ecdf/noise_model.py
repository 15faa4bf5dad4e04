"""The errors of an ECDF's fractions that noise causes: exact variances, and the largest error by simulation.

With noisy prefix counts ``G_i + e_i`` and a noisy total ``n' = n + e_N``, the fraction ``h_i = (G_i + e_i) / n'`` is
off by exactly ``(e_i - F_i e_N) / n'``. The noise's distribution is public and ``n'`` is released, so the only
approximation is the released fraction in place of ``F_i``; with a public total, ``e_N = 0`` and none is needed.

The bound on the largest error also covers the released, monotone fractions: neither isotonic regression nor clipping
increases the largest distance to a monotone sequence (Yang, Barber 2019, theorem 1; ``mechanisms.smoothing``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance
from spark_jobs.mechanisms.trees import Tree

COPIES, CHUNK_VALUES = 200, 4_000_000
"""Simulated copies of the noise, and the number of values simulated at a time, which bounds memory."""


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """The public distribution of the noise in released fractions.

    Attributes:
        tree: shape of the tree of measured counts, over N cells.
        scale: scale of the two-sided geometric noise in each count.
        rows: released number of rows, by which prefix counts were divided; at least 1.
    """

    tree: Tree
    scale: float
    rows: float

    def stddevs(self, cdf: FloatArray) -> FloatArray:
        """Standard deviations of the fractions ``cdf``, those of the first 1, ..., N cells; shape (N,)."""
        variances, covariances = self.tree.prefix_variances, self.tree.prefix_total_covariances
        of_ratio = variances[1:] - 2 * cdf * covariances[1:] + cdf**2 * self._total_variance
        return np.sqrt(np.maximum(of_ratio, 0.0) * laplace_variance(self.scale)) / self.rows

    @property
    def _total_variance(self) -> float:
        return 0.0 if self.tree.root == "public" else float(self.tree.prefix_variances[-1])

    @property
    def total_stddev(self) -> float:
        """Standard deviation of the number of rows."""
        return float(np.sqrt(self._total_variance * laplace_variance(self.scale)))

    def errors(self, cdf: FloatArray, noise: SeededNoise, *, copies: int = COPIES) -> Iterator[FloatArray]:
        """Simulated errors of the fractions ``cdf``: ``copies`` in all, in chunks of shape (k, N)."""
        levels = [level.size for level in self.tree.nodes(np.zeros(self.tree.cells, dtype=np.int64))]
        at_once = max(1, CHUNK_VALUES // sum(levels))
        public = self.tree.root == "public"
        for start in range(0, copies, at_once):
            shape = (min(at_once, copies - start), sum(levels))
            drawn = noise.two_sided(shape, scale=self.scale)
            nodes = tuple(np.split(drawn, np.cumsum(levels)[:-1], axis=1))
            counts = np.cumsum(self.tree.least_squares(nodes, total=0.0 if public else None), axis=1)
            yield (counts - cdf * counts[:, -1:]) / self.rows


@dataclass(frozen=True, kw_only=True, eq=False)
class BandWidths:
    """Half-widths of the bands around N released fractions.

    Attributes:
        single: half-widths of the intervals of single fractions, shape (N,).
        largest: half-width of a band for all fractions at once: a quantile of the largest error.
    """

    single: FloatArray
    largest: float


def band_widths(model: NoiseModel, cdf: FloatArray, *, confidence: float, noise: SeededNoise) -> BandWidths:
    """Half-widths at level ``confidence``: exact standard deviations times a simulated factor; a simulated maximum."""
    stddevs = model.stddevs(cdf)
    largest, scaled = [], []
    with np.errstate(divide="ignore", invalid="ignore"):
        for errors in model.errors(cdf, noise):
            sizes = np.abs(errors)
            largest.append(sizes.max(axis=1))
            sample = sizes[:, :: max(1, sizes.shape[1] // 512)]
            kept = stddevs[:: max(1, sizes.shape[1] // 512)]
            scaled.append(np.where(kept > 0, sample / kept, 0.0))
    factor = float(np.quantile(np.concatenate(scaled), confidence))
    return BandWidths(single=stddevs * factor, largest=upper_quantile(np.concatenate(largest), confidence))


def upper_quantile(values: FloatArray, level: float) -> float:
    """The order statistic that a further independent value does not exceed, with probability at least ``level``."""
    rank = min(values.size, int(np.ceil(level * (values.size + 1))))
    return float(np.sort(values)[rank - 1])
