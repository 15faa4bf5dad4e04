"""Intervals of the Hosmer-Lemeshow statistic and of the mean distance of the exact counts, by inverting tests.

The excess of a pool is its sum of labels less its sum of scores. Let ``S`` be the vector of the exact excesses of all
pools, of which ``S + noise`` was released. Both figures measure the length of S: the statistic by squares, the mean
distance by absolute values. Neither squares nor absolute values of noise average to 0, and a length near 0 is mostly
noise, so bootstrap and normal intervals do not cover. The interval contains every length ``t`` for which the released
figure is not extreme: simulated noise is added to a vector of length t, and the released figure is not among the
smallest or largest results (Neyman 1937).

The direction of this vector is unknown. It is taken between the released direction and the mean direction under the
sampling of labels, in which every square equals its variance. With few pools the direction matters. So the interval of
the sum of squares covers two directions: the one just described, and the one in which a single pool has all of the
length. For the mean distance the direction has more influence, and covering both would make its interval too wide;
there, one simulated copy in ten has the second direction.

The interval of the mean distance for the population adds the sampling of the rows to the noise: copies of both classes
in each pool, by Poisson laws. A sample is further from its scores than its population, so this interval may lie below
the figure of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.diagnostics._populations import privacy_share
from spark_jobs.diagnostics._score_groups.pools import Pools, Triples

VARIANCE_OF_A_ROW = 0.25
"""The largest variance of one label, from which on the variance of a pool is possible, however large the noise."""
MIN_VARIANCE = 1e-9
"""So that a variance can divide."""
SINGLE = 10
"""One copy in so many has all of a mean distance in one pool."""
SMALLEST_PART = 0.5
_STEPS = 40


@dataclass(frozen=True, kw_only=True)
class Moved:
    """How far the rounding of scores may have moved figures of all pools.

    Let h be how far the mean score of a pool of n rows may have moved. Then the excess of the pool moves by at most
    ``n h``, and the variance ``n p (1 - p)`` of a calibrated model moves by at most ``n h (|1 - 2 p| + h)``. So, by the
    triangle inequality, the root of ``sum excess^2 / variance`` is scaled by the change of the variances, and moves by
    at most the root of ``sum (n h)^2 / variance``.

    Attributes:
        distance: how far the mean distance may have moved.
        root: how far the root of the sum of squares over variances may have moved.
        variance: the largest relative change of a variance. Computations never lower a variance below ``SMALLEST_PART``
            of itself: scores in the first cell may all be 0, where there is no variance at all.
    """

    distance: float
    root: float
    variance: float

    @classmethod
    def of_pools(cls, pooled: Pools) -> Moved:
        """How far rounding may have moved the figures of these pools."""
        rows, moved = pooled.released.rows, pooled.moved
        score = np.clip(pooled.released.predicted, moved, 1.0 - moved)
        variance = score * (1.0 - score)
        share = float((moved * (np.abs(1.0 - 2.0 * score) + moved) / variance).max())
        return cls(
            distance=float((rows * moved).sum() / rows.sum()),
            root=math.sqrt(float((rows * moved**2 / variance).sum()) / max(1.0 - share, SMALLEST_PART)),
            variance=share,
        )

    def squares(self, low: float, high: float) -> tuple[float, float]:
        """The range of the sum of squares over variances for exact scores, if [low, high] is that for rounded ones."""
        part = max(1.0 - self.variance, SMALLEST_PART)
        return (
            max(math.sqrt(low / (1.0 + self.variance)) - self.root, 0.0) ** 2,
            (math.sqrt(high / part) + self.root) ** 2,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Excesses:
    """The released excesses of pools (labels less scores of a pool), with their variance and noise.

    Attributes:
        released: excesses with noise, shape (k,).
        variance: variance of each excess through the sampling of labels, from released counts, above 0; shape (k,).
        possible_variances: simulated values of this variance for the unknown exact counts, shape (copies, k).
        noise: copies of the noise, shape (copies, k).
        rows: noisy number of rows of all pools together.
        moved: how far rounding may have moved the figures.
    """

    released: FloatArray
    variance: FloatArray
    possible_variances: FloatArray
    noise: FloatArray
    rows: float
    moved: Moved

    @classmethod
    def of_pools(cls, pooled: Pools) -> Excesses:
        """The excesses of these pools: in each, the sum of labels less scores."""
        variance = np.maximum(pooled.released.variance, MIN_VARIANCE)
        return cls(
            released=pooled.released.excess,
            variance=variance,
            possible_variances=np.maximum(pooled.possible_copies().variance, np.minimum(variance, VARIANCE_OF_A_ROW)),
            noise=pooled.errors[:, 0] - pooled.errors[:, 2],
            rows=float(pooled.released.rows.sum()),
            moved=Moved.of_pools(pooled),
        )

    @property
    def direction(self) -> FloatArray:
        """A vector in the presumed direction of the exact excesses; shape (k,)."""
        square = np.maximum(self.released**2 - self.noise.var(axis=0), 0.0) + self.variance
        signed: FloatArray = np.where(self.released < 0, -1.0, 1.0) * np.sqrt(square)
        return signed

    def single(self, sizes: FloatArray) -> FloatArray:
        """The released excess of the pool where ``sizes`` is largest in absolute value, and 0 elsewhere; shape (k,)."""
        return np.where(np.arange(sizes.size) == np.abs(sizes).argmax(), self.released, 0.0)


def statistic_interval(excesses: Excesses, statistic: float, confidence: float) -> tuple[float, float]:
    """The interval of ``sum S^2 / variance`` for the exact excesses S.

    Args:
        excesses: the released excesses.
        statistic: the sum for the released excesses, less the mean contribution of the noise.
        confidence: nominal level.
    """
    shift = (excesses.noise.var(axis=0) / excesses.variance).sum()

    def simulated(direction: FloatArray) -> Callable[[float], FloatArray]:
        # the exact sum has the variances of exact counts, the released one those of released counts
        squares = (direction**2 / excesses.possible_variances).sum(axis=-1, keepdims=True)
        unit = direction / np.sqrt(np.maximum(squares, 1e-300))
        return lambda value: np.asarray(
            ((np.sqrt(value) * unit + excesses.noise) ** 2 / excesses.variance).sum(axis=-1) - shift
        )

    single = excesses.single(excesses.released / np.sqrt(excesses.variance))
    ends = [_ends(simulated(one), statistic, confidence) for one in (excesses.direction, single)]
    return excesses.moved.squares(min(low for low, _ in ends), max(high for _, high in ends))


def mean_distance(pooled: Pools, excesses: Excesses, confidence: float) -> tuple[Figure[float], float]:
    """The mean distance of the share of positives from the mean score, weighted by rows; within [0, 1].

    The first returned value is the estimate for the exact counts in the released pools, corrected for what noise adds
    to a distance. The second is an upper limit for a calibrated model. The released distance of such a model is not 0,
    because labels differ from scores by chance too; with probability ``confidence`` it does not exceed the limit.

    Args:
        pooled: the pools.
        excesses: the excesses of these pools.
        confidence: level of the interval and of the limit.
    """
    value, (low, high) = _estimate(excesses, confidence)
    both = replace(excesses, noise=excesses.noise + _sampling(pooled))
    moved = excesses.moved.distance
    lowest, highest = _estimate(both, confidence)[1]
    population = np.clip([lowest - moved, highest + moved], 0.0, 1.0)
    interval = min(max(low - moved, 0.0), value, 1.0), min(max(high + moved, value), 1.0)
    # a calibrated model's figure is corrected by as much as the released one
    unexplained = max(float(_distances(pooled.released)) - value, 0.0)
    calibrated = float(np.quantile(_distances(pooled.null_copies()), confidence))
    distance = Figure(
        value=min(value, 1.0),
        interval=Ends(*interval),
        population=Ends(float(population[0]), float(population[1])),
        privacy_share=float(privacy_share(np.array(interval), population)),
    )
    return distance, float(np.clip(calibrated - unexplained, 0.0, 1.0))


def _sampling(pooled: Pools) -> FloatArray:
    """Copies of the sampling errors of the excesses, of samples as large as the released rows; shape (copies, k)."""
    released, copies = pooled.released, pooled.errors.shape[0]
    # a row more with the mean score: a pool without positives may have some in the population
    share = np.clip((released.positives + released.predicted) / (released.rows + 1.0), 0.0, 1.0)
    positives, negatives = (
        pooled.effect * pooled.noise.poissons(released.rows * of_class / pooled.effect, copies=copies)
        for of_class in (share, 1.0 - share)
    )
    rows = positives + negatives
    # distances are averaged over the rows of the sample, however many it has
    size = rows.sum(axis=-1, keepdims=True) / released.rows.sum()
    errors: FloatArray = positives - rows * released.predicted - size * released.rows * (share - released.predicted)
    return errors


def _distances(released: Triples) -> FloatArray:
    """``sum |excess|`` divided by the number of rows."""
    distance: FloatArray = np.abs(released.excess).sum(axis=-1) / np.maximum(released.rows.sum(axis=-1), 1.0)
    return distance


def _estimate(excesses: Excesses, confidence: float) -> tuple[float, tuple[float, float]]:
    """The estimate of ``sum |S| / rows`` whose simulations have the released figure as median, and the interval."""
    released = float(np.abs(excesses.released).sum() / excesses.rows)

    def simulated(directions: FloatArray) -> Callable[[float], FloatArray]:
        unit = directions / np.maximum(np.abs(directions).sum(axis=-1, keepdims=True), 1e-300)
        return lambda value: np.asarray(np.abs(value * unit + excesses.noise / excesses.rows).sum(axis=-1))

    turns = np.arange(excesses.noise.shape[0])[:, None] % SINGLE
    either = np.where(turns, excesses.direction, excesses.single(excesses.released))
    return _solve(simulated(excesses.direction), released, 0.5), _ends(simulated(either), released, confidence)


def _ends(simulate: Callable[[float], FloatArray], released: float, confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    return _solve(simulate, released, 1 - tail), _solve(simulate, released, tail)


def _solve(simulate: Callable[[float], FloatArray], released: float, level: float) -> float:
    """The length for which ``released`` is the ``level`` quantile of simulated figures; 0 if none is small enough."""
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
