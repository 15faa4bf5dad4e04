"""What streams are measured with: the product's methods, and baselines that are in no release.

Baselines: backward smoothing is the mean of the last noisy counts. The binary-tree counter (Chan, Shi, Song 2011; Dwork
et al. 2010) releases running sums, of which two are subtracted. The fixed-window tree (Bolot et al. 2013) has a binary
tree on each block of the window's length, and adds the end of one block to the beginning of the next. The Gaussian
factorisation is ``competitors.square_root``, the square root of the matrix of running sums. All but smoothing know the
length of the stream or of the window in advance.

The factorisation has no pure guarantee. At ``rho = epsilon^2 / 2`` it has the zCDP guarantee that follows from
``epsilon`` (Bun and Steinke 2016, proposition 3.3), which is weaker than ``epsilon``. For (``epsilon``, ``DELTA``) its
noise is larger by ``approximate_factor`` (Balle and Wang 2018, theorem 8).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from benchmarks.competitors.square_root import square_root_prefixes
from benchmarks.competitors.windows import window_sums
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.streams.level_filter import LocalLevelState
from spark_jobs.mechanisms.streams.local_level import LocalLevelShape, filter_steps
from spark_jobs.mechanisms.streams.window_filter import filtered_sums
from spark_jobs.papers.streams.open_groups import PegasusState
from spark_jobs.papers.streams.pegasus import PegasusShape, PegasusSteps, release_steps
from spark_jobs.papers.streams.smoothing import Smoother, smooth

ADDED = Neighbours.ADD_REMOVE
DELTA = 1e-6
LAPLACE, FILTER, SEASON, PEGASUS = "plain Laplace", "filter", "filter, season", "PeGaSus"
SMOOTHED = {"smoothing, 5": 5, "smoothing, 25": 25}
SUMS, FILTERED, FORECAST = "noisy counts", "filtered counts", "with a forecast"
MEDIANS, GROUPS = "PeGaSus, medians", "PeGaSus, windows"
COUNTER, BLOCKS = "binary-tree counter", "fixed-window tree"
ZCDP, APPROXIMATE = "factorisation, zCDP", "factorisation, (ε, 10^-6)"
PURE = (SUMS, FILTERED, FORECAST, MEDIANS, GROUPS, COUNTER, BLOCKS)
"""The methods for windows whose guarantee is pure."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """One release of a stream by every method.

    Attributes:
        exact: counts of the steps.
        epsilon, seed: of the release.
        noisy: with plain Laplace noise.
        filtered, seasonal: by the filter without and with the season of a day.
        grouped: by PeGaSus.
    """

    exact: Int64Array
    epsilon: str
    seed: int
    noisy: Int64Array
    filtered: FloatArray
    seasonal: FloatArray
    grouped: PegasusSteps


def draw(exact: Int64Array, *, epsilon: str, day: int, seed: int) -> Drawn:
    """Release a stream whose day has so many steps by every method."""
    noisy = SeededNoise(seed).laplace(exact, epsilon=epsilon, l1_sensitivity=1)
    filtered, seasonal = (
        filter_steps(LocalLevelState(), noisy, shape=LocalLevelShape(epsilon=epsilon, neighbours=ADDED, season=season))[
            1
        ].estimates
        for season in (0, day)
    )
    shape = PegasusShape(epsilon=epsilon, neighbours=ADDED)
    _, grouped = release_steps(PegasusState(), exact, shape=shape, noise=SeededNoise(seed))
    return Drawn(
        exact=exact, epsilon=epsilon, seed=seed, noisy=noisy, filtered=filtered, seasonal=seasonal, grouped=grouped
    )


def count_estimates(drawn: Drawn) -> dict[str, FloatArray]:
    """Estimates of the count of each step, by method."""
    so_far = np.arange(1, drawn.exact.size + 1)
    smoothed = {name: sliding(drawn.noisy, last) / np.minimum(so_far, last) for name, last in SMOOTHED.items()}
    return {
        LAPLACE: drawn.noisy.astype(np.float64),
        **smoothed,
        FILTER: drawn.filtered,
        SEASON: drawn.seasonal,
        PEGASUS: drawn.grouped.estimates,
    }


def smoother_estimates(drawn: Drawn) -> dict[str, FloatArray]:
    """Estimates of the count of each step by the smoothers of PeGaSus, on the same groups."""
    variance = 2.0 / float(PegasusShape(epsilon=drawn.epsilon, neighbours=ADDED).perturbing) ** 2
    grouped = drawn.grouped
    return {
        name: np.maximum(smooth(grouped.noisy, grouped.starts, smoother=name, variance=variance), 0)
        for name in Smoother
    }


def window_estimates(drawn: Drawn, width: int) -> dict[str, FloatArray]:
    """Estimates of the sum over the last ``width`` steps, at every step; a width that is a power of two."""
    exact, epsilon, seed = drawn.exact, drawn.epsilon, drawn.seed
    truth, grouped = sliding(exact, width), drawn.grouped
    factorised = over_windows(prefix_errors(exact.size, epsilon, seed), width)
    return {
        SUMS: sliding(drawn.noisy, width),
        FILTERED: sliding(drawn.filtered, width),
        FORECAST: _forecast(drawn, width),
        MEDIANS: sliding(grouped.estimates, width),
        GROUPS: window_sums(grouped.noisy, grouped.starts, width=width),
        COUNTER: truth + over_windows(counter_errors(exact.size, epsilon, seed), width),
        BLOCKS: truth + block_errors(exact.size, width, epsilon, seed),
        ZCDP: truth + factorised,
        APPROXIMATE: truth + approximate_factor(epsilon) * factorised,
    }


def _forecast(drawn: Drawn, width: int) -> FloatArray:
    variance = LocalLevelShape(epsilon=drawn.epsilon, neighbours=ADDED).variance
    sums = sliding(drawn.noisy, width)
    sums[width - 1 :] = filtered_sums(drawn.noisy, width=width, variance=variance).sums
    return sums


def sliding(values: FloatArray | Int64Array, width: int) -> FloatArray:
    """Sums over the last ``width`` values, fewer at the beginning."""
    return over_windows(np.cumsum(values, dtype=np.float64), width)


def over_windows(prefixes: FloatArray, width: int) -> FloatArray:
    """Differences of running sums, of the last ``width`` steps, fewer at the beginning."""
    sums = prefixes.copy()
    sums[width:] -= prefixes[: max(prefixes.size - width, 0)]
    return sums


@lru_cache(maxsize=2)
def prefix_errors(steps: int, epsilon: str, seed: int) -> FloatArray:
    """The errors of running sums by the factorisation at ``rho = epsilon^2 / 2``; they do not depend on counts."""
    none = np.zeros(steps, dtype=np.int64)
    rho = Decimal(epsilon) ** 2 / 2
    return square_root_prefixes(none, rho=rho, neighbours=ADDED, noise=SeededNoise(3000 + seed)).prefix_counts()


@lru_cache(maxsize=8)
def approximate_factor(epsilon: str) -> float:
    """By how much noise for (``epsilon``, ``DELTA``) is larger than noise for ``rho = epsilon^2 / 2``."""
    budget = float(epsilon)

    def excess(stddev: float) -> float:
        middle, reach = 1 / (2 * stddev), budget * stddev
        return float(ndtr(middle - reach) - np.exp(budget + log_ndtr(-middle - reach)) - DELTA)

    return float(brentq(excess, 1e-3 / budget, 1e3 / budget)) * budget


@lru_cache(maxsize=2)
def counter_errors(steps: int, epsilon: str, seed: int) -> FloatArray:
    """The errors of running sums by a binary tree over all steps."""
    levels = steps.bit_length()
    noise, upto = SeededNoise(1000 + seed), np.arange(1, steps + 1)
    errors = np.zeros(steps)
    for level in range(levels):
        nodes = _of_nodes(noise, (steps >> level) + 1, epsilon, levels)
        used = (upto >> level) & 1 == 1
        errors[used] += nodes[(upto[used] >> level) - 1]
    return errors


def block_errors(steps: int, width: int, epsilon: str, seed: int) -> FloatArray:
    """The errors of window sums by a binary tree over each block of ``width`` steps, a power of two."""
    levels = width.bit_length()
    noise, ends = SeededNoise(2000 + seed), np.arange(1, steps + 1)
    block, within = np.divmod(ends, width)
    errors = np.zeros(steps)
    for level in range(levels):
        of_block = width >> level
        nodes = _of_nodes(noise, (steps // width + 1) * of_block, epsilon, levels)
        begun = (within >> level) & 1 == 1
        errors[begun] += nodes[block[begun] * of_block + (within[begun] >> level) - 1]
        rest = width - within
        ended = ((rest >> level) & 1 == 1) & (block > 0)
        errors[ended] += nodes[block[ended] * of_block - (rest[ended] >> level)]
    return errors


def _of_nodes(noise: SeededNoise, nodes: int, epsilon: str, levels: int) -> Int64Array:
    """The noise of the nodes of a level, of which an event is in one."""
    return noise.laplace(np.zeros(nodes, dtype=np.int64), epsilon=epsilon, l1_sensitivity=levels)
