"""Estimates of a stream's counts from noisy counts and groups: post-processing, free.

At every step only the group so far is known, so step t is estimated from the noisy counts of its group up to t.
"""

from __future__ import annotations

from bisect import insort
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from spark_jobs.mechanisms.noise import Int64Array

FloatArray = NDArray[np.float64]


class Smoother(StrEnum):
    """How the noisy counts of a group become an estimate of its last step.

    ``MEAN`` has the least error where groups are as alike as they look; ``MEDIAN``, the default, bears steps that are
    in a group by chance. ``JAMES_STEIN`` shrinks the step's own count towards the mean, the less the more the group
    varies beyond its noise: ``mean + max(0, 1 - (m - 3) v / sum (y_i - mean)^2) (y_t - mean)`` for m counts with noise
    of variance v. (Chen 2018, equation 5.7, has the count where the mean is added, m - 2, and no positive part: it is
    worse than no smoothing at all.)
    """

    MEAN = "mean"
    MEDIAN = "median"
    JAMES_STEIN = "james_stein"


def smooth(noisy: Int64Array, starts: Int64Array, *, smoother: Smoother, variance: float) -> FloatArray:
    """The estimate of every step, as it is known at that step.

    Args:
        noisy: noisy counts, shape (n,), from the first step of a group on.
        starts: the place in ``noisy`` at which each step's group begins, shape (n,).
        smoother: how.
        variance: of the noise, for ``JAMES_STEIN``.
    """
    if smoother is Smoother.MEDIAN:
        return _medians(noisy.tolist(), starts.tolist())
    if smoother is Smoother.MEAN:
        upto = np.concatenate([[0], np.cumsum(noisy)])
        at = np.arange(noisy.size)
        means: FloatArray = (upto[at + 1] - upto[starts]) / (at + 1 - starts)
        return means
    return _shrunk(noisy.tolist(), starts.tolist(), variance)


def _medians(noisy: list[int], starts: list[int]) -> FloatArray:
    found, ordered, size = [], [0], 0
    for at, (value, start) in enumerate(zip(noisy, starts, strict=True)):
        if start == at:
            ordered, size = [value], 1
        else:
            insort(ordered, value)
            size += 1
        found.append((ordered[(size - 1) >> 1] + ordered[size >> 1]) / 2)
    return np.array(found, dtype=np.float64)


def _shrunk(noisy: list[int], starts: list[int], variance: float) -> FloatArray:
    # whole sums: nothing is lost where counts are large and alike
    found, total, squares = [], 0, 0
    for at, (value, start) in enumerate(zip(noisy, starts, strict=True)):
        if start == at:
            total, squares = 0, 0
        size, total, squares = at + 1 - start, total + value, squares + value * value
        spread = (size * squares - total * total) / size
        mean = total / size
        kept = max(0.0, 1.0 - max(size - 3, 0) * variance / spread) if spread else 1.0
        found.append(mean + kept * (value - mean))
    return np.array(found, dtype=np.float64)
