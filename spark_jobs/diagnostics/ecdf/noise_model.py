"""How far noise may have moved the fractions of an ECDF: exact variances, and the largest error by simulation.

With noisy prefix counts ``G_i + e_i`` and a noisy total ``n' = n + e_N``, the fraction ``h_i = (G_i + e_i) / n'`` is
off by exactly ``(e_i - F_i e_N) / n'``: the noise's distribution is public and ``n'`` is released, so errors need no
approximation but ``F_i``, for which the released fraction stands (where the total is public it drops out).

The largest error holds for the released, rising fractions too: isotonic regression brings no sequence further from a
rising one, in the largest error (Yang, Barber 2019, theorem 1; ``mechanisms.smoothing``), and clipping neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance
from spark_jobs.mechanisms.trees import Tree

COPIES, CHUNK_VALUES = 200, 4_000_000
"""Simulated copies of the noise, and how many values are held at a time."""


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """The public law of the noise in released fractions.

    Attributes:
        tree: the shape of the measured counts.
        scale: of the two-sided geometric noise in each of them.
        rows: the released number of rows that fractions were made with; at least 1.
    """

    tree: Tree
    scale: float
    rows: float

    def stddevs(self, cdf: FloatArray) -> FloatArray:
        """Of the fractions of the first 1, ..., N cells, where ``cdf`` are those fractions."""
        variances, covariances = self.tree.prefix_variances, self.tree.prefix_total_covariances
        of_ratio = variances[1:] - 2 * cdf * covariances[1:] + cdf**2 * self._total_variance
        return np.sqrt(np.maximum(of_ratio, 0.0) * laplace_variance(self.scale)) / self.rows

    @property
    def _total_variance(self) -> float:
        return 0.0 if self.tree.root == "public" else float(self.tree.prefix_variances[-1])

    @property
    def total_stddev(self) -> float:
        """Of the number of rows."""
        return float(np.sqrt(self._total_variance * laplace_variance(self.scale)))

    def errors(self, cdf: FloatArray, noise: SeededNoise, *, copies: int = COPIES) -> Iterator[FloatArray]:
        """Simulated errors of the fractions of the first 1, ..., N cells, in chunks of shape (some, N)."""
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
    """How far fractions may be off.

    Attributes:
        each: half widths of intervals of single fractions, shape (N,).
        largest: the quantile of the largest error of all.
    """

    single: FloatArray
    largest: float


def band_widths(model: NoiseModel, cdf: FloatArray, *, confidence: float, noise: SeededNoise) -> BandWidths:
    """Half widths at this level: exact standard deviations times a simulated quantile, and a simulated maximum."""
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
    """The order statistic that a further value stays at or below with a chance of at least ``level``."""
    rank = min(values.size, int(np.ceil(level * (values.size + 1))))
    return float(np.sort(values)[rank - 1])
