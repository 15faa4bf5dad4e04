"""Simulated noise for intervals and p-values, from a public seed, and the rounding of published numbers."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import DECIMALS, Ends, Figure
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, rows_changed

SAMPLING_QUANTILES = 64
Interval = Callable[[FloatArray, FloatArray, float], tuple[FloatArray, FloatArray]]
"""A figure, copies of it and a level -> both ends of its interval."""


def rounded(values: FloatArray) -> FloatArray:
    """``values`` rounded as they are published, without negative zeros."""
    return np.round(values, DECIMALS) + 0.0


WIDEST = Ends(0.0, 1.0)
"""The interval of a figure whose error has no known distribution."""


def with_intervals(
    value: float, errors: FloatArray, *, sampling: float, confidence: float, slack: float = 0.0
) -> Figure[float]:
    """A figure in [0, 1] with both its intervals, which contain it.

    Args:
        value: the released figure.
        errors: simulated errors, released less exact; shape (copies,).
        sampling: standard deviation of the exact figure over samples of rows; taken as normal and independent of the
            noise.
        confidence: nominal level.
        slack: by how much both intervals are widened on each side.
    """
    deviates = ndtri((np.arange(SAMPLING_QUANTILES) + 0.5) / SAMPLING_QUANTILES)
    ends = []
    for copies in (errors, np.add.outer(errors, sampling * deviates)):
        low, high = central_range(copies.ravel(), confidence)
        ends.append((min(value - float(high) - slack, value), max(value - float(low) + slack, value)))
    alone, both = 2 * float(ndtri((1 + confidence) / 2)) * sampling, ends[1][1] - ends[1][0]
    noise, population = (Ends(round(max(low, 0.0), DECIMALS), round(min(high, 1.0), DECIMALS)) for low, high in ends)
    share = 1.0 - min(alone / both, 1.0) if both > 0 else 0.0
    return Figure(value=value, interval=noise, population=population, privacy_share=round(share, DECIMALS))


def uniform(noise: SeededNoise, count: int) -> FloatArray:
    """``count`` uniform variates in (0, 1)."""
    return np.asarray(((noise.words(count) >> np.uint64(11)) + 0.5) / 2.0**53, dtype=np.float64)


def normal(noise: SeededNoise, shape: tuple[int, ...]) -> FloatArray:
    """Standard normal variates of this shape."""
    variates: FloatArray = ndtri(uniform(noise, int(np.prod(shape))))
    return variates.reshape(shape)


def tree_errors(
    tree: NoisyTree, *, epsilon: Decimal, neighbours: Neighbours, copies: int, noise: SeededNoise
) -> FloatArray:
    """Fresh copies of the noise in ``tree.counts()``; shape (copies, cells).

    Args:
        tree: the released counts.
        epsilon: what the counts cost; if they are sums of several releases, what each of these cost.
        neighbours: the relation of their guarantee.
        copies: how many to draw.
        noise: sampler with a public seed.
    """
    levels = [level.size for level in tree.nodes]
    sensitivity = tree.tree.measured * rows_changed(neighbours)
    drawn = np.zeros((copies, sum(levels)), dtype=np.int64)
    for _ in range(tree.summed or 1):
        drawn = noise.laplace(drawn, epsilon=epsilon, l1_sensitivity=sensitivity)
    return tree.tree.least_squares(tuple(np.split(drawn, np.cumsum(levels)[:-1], axis=1)))


def central_range(copies: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Ends of the range that holds the middle ``confidence`` of the copies, along the first axis."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(copies, [tail, 1 - tail], axis=0)
    return low, high


def band_of_courses(copies: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Ends of a band that contains whole curves: a common multiple of each point's deviations from the median curve.

    At each point, the deviations of the copies above the median and below it are separate.

    Args:
        copies: curves; shape (copies, ...).
        confidence: the share of copies that lie in the band at all points.
    """
    middle = np.median(copies, axis=0)
    away = copies - middle
    over = np.maximum(away, 0.0)
    under = np.subtract(over, away, out=away)  # one of the two is 0; of many points each array is large
    above, below = (
        np.maximum(np.sqrt(np.einsum("c...,c...->...", side, side) / len(copies)), 1e-12) for side in (over, under)
    )
    over /= above
    under /= below
    furthest = np.maximum(over, under, out=over).reshape(len(copies), -1).max(axis=1)
    reach = np.quantile(furthest, confidence)
    return middle - reach * below, middle + reach * above


def solved_interval(value: FloatArray, copies: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Ends of an interval for a ratio or a quantile: the central range of the copies, extended to contain ``value``.

    Such a figure r solves an equation ``a - r b = 0`` of exact counts a and b (for a quantile, of rows below r). Let a'
    and b' be the released counts. The noise has a public law, so they refute an r if ``a' - r b'`` is among the most
    extreme values of ``noise(a) - r noise(b)``. The values of r that are not refuted are the central range of
    ``(a' - noise(a)) / (b' - noise(b))``, as long as the divisor stays above 0: an exact interval however large the
    noise (Fieller 1954; Woodruff 1952).

    Args:
        value: the released figure, shape (...).
        copies: the figure of the released counts less fresh noise, shape (copies, ...).
        confidence: nominal level.
    """
    low, high = central_range(copies, confidence)
    return np.minimum(low, value), np.maximum(high, value)


def widest_interval(value: FloatArray, copies: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Ends of an interval for a figure to which ``solved_interval`` does not apply, such as a distance of quantiles.

    The error of such a figure may depend on the exact figure. So the interval contains two intervals: the central range
    of the copies, and the mirror image of this range about ``value``. (The mirror image is right if ``value`` deviates
    from the exact figure as the copies deviate from ``value``.)
    """
    low, high = solved_interval(value, copies, confidence)
    return np.minimum(low, 2 * value - high), np.maximum(high, 2 * value - low)


def possible_interval(
    interval: tuple[FloatArray, FloatArray], value: FloatArray, minimum: FloatArray | float, maximum: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """An interval cut to the possible range of the figure; it contains ``value``.

    Near an end of the range, noise may move the whole interval beyond this end. Then at least half of the interval's
    width is kept inside the range, so that the cut never leaves an interval of width 0.

    Args:
        interval: both ends, each of shape (...).
        value: the released figure, within ``minimum`` and ``maximum``.
        minimum: the smallest possible exact figure; not a noisy one, which could cut off the exact figure.
        maximum: the largest possible exact figure.
    """
    half = (interval[1] - interval[0]) / 2
    lower = np.clip(np.minimum(interval[0], maximum - half), minimum, maximum)
    upper = np.clip(np.maximum(interval[1], minimum + half), minimum, maximum)
    return np.minimum(lower, value), np.maximum(upper, value)
