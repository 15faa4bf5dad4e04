"""Queries over the last steps of a stream: sums over sliding windows, and jumps."""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.mechanisms.streams.smoothing import Smoother, smooth


def window_sums(noisy: Int64Array, starts: Int64Array, *, width: int) -> FloatArray:
    """Sums over the last ``width`` steps (fewer at the beginning), by post-processing of noisy counts and groups.

    Every step in the window counts as the median of its group: of the whole group if it is closed, of its steps so far
    if it is open (Chen 2018, algorithm 17).

    Args:
        noisy: noisy counts, shape (n,); the first of them begins a group.
        starts: the index in ``noisy`` at which each step's group begins, shape (n,).
        width: the number of steps of a window, at least 1.

    Raises:
        ValueError: the width is below 1.
    """
    if width < 1:
        raise ValueError(f"width: got {width}; must be at least 1")
    so_far = smooth(noisy, starts, smoother=Smoother.MEDIAN, variance=0.0)
    at = np.arange(noisy.size)
    # the median of a closed group is the estimate of its last step
    last = np.append(starts[1:] != starts[:-1], True) if noisy.size else np.zeros(0, dtype=np.bool_)
    ends = np.flatnonzero(last)
    closed = np.repeat(so_far[ends], np.diff(ends, prepend=-1))
    upto = np.concatenate([[0.0], np.cumsum(closed)])
    first = np.maximum(at - width + 1, 0)
    before = np.where(first < starts, upto[starts] - upto[np.minimum(first, starts)], 0.0)
    sums: FloatArray = before + so_far * (at + 1 - np.maximum(first, starts))
    return sums


def jumps(estimates: FloatArray, *, width: int) -> FloatArray:
    """The absolute change of each estimate in ``width`` steps, shape (n - width,); post-processing.

    The last entry belongs to the last step. (Chen 2018 uses ``width - 1`` steps.)

    Raises:
        ValueError: the width is below 1.
    """
    if width < 1:
        raise ValueError(f"width: got {width}; must be at least 1")
    moved: FloatArray = np.abs(estimates[width:] - estimates[: max(estimates.size - width, 0)])
    return moved
