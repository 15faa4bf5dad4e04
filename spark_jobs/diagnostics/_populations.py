"""Intervals for means of a population, from noisy counts of a sample: shares, and mean differences of label and score.

A mean is a noisy sum divided by a noisy number of rows ``n``. Its interval holds those means ``m`` that differ from the
released mean by no more than a normal quantile allows, given two sources of error: the sampling of labels with mean
``m`` plus the score, as in Wilson's interval (JASA 1927), and the noise in sum and number, as in Fieller's (JRSS B
1954):

    (released - m)^2 <= z^2 (d s (1 - s) / n + (v - 2 m c + m^2 w) / n^2),  s = m + score

with the variances ``v`` and ``w`` of the noise in the sum and in ``n``, and their covariance ``c``. This is quadratic
in ``m``. The design effect d is 1 for rows that are sampled one by one (``sampling``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray

Ends = tuple[FloatArray, FloatArray] | FloatArray
"""Both ends of intervals; an array has them along its first axis."""


class RatioNoise(NamedTuple):
    """Variances of the noise in a sum and in the number of rows that divides it, and their covariance."""

    total: FloatArray
    both: FloatArray
    rows: FloatArray

    @classmethod
    def of_copies(cls, total: FloatArray, rows: FloatArray) -> RatioNoise:
        """Computed from simulated copies of the noise in sums and in numbers of rows; both of shape (copies, ...)."""
        about = total - total.mean(axis=0), rows - rows.mean(axis=0)
        return cls(total.var(axis=0), (about[0] * about[1]).mean(axis=0), rows.var(axis=0))


def privacy_share(noise: Ends, population: Ends) -> FloatArray:
    """The share by which intervals for the population would be narrower without the noise.

    Errors of the noise and of the sampling are independent, so the squares of their widths add up. The share is 0 where
    an interval for the population has no width, and NaN where there is no interval.

    Args:
        noise: both ends of the intervals for the same rows.
        population: both ends of the intervals for the population.
    """
    own, both = noise[1] - noise[0], population[1] - population[0]
    sampling = np.sqrt(np.maximum(both**2 - own**2, 0.0))
    share: FloatArray = np.where(both == 0, 0.0, 1.0 - sampling / np.where(both == 0, 1.0, both))
    return share


def population_interval(
    value: FloatArray,
    rows: FloatArray,
    noise: RatioNoise,
    *,
    confidence: float,
    score: FloatArray | float = 0.0,
    effect: FloatArray | float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Both ends of a mean's interval for the population; they contain ``value`` and stay within possible means.

    Args:
        value: released means of labels less ``score``.
        rows: noisy numbers of rows, at least 1.
        noise: variances of the noise in the sums and in ``rows``.
        confidence: nominal level.
        score: what is subtracted from each label, in [0, 1]; 0 for a share.
        effect: the design effect.
    """
    square = float(ndtri((1 + confidence) / 2)) ** 2
    inverse = square / rows
    sampled = effect * inverse
    second = 1 + sampled - inverse * noise.rows / rows
    first = 2 * value + sampled * (1 - 2 * np.asarray(score)) - 2 * inverse * noise.both / rows
    none = value**2 - sampled * np.asarray(score) * (1 - np.asarray(score)) - inverse * noise.total / rows
    inside = first**2 - 4 * second * none
    known = (second > 0) & (inside >= 0)
    divisor, root = np.where(known, 2 * second, 1.0), np.sqrt(np.where(known, inside, 0.0))
    lowest, highest = -np.asarray(score), 1 - np.asarray(score)
    low = np.where(known, (first - root) / divisor, lowest)
    high = np.where(known, (first + root) / divisor, highest)
    return (
        np.minimum(np.clip(low, lowest, highest), value),
        np.maximum(np.clip(high, lowest, highest), value),
    )
