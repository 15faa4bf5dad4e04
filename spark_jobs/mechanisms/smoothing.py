"""Noisy prefix counts made to rise within their range again: projections in the 1-norm and in the 2-norm.

All of it is post-processing of released values: it costs nothing, under either neighbour relation. For both norms the
nearest non-decreasing sequence within ``[lower, total]`` is the nearest non-decreasing sequence, clipped (the problem
splits into one threshold problem for each level, and clipping drops the levels outside the range; Barlow, Bartholomew,
Bremner, Brunk, "Statistical Inference under Order Restrictions", 1972).

What it does to the error. Exact prefix counts rise and lie in the range, so

* ``smooth_2norm`` brings every sequence at least as near to them as it was, in the 2-norm because it is a projection on
  a convex set, and in the 1-norm and the largest error too, because averaging neighbours contracts all these norms
  (Yang, Barber, "Contraction and uniform convergence of isotonic regression", 2019, theorem 1);
* ``smooth_1norm`` promises less: its 1-norm error is at most twice the noise's (the triangle inequality), and a few
  wild values move it less. Its values are among the given ones, so whole counts stay whole.
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

    Several may be equally near; which of them is returned depends on ``noisy`` alone. The method is the slope trick: a
    heap holds the places where the least cost so far, as a function of the bound on the last value, changes its slope.

    Args:
        noisy: released prefix counts, or a distribution function; shape (N,).
        total: the largest value that is possible, where that is public; the exact last value is not assumed.
        lower: the smallest value that is possible.

    Raises:
        ValueError: not a line of finite numbers, or an empty range.
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
        total: the largest value that is possible, where that is public; the exact last value is not assumed.
        lower: the smallest value that is possible.

    Raises:
        ValueError: not a line of finite numbers, or an empty range.
    """
    values = checked_line(noisy, lower, total)
    fitted: FloatArray = np.asarray(isotonic_regression(values).x if values.size else values, dtype=np.float64)
    return np.clip(fitted, lower, total)


def checked_line(noisy: NDArray[Any], lower: float, total: float | None) -> FloatArray:
    """The values as floats.

    Raises:
        ValueError: not a line of finite numbers, or an empty range.
    """
    values = np.asarray(noisy, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"noisy: got shape {values.shape}; must be one line of finite numbers")
    upper = math.inf if total is None else total
    if not (math.isfinite(lower) and lower <= upper):
        raise ValueError(f"total: got {total}; must be at least lower, which is {lower}")
    return values
