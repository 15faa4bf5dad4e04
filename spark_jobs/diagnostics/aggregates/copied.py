"""The joint noise in several sums of one value, by simulated copies.

Figures that use both a value's sum and the sum of its square depend on all numbers of a cell. The joint law of the
noise in these numbers is public, but has no closed form, so it is simulated. It is the same for every cell, so that
copies are drawn once for each table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._simulation import normal
from spark_jobs.diagnostics.aggregates.simulated import SimulatedNoise
from spark_jobs.mechanisms.cell_noise import CellNoise
from spark_jobs.mechanisms.noise import SeededNoise

SINGLE_COPIES = 1 << 14
"""Copies for a table by itself: intervals at 90% then hold 0.900 of the time, give or take 0.003."""
DRAWN = 16
"""Sums of more independent noises than these are drawn as normal."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CopiedNoise:
    """Simulated copies of the noise in all numbers of a cell.

    Attributes:
        numbers: noise of the rows and of each term's sum; shape (copies, 1 + terms).
        single: a law with a closed form, whose tails are at least as heavy as those of the noise in the rows of a table
            by itself. The noise is drawn from a convex body (K-norm mechanism); the law is that of noise drawn from the
            cube around the body. A coordinate of a uniform point of a symmetric convex body has a density that falls
            from 0 outwards (Brunn and Minkowski), so it is stochastically smaller in absolute value than the same
            coordinate in the cube.
        spread: the standard deviation of the noise in the rows of a table by itself. It is not the standard deviation
            of ``single``; with that one, the scaled tails would be too light.
    """

    numbers: FloatArray
    single: CellNoise
    spread: float

    def along(self, weights: FloatArray) -> SimulatedNoise:
        """The joint noise of the rows and of a weighted sum of all numbers of a cell."""
        return SimulatedNoise(
            rows=self.numbers[:, 0],
            sums=self.numbers @ weights,
            single=self.single,
            spread=self.spread,
            symmetric=False,
        )

    @cached_property
    def covariance(self) -> FloatArray:
        """Second moments of the noise; shape (1 + terms, 1 + terms)."""
        moments: FloatArray = self.numbers.T @ self.numbers / len(self.numbers)
        return moments


def sums_of_noise(pool: FloatArray, entries: int, copies: int, noise: SeededNoise) -> FloatArray:
    """Copies of the sum of ``entries`` independent noise vectors, drawn from a pool; shape (copies, numbers)."""
    if entries > DRAWN:
        root = np.linalg.cholesky(pool.T @ pool / len(pool))
        near: FloatArray = normal(noise, (copies, pool.shape[1])) @ root.T * np.sqrt(entries)
        return near
    picked = noise.words(copies * entries) % np.uint64(len(pool))
    total: FloatArray = pool[picked.astype(np.int64)].reshape(copies, entries, -1).sum(axis=1)
    return total
