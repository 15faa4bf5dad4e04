"""Sums over windows of a stream as estimates with bands; post-processing of noisy counts, free.

The sum of noisy counts is unbiased, and its band holds whatever the counts are (``noise_sums``); over short windows and
at a small epsilon it is mostly noise. Here that sum is combined with a forecast from before the window: ``width`` times
one of the exponential means of noisy counts that ``level_filter`` keeps. As in that module, the mean whose forecasts
have had the smallest mean square error against the noisy sums is used; forecast and noisy sum are weighted by the
inverses of their error variances (Bates and Granger 1969).

In the local level model the mean with memory M has the error variance ``v / M``, and a count changes by ``v / (M (M -
1))`` from step to step; summed over a window of w steps, the error variance of the forecast is ``w^2 v / M + w (w + 1)
(2 w + 1) / 6 * v / (M (M - 1))``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.mechanisms.streams.predictions import MEMORIES, MEMORY, NO_NOISE, Predictions, forgetting_sums

WINDOWS = 20
"""The mean square is over so many windows, or ``MEMORY`` steps if that is more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FilteredSums:
    """Estimates of the sums over the windows that end at each step from ``width - 1`` on, shape (n - width + 1,).

    Attributes:
        sums: at least 0.
        lower, upper: ends of pointwise bands for the exact sums, at least 0; their coverage is measured, not proven, as
            for single steps.
    """

    sums: FloatArray
    lower: FloatArray
    upper: FloatArray


def filtered_sums(noisy: Int64Array, *, width: int, variance: float, confidence: float = 0.9) -> FilteredSums:
    """Estimates of the sums over sliding windows of ``width`` steps.

    Args:
        noisy: noisy counts of consecutive steps from the first one on, shape (n,).
        width: the number of steps of a window, at least 1.
        variance: the variance of the noise in a count, above 0 (``LocalLevelShape.variance``).
        confidence: the nominal level of the bands.

    Raises:
        ValueError: the width is below 1, or the counts are not a line of numbers.
    """
    if width < 1 or noisy.ndim != 1:
        raise ValueError(f"width, noisy: got {width}, {noisy.shape}; must be 1 or more, and one number for each step")
    variance = max(variance, NO_NOISE)
    upto = np.concatenate([[0.0], np.cumsum(noisy, dtype=np.float64)])
    sums, of_noise = (upto[width:] - upto[:-width])[:, None], width * variance
    forecasts, gains, ahead = sums, np.ones(sums.shape), np.full(sums.shape, of_noise)
    if len(sums) > 1:  # nothing forecasts the first window
        best, error = _forecasts(noisy, sums[1:], width, variance)
        later = best.error_variances(of_noise, error)
        forecasts = np.concatenate([sums[:1], best.values])
        gains = np.concatenate([gains[:1], later / (later + of_noise)])
        ahead = np.concatenate([ahead[:1], best.cautious_variances(of_noise, error)])
    centres = (forecasts + gains * (sums - forecasts))[:, 0]
    half = (float(ndtri((1 + confidence) / 2)) * np.sqrt((1 - gains) ** 2 * ahead + gains**2 * of_noise))[:, 0]
    return FilteredSums(
        sums=np.maximum(centres, 0.0), lower=np.maximum(centres - half, 0.0), upper=np.maximum(centres + half, 0.0)
    )


def _forecasts(noisy: Int64Array, sums: FloatArray, width: int, variance: float) -> tuple[Predictions, FloatArray]:
    """The best forecast of each sum after the first, and the standard error of its mean square."""
    numbers, memory = np.arange(1, len(sums) + 1)[:, None], max(MEMORY, WINDOWS * width)
    counts, none, drift = (
        noisy[: len(sums), None].astype(np.float64),
        np.zeros(1),
        width * (width + 1) * (2 * width + 1),
    )

    def by(remembered: int) -> Predictions:
        kept = np.minimum(numbers, remembered)
        values = width * forgetting_sums(counts, none, memory=remembered, number=0) / kept
        squares = forgetting_sums((sums - values) ** 2, none, memory=memory, number=0) / np.minimum(numbers, memory)
        with np.errstate(divide="ignore"):
            by_model = variance * (width**2 + drift / 6 / (kept - 1.0)) / kept
        return Predictions(values=values, squares=squares, by_model=by_model)

    # the kurtosis of a sum of Laplace variables is 3 + 3 / width; windows that overlap are counted as one
    windows = np.maximum(np.minimum(numbers, memory) / width, 1.0)
    error = width * variance * np.sqrt((2 + 3 / width) / windows)
    return reduce(Predictions.or_better, map(by, MEMORIES)), error
