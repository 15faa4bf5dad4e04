"""Monotone smoothing of noisy prefix counts within their range: projections in the 1-norm and in the 2-norm.

Smoothing is post-processing of released values, without further cost under either neighbouring relation. For both norms
the nearest non-decreasing sequence within ``[lower, total]`` is obtained by clipping the nearest non-decreasing
sequence without this restriction (the problem splits into one threshold problem for each level, and clipping drops the
levels outside the range; Barlow, Bartholomew, Bremner, Brunk, "Statistical Inference under Order Restrictions", 1972).

Effect on the error. Exact prefix counts are non-decreasing and lie in the range, so

* ``smooth_2norm`` never increases the distance to them: in the 2-norm because it is a projection onto a convex set, and
  in the 1-norm and the maximum norm because averaging neighbours contracts all these norms (Yang, Barber, "Contraction
  and uniform convergence of isotonic regression", 2019, theorem 1);
* ``smooth_1norm`` has a weaker guarantee: its 1-norm error is at most twice that of the noise (the triangle
  inequality), but it is less sensitive to a few outliers. Its values are among the given ones, so whole counts stay
  whole.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from spark_jobs.arrays import FloatArray


def smooth_1norm(noisy: NDArray[Any], *, total: float | None = None, lower: float = 0.0) -> FloatArray:
    """A nearest non-decreasing sequence within ``[lower, total]`` in the 1-norm, in O(N log N).

    Several sequences may be equally near; the choice depends only on ``noisy``. The method is the slope trick: a heap
    holds the points at which the minimal cost so far, as a function of the bound on the last value, changes its slope.

    Args:
        noisy: released prefix counts, or a distribution function; shape (N,).
        total: the largest possible value, if it is public; the last value need not reach it.
        lower: the smallest possible value.

    Raises:
        ValueError: ``noisy`` is not a one-dimensional array of finite numbers, or the range is empty.
    """
    values = checked_line(noisy, lower, total)
    heap: list[float] = []
    tops = np.empty(values.size)
    for place, value in enumerate(values.tolist()):
        heapq.heappush(heap, -value)
        if -heap[0] > value:
            heapq.heapreplace(heap, -value)
        tops[place] = -heap[0]
    return np.clip(np.minimum.accumulate(tops[::-1])[::-1], lower, total)


def smooth_2norm(noisy: NDArray[Any], *, total: float | None = None, lower: float = 0.0) -> FloatArray:
    """The nearest non-decreasing sequence within ``[lower, total]`` in the 2-norm, in O(N): pool adjacent violators.

    Args:
        noisy: released prefix counts, or a distribution function; shape (N,).
        total: the largest possible value, if it is public; the last value need not reach it.
        lower: the smallest possible value.

    Raises:
        ValueError: ``noisy`` is not a one-dimensional array of finite numbers, or the range is empty.
    """
    values = checked_line(noisy, lower, total)
    fitted: FloatArray = np.asarray(isotonic_regression(values).x if values.size else values, dtype=np.float64)
    return np.clip(fitted, lower, total)


def checked_line(noisy: NDArray[Any], lower: float, total: float | None) -> FloatArray:
    """The values as floats.

    Raises:
        ValueError: ``noisy`` is not a one-dimensional array of finite numbers, or the range is empty.
    """
    values = np.asarray(noisy, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"noisy: got shape {values.shape}; must be one line of finite numbers")
    upper = math.inf if total is None else total
    if not (math.isfinite(lower) and lower <= upper):
        raise ValueError(f"total: got {total}; must be at least lower, which is {lower}")
    return values
