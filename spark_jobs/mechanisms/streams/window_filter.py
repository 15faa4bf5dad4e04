"""Sums over windows of a stream as estimates with bands; post-processing of noisy counts and their estimates, free.

The sum of noisy counts is unbiased, and its band holds whatever the counts are (``noise_sums``); over short windows and
at a small epsilon it is mostly noise. Here it is combined with a forecast from before the window: ``width`` times the
estimate of the step before. The noise of a window is independent of everything before it, so that the error variance of
any forecast is the mean square of ``sum - forecast`` less the variance of the noise, whatever the counts do, as for the
filter of single counts (``level_filter``). Both are weighted by the inverse of their error variances (Bates and Granger
1969).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.mechanisms.streams.level_filter import MEMORY, running_means

WINDOWS = 20
"""The mean square is over so many windows, or ``MEMORY`` steps if that is more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FilteredSums:
    """Estimates of the sums over the windows that end at each step from ``width - 1`` on, shape (n - width + 1,).

    Attributes:
        sums: at least 0.
        lower, upper: ends of pointwise bands for the exact sums, at least 0; measured, not proven, as those of steps.
    """

    sums: FloatArray
    lower: FloatArray
    upper: FloatArray


def filtered_sums(
    noisy: Int64Array, estimates: FloatArray, *, width: int, variance: float, confidence: float = 0.9
) -> FilteredSums:
    """Estimates of the sums over sliding windows of ``width`` steps.

    Args:
        noisy: noisy counts of consecutive steps from the first one on, shape (n,).
        estimates: of the counts, each from the noisy counts up to its own step alone, shape (n,).
        width: the number of steps of a window, at least 1.
        variance: of the noise of a count, above 0 (``LocalLevelShape.variance``).
        confidence: the nominal level of the bands.

    Raises:
        ValueError: the width is below 1, or the arrays differ in shape.
    """
    if width < 1 or noisy.ndim != 1 or noisy.shape != estimates.shape:
        raise ValueError(
            f"width, noisy, estimates: got {width}, {noisy.shape}, {estimates.shape}; must be 1 or more, "
            "and one number for each step"
        )
    upto = np.concatenate([[0.0], np.cumsum(noisy, dtype=np.float64)])
    sums, of_noise = upto[width:] - upto[:-width], width * variance
    if sums.size < 2:  # nothing forecasts the first window
        forecasts, ahead = sums, np.full(sums.size, of_noise)
    else:
        forecasts = np.concatenate([sums[:1], width * estimates[: sums.size - 1]])
        numbers, memory = np.arange(1, sums.size), max(MEMORY, WINDOWS * width)
        squares = running_means((sums[1:] - forecasts[1:])[:, None] ** 2, np.zeros(1), numbers, memory=memory)[:, 0]
        # the kurtosis of a sum of Laplace variables is 3 + 3 / width; windows that overlap are counted as one
        windows = np.maximum(np.minimum(numbers, memory) / width, 1.0)
        error = of_noise * np.sqrt((2 + 3 / width) / windows)
        ahead = np.concatenate([[of_noise], np.maximum(squares - of_noise, 0.0) + 0.5 * error])
    gains = ahead / (ahead + of_noise)
    gains[:1] = 1.0
    centres = forecasts + gains * (sums - forecasts)
    half = float(ndtri((1 + confidence) / 2)) * np.sqrt((1 - gains) ** 2 * ahead + gains**2 * of_noise)
    return FilteredSums(
        sums=np.maximum(centres, 0.0), lower=np.maximum(centres - half, 0.0), upper=np.maximum(centres + half, 0.0)
    )
