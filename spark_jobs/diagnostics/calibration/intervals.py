"""Intervals of the Hosmer-Lemeshow statistic and of the calibration error of the exact counts, by inverting tests.

Both are lengths of the vector ``S`` of exact excesses, of which ``S + noise`` was released. Squares and absolute values
of noise do not average to 0, and near 0 a length is all noise, so that neither bootstrap nor normal intervals hold. A
length ``t`` belongs to the interval if the released figure is none of the most extreme ones that simulated noise makes
of a vector of length t (Neyman 1937). The vector's direction is not known; it is taken between the released one and the
one that the sampling of labels has on average, where every square is as large as its variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray

_STEPS = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class Excesses:
    """What is known of the exact excesses.

    Attributes:
        released: excesses with noise, shape (k,).
        variance: of each through the sampling of labels, above 0.
        noise: copies of the noise, shape (copies, k).
        rows: of all pools together.
    """

    released: FloatArray
    variance: FloatArray
    noise: FloatArray
    rows: float

    @property
    def direction(self) -> FloatArray:
        """A guess at the exact excesses, with their signs."""
        square = np.maximum(self.released**2 - self.noise.var(axis=0), 0.0) + self.variance
        signed: FloatArray = np.where(self.released < 0, -1.0, 1.0) * np.sqrt(square)
        return signed


def statistic_interval(excesses: Excesses, statistic: float, confidence: float) -> tuple[float, float]:
    """Of ``sum S^2 / variance``.

    Args:
        excesses: what is known.
        statistic: the same of the released excesses, less the mean of the noise's.
        confidence: nominal level.
    """
    unit = excesses.direction / np.sqrt((excesses.direction**2 / excesses.variance).sum())
    shift = (excesses.noise.var(axis=0) / excesses.variance).sum()

    def simulate(value: float) -> FloatArray:
        moved = np.sqrt(value) * unit + excesses.noise
        simulated: FloatArray = (moved**2 / excesses.variance).sum(axis=-1) - shift
        return simulated

    return _ends(simulate, statistic, confidence)


def error_estimate(excesses: Excesses, confidence: float) -> tuple[float, tuple[float, float]]:
    """Of ``sum |S| / rows``: the length of which the released one is the median, and the interval."""
    unit = excesses.direction / np.abs(excesses.direction).sum()

    def simulate(value: float) -> FloatArray:
        simulated: FloatArray = np.abs(value * unit + excesses.noise / excesses.rows).sum(axis=-1)
        return simulated

    released = float(np.abs(excesses.released).sum() / excesses.rows)
    return _solve(simulate, released, 0.5), _ends(simulate, released, confidence)


def _ends(simulate: Callable[[float], FloatArray], released: float, confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    return _solve(simulate, released, 1 - tail), _solve(simulate, released, tail)


def _solve(simulate: Callable[[float], FloatArray], released: float, level: float) -> float:
    """The length of whose simulated figures ``seen`` is the ``level`` quantile; 0 if it lies below all of them."""
    low, high = 0.0, 1.0
    while np.quantile(simulate(high), level) < released and high < 2.0**60:
        high *= 2.0
    if np.quantile(simulate(0.0), level) >= released:
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if np.quantile(simulate(middle), level) < released:
            low = middle
        else:
            high = middle
    return (low + high) / 2
