"""Queries over the last steps of a stream: sums of sliding windows, and jumps."""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.mechanisms.streams.smoothing import Smoother, smooth


def window_sums(noisy: Int64Array, starts: Int64Array, *, width: int) -> FloatArray:
    """Sums of the last ``width`` steps (fewer at the beginning), from noisy counts and groups; free post-processing.

    Each group counts with its median for every one of its steps in the window: the whole group's where it is closed,
    the steps' so far where it is not (Chen 2018, algorithm 17).

    Args:
        noisy: noisy counts, shape (n,), from the first step of a group on.
        starts: the place in ``noisy`` at which each step's group begins, shape (n,).
        width: steps of a window, from 1.

    Raises:
        ValueError: the width is below 1.
    """
    if width < 1:
        raise ValueError(f"width: got {width}; must be at least 1")
    so_far = smooth(noisy, starts, smoother=Smoother.MEDIAN, variance=0.0)
    at = np.arange(noisy.size)
    # a closed group's median is what its last step was told
    last = np.append(starts[1:] != starts[:-1], True) if noisy.size else np.zeros(0, dtype=np.bool_)
    ends = np.flatnonzero(last)
    closed = np.repeat(so_far[ends], np.diff(ends, prepend=-1))
    upto = np.concatenate([[0.0], np.cumsum(closed)])
    first = np.maximum(at - width + 1, 0)
    before = np.where(first < starts, upto[starts] - upto[np.minimum(first, starts)], 0.0)
    sums: FloatArray = before + so_far * (at + 1 - np.maximum(first, starts))
    return sums


def jumps(estimates: FloatArray, *, width: int) -> FloatArray:
    """By how much each estimate differs from that of ``width`` steps before, shape (n - width,); free.

    The last entry belongs to the last step. (Chen 2018 looks back ``width - 1`` steps.)

    Raises:
        ValueError: the width is below 1.
    """
    if width < 1:
        raise ValueError(f"width: got {width}; must be at least 1")
    moved: FloatArray = np.abs(estimates[width:] - estimates[: max(estimates.size - width, 0)])
    return moved
