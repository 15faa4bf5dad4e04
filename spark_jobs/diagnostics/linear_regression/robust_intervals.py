"""Robust empirical-Bayes intervals of lines that are shrunk towards a common line of many groups.

A shrunk height is ``w`` times the group's own estimate plus ``1 - w`` times the common line. Its error has two parts:
noise with standard deviation s, and a bias, proportional to the distance d of the group's line from the common line. If
``m = E bias^2 / s^2``, the interval's half-width is ``c s``, where c is the smallest number for which
``P(|Z + b| > c)`` is at most 1 less the level for *every* law of b with ``E b^2 = m``, and Z is standard normal. So
the interval holds at its level **on average over groups**, whatever the law of their lines is; a group far from all
others may be missed (Armstrong, Kolesar, Plagborg-Moller 2022, with the second moment alone).

``P(|Z + sqrt t| > c)`` is first convex and then concave in t, so the worst law puts mass on 0 and on one other point.
For slopes, only laws of b with a single peak, at 0, are considered. Each is a mixture of uniform laws about 0
(Khinchin); the worst puts mass on 0 and on one uniform law.

The second moment of d is estimated from the groups. If noise dominates, the estimate is poor. So the expectation of the
second moment is used: the mean of a normal law about the estimate, truncated at 0 and capped at the prior of a single
group. (An upper confidence limit in its place would make intervals up to half as wide again, and hold too often.)
Groups with much noise are assumed to differ as the others do, apart from what few rows or a small spread of x leave to
chance (``shrinkage``).

Every slope is divided by a spread of x that is nearly common to all groups, so that an error of this spread affects all
slopes together. Where x fills a corner of its box, noise hides much of the spread: lines may be twice as steep as the
estimate says. So the ends of an interval are quantiles of a mixture over the possible values of the spread.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics.linear_regression.intervals import HalfWidths
from spark_jobs.diagnostics.linear_regression.shrinkage import Shrunk, above_0, inverse, times

_SHARES = 1.0 - np.geomspace(1.0, 1e-4, 60)
"""Shares of bias in the mean squared error for which widths are tabulated."""
_STEPS, _STEPS_OF_MIXTURES = 40, 24
_LITTLE = 1e-12
"""The information on a group before any of its rows is used; a box has width 2."""


@lru_cache(maxsize=8)
def critical_values(confidence: float, *, one_peak: bool = False) -> FloatArray:
    """Half-widths over the root mean squared error, ``c / sqrt(1 + m)``, for each ``m / (1 + m)`` in ``_SHARES``.

    Args:
        confidence: nominal level.
        one_peak: whether to assume that the law of the bias has one peak, at 0.
    """
    values = np.empty(_SHARES.size)
    for i, share in enumerate(_SHARES.tolist()):
        m = share / (1.0 - share)
        low, high = 0.0, float(np.sqrt((1.0 + m) / (1.0 - confidence)))  # Chebyshev's inequality
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if _missed(m, middle, one_peak) > 1.0 - confidence else (low, middle)
        values[i] = high / np.sqrt(1.0 + m)
    values[0] = ndtri((1.0 + confidence) / 2)
    return values


def _missed(m: float, c: float, one_peak: bool) -> float:
    """The largest probability of ``|Z + b| > c`` over laws of b with second moment m."""

    def beyond(ends: FloatArray) -> FloatArray:
        if one_peak:
            return _beyond_on_average(ends, c)
        missed: FloatArray = ndtr(ends - c) + ndtr(-ends - c)
        return missed

    moment = 3 * m if one_peak else m  # a uniform law's end has three times its second moment
    others = np.linspace(np.sqrt(moment), np.sqrt(moment) + 2 * c + 3.0, 400)
    weights = moment / np.maximum(others**2, 1e-300)
    return float(((1.0 - weights) * beyond(np.zeros(1)) + weights * beyond(others)).max())


def _beyond_on_average(ends: FloatArray, c: float) -> FloatArray:
    """``P(|Z + b| > c)`` for b uniform from 0 to each end."""

    def integral(upto: FloatArray) -> FloatArray:  # of the normal distribution function, from minus infinity
        area: FloatArray = upto * ndtr(upto) + np.exp(-(upto**2) / 2) / np.sqrt(2 * np.pi)
        return area

    over = np.maximum(ends, 1e-6)
    return np.asarray((integral(over - c) - integral(-over - c)) / over)


def robust_half_widths(shrunk: Shrunk, places: FloatArray, confidence: float) -> HalfWidths:
    """Half-widths around shrunk lines in the centred box, at level ``confidence`` on average over groups.

    Args:
        shrunk: the lines.
        places: places in the centred box at which heights are evaluated, shape (k,).
        confidence: nominal level.
    """
    one, nothing = np.ones_like(shrunk.place), np.zeros_like(shrunk.place)
    away = [place - shrunk.place for place in places]
    heights = [
        _with_scales(shrunk, _half_widths(shrunk, one, x, critical_values(confidence)), x, confidence) for x in away
    ]
    slope = _half_widths(shrunk, nothing, one, critical_values(confidence, one_peak=True))
    slope, slope_above = _with_scales(shrunk, slope, one, confidence)
    return HalfWidths(
        heights=np.stack([half for half, _ in heights], axis=1),
        slope=slope,
        heights_above=np.stack([above for _, above in heights], axis=1),
        slope_above=slope_above,
    )


def _with_scales(
    shrunk: Shrunk, half: FloatArray, of_slope: FloatArray, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Half-widths that allow for the spread of a being an estimate, and how far lines lie above the middles.

    Where the spread is a multiple of what it was taken to be, slopes are steeper by its inverse. Each end is the
    quantile of a mixture, over multiples that are equally likely, of normal laws of which ``half`` is the half-width.
    """
    moved = (of_slope * shrunk.slope)[:, None] * (1 / shrunk.scales - 1)
    tail = (1 - confidence) / 2
    stddev = np.maximum(half, 1e-150) / -float(ndtri(tail))
    lower, upper = (side * _quantiles(side * moved, stddev, tail) for side in (1.0, -1.0))
    return (upper - lower) / 2, -(upper + lower) / 2


