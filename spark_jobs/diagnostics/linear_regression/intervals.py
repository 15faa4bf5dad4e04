"""Confidence intervals of the least squares line of the same rows, from the public distribution of the noise.

All quantities are in the *centred box*, ``a = 2 x - 1`` and ``b = 2 y - 1`` in [-1, 1].

**Sums.** The least squares line solves two normal equations, which are linear in the exact sums. If the noisy sums are
inserted, the residual of these equations is a linear combination of the noise. So the errors of the noisy slope and of
a height are linear combinations of the noise, too; their weights depend on the noisy sums and, linearly, on the exact
slope. Quantiles of such a combination can be simulated. Let d be the error of the noisy slope, w the weights at the
noisy slope, and ``w + d u`` the weights at the exact slope, which is smaller by d. The interval consists of the slopes
with ``d^2 <= q^2 |w + d u|^2``, where q is the quantile of the noise for weights of norm 1: Fieller's limits (JRSS B
1954). If ``q |u| >= 1`` there are no limits, as the noisy spread of x is too close to 0; then every line is possible.
The error of a height at distance D from the mean of a contains D times the error of the slope. So the squared
half-width of a height is that of its own weights at the noisy slope, plus ``D^2`` times the excess of the slope's
squared half-width over ``q^2 |w|^2``.

**Lines** (NoisyStats, NoisyIntercept). The error of a height is ``(error of the slope) (x0 - mean x)`` plus its own
noise. The mean of x is not released. Its distance from x0 is bounded by means of the released spread of x, so these
intervals are conservative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from spark_jobs.arrays import FloatArray
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.regression.lines import NoisyLines
from spark_jobs.mechanisms.regression.moments import NoisyMoments

COPIES = 2000
FINE = 1 << 20
"""Resolution of the simulated noise: steps per scale."""
MIN_SQUARES = 1e-9
"""Noisy sum of squares of a up to which a group tells no slope: far below any noise."""
_AT_ONCE = 64
"""Groups that are simulated at a time: few, so that their copies fit in the processor's cache."""


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Copies of standardised noise, for quantiles of linear combinations of noise.

    Attributes:
        laplace: copies of Laplace noise of scale 1; shape (parts, copies).
        normal: copies of standard normal noise; shape (parts, copies).
        confidence: nominal level.
        seed: public seed of further copies.
    """

    laplace: FloatArray
    normal: FloatArray
    confidence: float
    seed: int

    @classmethod
    def drawn(cls, *, seed: int, confidence: float, parts: int = 5) -> Simulated:
        """Draw the copies from a public seed."""
        noise, nothing = SeededNoise(seed), np.zeros((parts, COPIES), dtype=np.int64)
        return cls(
            laplace=noise.laplace(nothing, epsilon=1, l1_sensitivity=FINE) / FINE,
            normal=noise.gaussian(nothing, rho="0.5", l2_sensitivity=FINE) / FINE,
            confidence=confidence,
            seed=seed,
        )

    def of_lines(self, lines: NoisyLines) -> FloatArray:
        """Copies of standardised noise of the kind that the lines have, normal or Laplace."""
        return self.normal if lines.gaussian else self.laplace

    def size(self, weights: FloatArray, noise: FloatArray) -> FloatArray:
        """For each row of weights, the quantile of ``|weights @ noise|`` at level ``confidence``.

        ``weights`` has shape (k, parts), the result shape (k,).
        """
        noise = noise[: weights.shape[1]]
        place = self.confidence * (noise.shape[1] - 1)
        below, sizes = int(place), np.empty(len(weights))
        for first in range(0, len(weights), _AT_ONCE):
            drawn = weights[first : first + _AT_ONCE] @ noise
            np.abs(drawn, out=drawn)
            drawn.partition(below + 1, axis=1)  # np.quantile, which copies, takes six times as long
            low, high = drawn[:, : below + 1].max(axis=1), drawn[:, below + 1]
            sizes[first : first + _AT_ONCE] = low + (place - below) * (high - low)
        return sizes

    @property
    def deviations(self) -> float:
        """The two-sided quantile of a standard normal variable at level ``confidence``."""
        return float(norm.ppf((1 + self.confidence) / 2))


@dataclass(frozen=True, kw_only=True)
class HalfWidths:
    """Half-widths of the intervals around noisy lines; infinite where every line is possible.

    Attributes:
        heights: half-widths of heights, shape (groups, places), in the units of the lines.
        slope: half-widths of slopes, shape (groups,).
        heights_above, slope_above: how far the lines lie above the middles of the intervals.
    """

    heights: FloatArray
    slope: FloatArray
    heights_above: FloatArray | float = 0.0
    slope_above: FloatArray | float = 0.0


def half_widths_of_sums(moments: NoisyMoments, places: FloatArray, simulated: Simulated) -> HalfWidths:
    """Half-widths around the least squares lines of noisy sums, in the centred box.

    Args:
        moments: released sums of each group.
        places: values of a0 at which heights are evaluated, shape (k,); within the box or beyond it.
        simulated: copies of the noise.
    """
    rows, lines = np.maximum(moments.rows, 1.0), moments.lines()
    positive = 4 * lines.variance > MIN_SQUARES
    spread, mean = np.where(positive, 4 * lines.variance, 1.0), moments.x / rows

    def weighted(first: FloatArray, second: FloatArray, slope: FloatArray, a0: float) -> FloatArray:
        height = (moments.y - slope * moments.x) / rows + slope * a0
        return _weights_of_noise(first, second, height, slope, a0)

    # the slope is the difference of two heights at distance 1, so its weights are those of 1 less those of 0
    weights, next_weights = (
        weighted(-mean / spread, 1 / spread, slope, 0.0) for slope in (lines.slope, lines.slope + 1.0)
    )
    copies, covariance = moments.copies(COPIES, noise=SeededNoise(simulated.seed)), moments.covariance
    size, change = simulated.size(weights, copies), weights - next_weights
    of_one = size**2 / np.maximum(((weights @ covariance) * weights).sum(axis=1), 1e-300)
    of_change = change @ covariance
    g, h = of_one * (of_change * change).sum(axis=1), of_one * (of_change * weights).sum(axis=1)
    bounded = positive & (g < 1 - 1e-9)
    rest = np.where(bounded, 1 - g, 1.0)
    half, above = np.sqrt(h**2 + rest * size**2) / rest, np.where(bounded, h / rest, 0.0)
    away, beyond = places - mean[:, np.newaxis], np.maximum(half**2 - size**2, 0.0)
    heights = np.empty((rows.size, places.size))
    for column, a0 in enumerate(places.tolist()):
        own = weighted(*_weights_of_height(moments, rows, spread, a0), lines.slope, a0)
        own_size = simulated.size(own, copies)
        heights[:, column] = np.sqrt(own_size**2 + away[:, column] ** 2 * beyond)
    return HalfWidths(
        heights=np.where(bounded[:, np.newaxis], heights, np.inf),
        slope=np.where(bounded, half, np.inf),
        heights_above=away * above[:, np.newaxis],
        slope_above=above,
    )


def _weights_of_height(
    moments: NoisyMoments, rows: FloatArray, spread: FloatArray, a0: float
) -> tuple[FloatArray, FloatArray]:
    """Weights of the two normal equations in the height at a0: a row of the inverse matrix."""
    shifted = moments.x - a0 * rows
    squares = moments.xx - 2 * a0 * moments.x + a0**2 * rows
    determinant = rows * spread
    return squares / determinant, -shifted / determinant


def _weights_of_noise(
    first: FloatArray, second: FloatArray, height: FloatArray, slope: FloatArray, a0: float
) -> FloatArray:
    """Weights of the noise of each of ``SUMS`` in the residual of the equations."""
    weights = [
        (a0 * slope - height) * first + a0 * (height - a0 * slope) * second,
        -slope * first - (height - 2 * a0 * slope) * second,
        first - a0 * second,
        -slope * second,
        second,
    ]
    return np.stack(weights, axis=1)


def moved_by_rounding(moments: NoisyMoments, slope: FloatArray, places: FloatArray, off: float) -> HalfWidths:
    """How far rounding may have moved slopes and heights, in the centred box.

    Rounding moves each a and b by at most ``2 off``, so that an outcome is off its line by at most ``(1 + |slope|)``
    times that. A height at distance D from the mean of a is a sum of outcomes with weights of norm
    ``sqrt((1 + D^2 / v) / n)``, where v is the variance of a; the absolute values of n weights add up to at most
    sqrt(n) times their norm. The error of an a, multiplied by the row's residual, adds a term of second order, which is
    neglected: the rounding of a does not depend on b.

    Args:
        moments: released sums of each group.
        slope: slope of each group's line.
        places: values of a0, shape (k,).
        off: the most by which rounding moves a value, as a fraction of the box.
    """
    rows = np.maximum(moments.rows, 1.0)
    variance = np.maximum(4 * moments.lines().variance / rows, MIN_SQUARES)
    moved, away = 2 * off * (1 + np.abs(slope)), places - (moments.x / rows)[:, np.newaxis]
    heights = moved[:, np.newaxis] * np.sqrt(1 + away**2 / variance[:, np.newaxis])
    return HalfWidths(heights=heights, slope=moved / np.sqrt(variance))


def half_widths_of_lines(lines: NoisyLines, places: FloatArray, simulated: Simulated, *, level: bool) -> HalfWidths:
    """Half-widths around the lines of NoisyStats, or around the means of y of NoisyIntercept; in units of the box.

    Args:
        lines: released line of each group.
        places: values of x0 at which heights are evaluated, in units of the box, shape (k,); within it or beyond it.
        simulated: copies of the noise.
        level: whether the line is the mean of y, with slope 0.
    """
    rows = np.maximum(lines.rows, 1.0)
    bounded = ~lines.failed & (lines.variance > simulated.deviations * _deviation(lines))
    below = np.where(bounded, lines.variance, 1.0)
    uncertain = np.minimum((simulated.deviations * _deviation(lines) / below) ** 2, 1 - 1e-9)
    widen = np.where(bounded, 1 / (1 - uncertain), 1.0)
    nothing = np.zeros(rows.size)
    if level:
        bounded, widen = np.ones(rows.size, dtype=bool), np.ones(rows.size)
    of_slope = np.stack([lines.covariance_scale / below, -lines.slope * lines.variance_scale / below], axis=1)
    if level:
        of_slope = np.stack([nothing, nothing], axis=1)
    own = np.stack([lines.centre_scale / rows, (lines.centre - 0.5) * lines.rows_scale / rows], axis=1)
    # sum (x - mean x)^2 <= rows mean x (1 - mean x), so with a large spread the mean of x is near the middle
    min_spread = np.maximum(lines.variance - 2 * simulated.deviations * _deviation(lines), 0.0)
    max_rows = rows + simulated.deviations * np.sqrt(2) * lines.rows_scale
    off = np.sqrt(np.maximum(0.25 - min_spread / np.maximum(max_rows, 1.0), 0.0))
    heights, copies = np.empty((rows.size, places.size)), simulated.of_lines(lines)
    for column, x0 in enumerate(places.tolist()):
        away = (abs(x0 - 0.5) + off)[:, None]
        size = simulated.size(np.concatenate([of_slope * away, own], axis=1), copies)
        heights[:, column] = np.where(bounded, size * widen, np.inf)
    slope = simulated.size(of_slope, copies)
    return HalfWidths(heights=heights, slope=np.where(bounded, slope * widen, np.inf))


def _deviation(lines: NoisyLines) -> FloatArray:
    return lines.variance_scale * (1.0 if lines.gaussian else np.sqrt(2))
