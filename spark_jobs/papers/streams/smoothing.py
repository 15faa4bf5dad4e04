"""Estimates of a stream's counts from noisy counts and groups, by post-processing without further cost.

At every step only the group so far is known, so that step t is estimated from the noisy counts of its group up to t.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from enum import StrEnum

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array


class Smoother(StrEnum):
    """The estimate of a step from the noisy counts of its group up to this step.

    ``MEAN`` has the smallest error if the true counts of a group are nearly equal; ``MEDIAN``, the default, is robust
    to steps that are in a group by chance. ``JAMES_STEIN`` shrinks the step's own count towards the mean, less strongly
    if the group varies more than its noise explains: ``mean + max(0, 1 - (m - 3) / sum ((y_i - mean)^2 / v_i)) (y_t -
    mean)`` for m counts with noise of variances v_i. (Equation 5.7 of Chen 2018 adds the count instead of the mean, has
    m - 2, and does not take the positive part; it is worse than no smoothing.)
    """

    MEAN = "mean"
    MEDIAN = "median"
    JAMES_STEIN = "james_stein"


def smooth(
    noisy: Int64Array, starts: Int64Array, *, smoother: Smoother, variance: float, weights: Int64Array | None = None
) -> FloatArray:
    """The estimate of every step, from the noisy counts of its group up to this step.

    Args:
        noisy: noisy counts, shape (n,); the first of them begins a group.
        starts: the index in ``noisy`` at which each step's group begins, shape (n,).
        smoother: the kind of estimate.
        variance: the variance of the noise, for ``JAMES_STEIN``; if there are weights, the variance of the noise in a
            count of weight 1.
        weights: whole numbers of at least 1, proportional to inverse variances, shape (n,), if the noise differs
            between steps: means and medians are then weighted.
    """
    if smoother is Smoother.MEDIAN:
        if weights is not None:
            return _weighted_medians(noisy.tolist(), starts.tolist(), weights.tolist())
        return _medians(noisy.tolist(), starts.tolist())
    if smoother is Smoother.MEAN and weights is None:
        upto = np.concatenate([[0], np.cumsum(noisy)])
        at = np.arange(noisy.size)
        means: FloatArray = (upto[at + 1] - upto[starts]) / (at + 1 - starts)
        return means
    counted = [1] * noisy.size if weights is None else weights.tolist()
    shrinks = variance if smoother is Smoother.JAMES_STEIN else None
    return _moments(noisy.tolist(), starts.tolist(), counted, variance=shrinks)


def smooth_groups(
    noisy: Int64Array,
    sizes: Int64Array,
    newest: Int64Array,
    *,
    smoother: Smoother,
    variance: float,
    weights: Int64Array | None = None,
) -> FloatArray:
    """The estimate of the newest step of each of several groups; ``smooth`` gives the same estimates.

    Args:
        noisy: noisy counts of one group after the other, ascending in each.
        sizes: the number of counts in each group, at least 1, shape (groups,).
        newest: the noisy count of each group's newest step, shape (groups,).
        smoother: the kind of estimate.
        variance: as in ``smooth``.
        weights: as in ``smooth``, in the order of ``noisy``.
    """
    stops = np.cumsum(sizes)
    firsts = stops - sizes
    if smoother is Smoother.MEDIAN:
        low, high = firsts + ((sizes - 1) >> 1), firsts + (sizes >> 1)
        if weights is not None:
            # where half of a group's weight is reached, and exceeded
            upto = np.cumsum(weights)
            before = upto[firsts] - weights[firsts]
            whole = upto[stops - 1] - before
            low = np.searchsorted(upto, before + ((whole + 1) >> 1))
            high = np.searchsorted(upto, before + (whole >> 1), side="right")
        medians: FloatArray = (noisy[low] + noisy[high]) / 2
        return medians
    if smoother is Smoother.MEAN and weights is None:
        means: FloatArray = np.add.reduceat(noisy, firsts) / sizes
        return means
    counted = np.ones_like(noisy) if weights is None else weights
    largest = max(int(np.abs(noisy).max()), 1) ** 2 * int(counted.max()) * int(sizes.max())
    values = noisy if largest < 1 << 63 else noisy.astype(object)
    sums = (np.add.reduceat(terms, firsts).tolist() for terms in (counted, counted * values, counted * values * values))
    shrinks = variance if smoother is Smoother.JAMES_STEIN else None
    groups = zip(newest.tolist(), sizes.tolist(), *sums, strict=True)
    return np.array([_shrunk(*group, variance=shrinks) for group in groups], dtype=np.float64)


def _medians(noisy: list[int], starts: list[int]) -> FloatArray:
    medians, ordered, size = [], [0], 0
    for at, (value, start) in enumerate(zip(noisy, starts, strict=True)):
        if start == at:
            ordered, size = [value], 1
        else:
            insort(ordered, value)
            size += 1
        medians.append((ordered[(size - 1) >> 1] + ordered[size >> 1]) / 2)
    return np.array(medians, dtype=np.float64)


def _weighted_medians(noisy: list[int], starts: list[int], weights: list[int]) -> FloatArray:
    """The weighted medians: the middle of the counts at which half of a group's weight is reached and exceeded."""
    medians, ordered, middle, below, total = [], [(0, 0)], 0, 0, 0
    for at, (value, start, weight) in enumerate(zip(noisy, starts, weights, strict=True)):
        if start == at:
            ordered, middle, below, total = [(value, weight)], 0, 0, weight
        else:
            place = bisect_right(ordered, (value, weight))
            ordered.insert(place, (value, weight))
            total += weight
            if place <= middle:
                middle, below = middle + 1, below + weight
            # `middle` is the first count at which half of the weight is reached; `below` is the weight before it
            while 2 * (below + ordered[middle][1]) < total:
                below, middle = below + ordered[middle][1], middle + 1
            while 2 * below >= total:
                middle -= 1
                below -= ordered[middle][1]
        passed = middle + (2 * (below + ordered[middle][1]) == total)
        medians.append((ordered[middle][0] + ordered[passed][0]) / 2)
    return np.array(medians, dtype=np.float64)


def _moments(noisy: list[int], starts: list[int], weights: list[int], *, variance: float | None) -> FloatArray:
    estimates, weight_sum, total, squares = [], 0, 0, 0
    for at, (value, start, weight) in enumerate(zip(noisy, starts, weights, strict=True)):
        if start == at:
            weight_sum, total, squares = 0, 0, 0
        weight_sum, total, squares = weight_sum + weight, total + weight * value, squares + weight * value * value
        estimates.append(_shrunk(value, at + 1 - start, weight_sum, total, squares, variance=variance))
    return np.array(estimates, dtype=np.float64)


def _shrunk(value: int, size: int, weight_sum: int, total: int, squares: int, *, variance: float | None) -> float:
    """The mean of a group, or its James-Stein estimate if there is a variance; ``value`` is its newest count."""
    mean = total / weight_sum
    if variance is None:
        return mean
    # whole numbers, without cancellation for large and similar counts
    spread = (weight_sum * squares - total * total) / weight_sum
    kept = max(0.0, 1.0 - max(size - 3, 0) * variance / spread) if spread else 1.0
    return mean + kept * (value - mean)
