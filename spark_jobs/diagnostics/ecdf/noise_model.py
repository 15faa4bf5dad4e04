"""The errors of an ECDF's fractions that noise causes, by simulation.

With noisy prefix counts ``G_i + e_i`` and a noisy total ``n' = n + e_N``, the fraction ``h_i = (G_i + e_i) / n'`` is
off by exactly ``(e_i - F_i e_N) / n'``. The noise's distribution is public and ``n'`` is released. The only
approximation is that the released fraction replaces ``F_i``; with a public total, ``e_N = 0`` and there is none.

Released fractions have been made monotone, which makes errors smaller: the simulation of bands includes this step. The
largest error after smoothing is at most the largest error before smoothing, whatever the rows are: neither isotonic
regression nor clipping increases the largest distance to a monotone sequence (Yang, Barber 2019, theorem 1;
``mechanisms.smoothing``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance
from spark_jobs.mechanisms.trees import Tree

COPIES, CHUNK_VALUES = 200, 4_000_000
"""Simulated copies of the noise, and the number of values simulated at a time, which bounds memory."""
SAMPLED_CELLS = 512
"""Number of cells, evenly spaced, whose errors determine the factor of single half-widths."""
Smoother = Callable[..., FloatArray]


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """The public distribution of the noise in released fractions.

    Attributes:
        tree: shape of the tree of measured counts, over N cells.
        scale: scale of the two-sided geometric noise in each count.
        rows: the released number of rows, which divides the prefix counts; at least 1.
    """

    tree: Tree
    scale: float
    rows: float

    @property
    def _total_variance(self) -> float:
        return 0.0 if self.tree.root == "public" else float(self.tree.prefix_variances[-1])

    @property
    def total_stddev(self) -> float:
        """Standard deviation of the noise in the number of rows."""
        return float(np.sqrt(self._total_variance * laplace_variance(self.scale)))

    def errors(self, cdf: FloatArray, noise: SeededNoise, *, copies: int = COPIES) -> Iterator[FloatArray]:
        """Simulated errors of the fractions ``cdf``: ``copies`` of them, in chunks of shape (k, N)."""
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


def band_widths(
    model: NoiseModel, cdf: FloatArray, *, smoother: Smoother, confidence: float, copies: int, noise: SeededNoise
) -> BandWidths:
    """Half-widths at level ``confidence``, by a parametric bootstrap of the whole release, smoothing included.

    Noise is added to the released fractions, which are then smoothed like the release. The half-width of a single
    interval is the root mean square of the simulated errors of its fraction, times a factor common to all fractions:
    the quantile of the errors divided by their root mean squares. Errors are taken after smoothing, because errors
    before smoothing would be too large where cells have fewer rows than noise.

    Args:
        model: the noise.
        cdf: the released fractions, shape (N,); the last one is exact.
        smoother: makes fractions monotone within [0, total].
        confidence: nominal level.
        copies: number of simulated releases.
        noise: sampler with a public seed.
    """
    every = max(1, cdf.size // SAMPLED_CELLS)
    squares, largest, sampled = np.zeros(cdf.size), [], []
    for errors in model.errors(cdf, noise, copies=copies):
        for error in errors:
            off = np.abs(smoother(cdf + error, total=1.0) - cdf)
            off[-1] = 0.0
            squares += off**2
            largest.append(off.max())
            sampled.append(off[::every].copy())  # a view would keep all of ``off``
    spread = np.sqrt(squares / copies)
    with np.errstate(divide="ignore", invalid="ignore"):
        units = np.where(spread[::every] > 0, np.array(sampled) / spread[::every], np.nan)
    factor = float(np.nanquantile(units, confidence)) if spread[::every].any() else 0.0
    return BandWidths(single=spread * factor, largest=upper_quantile(np.array(largest), confidence))


def upper_quantile(values: FloatArray, level: float) -> float:
    """The order statistic that one further independent value does not exceed with probability at least ``level``."""
    rank = min(values.size, int(np.ceil(level * (values.size + 1))))
    return float(np.sort(values)[rank - 1])