def _quantiles(means: FloatArray, stddev: FloatArray, level: float) -> FloatArray:
    """Quantiles of equal mixtures of normal laws, by bisection between those of the first and the last of them."""
    low, high = (end(axis=1) + stddev * float(ndtri(level)) for end in (means.min, means.max))
    for _ in range(_STEPS_OF_MIXTURES):
        middle = (low + high) / 2
        below = ndtr((middle[:, None] - means) / stddev[:, None]).mean(axis=1) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    quantiles: FloatArray = (low + high) / 2
    return quantiles


def _half_widths(shrunk: Shrunk, of_height: FloatArray, of_slope: FloatArray, values: FloatArray) -> FloatArray:
    """Half-widths of ``of_height * height + of_slope * slope`` by critical values; shape (groups,)."""

    def variance(matrix: FloatArray) -> FloatArray:
        figure = of_height**2 * matrix[..., 0, 0] + of_slope**2 * matrix[..., 1, 1]
        both: FloatArray = figure + 2 * of_height * of_slope * matrix[..., 0, 1]
        return np.maximum(both, 0.0)

    covariances, information = shrunk.covariances, shrunk.information
    noise, error = variance(times(times(covariances, information), covariances)), variance(covariances)
    spread = variance(shrunk.spread)
    own = variance(inverse(information + _LITTLE * np.eye(2)))
    known = np.sqrt(2.0 / (1.0 / (own + spread) ** 2).sum())
    prior = of_height**2 * shrunk.widest[0, 0] + of_slope**2 * shrunk.widest[1, 1]
    expected = np.maximum(np.minimum(above_0(spread, known)[0], prior), spread)
    bias = np.maximum(error - noise, 0.0) * expected / spread
    total = np.maximum(noise + bias, 1e-300)
    return np.asarray(np.sqrt(total) * np.interp(bias / total, _SHARES, values))
