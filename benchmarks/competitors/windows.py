"""Queries over the last steps of a stream: sums over sliding windows, jumps, low signals, other monitors; all free."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.papers.streams.smoothing import Smoother, smooth


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


def low_signals(noisy: Int64Array, *, width: int, below: float) -> BoolArray:
    """Whether the count of the last ``width`` steps lies below a public bound, shape (n - width + 1,).

    The first entry belongs to step ``width - 1``. Noisy counts are added up, not filtered ones, whose errors do not
    cancel (Chen 2018, section 5.2.2, "low signal").

    Raises:
        ValueError: the width is below 1.
    """
    return monitor(noisy, width=width, summary=lambda windows: windows.sum(axis=-1), fires=lambda sums: sums < below)


def monitor(
    counts: Int64Array | FloatArray,
    *,
    width: int,
    summary: Callable[[FloatArray], FloatArray],
    fires: Callable[[FloatArray], BoolArray],
) -> BoolArray:
    """Whether an event has occurred in the last ``width`` steps, shape (n - width + 1,).

    Args:
        counts: released counts, noisy or filtered, shape (n,).
        width: steps of a window, from 1.
        summary: from windows, shape (m, width), to a number each, shape (m,).
        fires: from these to whether the event has occurred (Chen 2018, section 5.2.2, ``EM(s, w, f, B)``).

    Raises:
        ValueError: the width is below 1.
    """
    if width < 1:
        raise ValueError(f"width: got {width}; must be at least 1")
    if counts.size < width:
        return np.zeros(0, dtype=np.bool_)
    return fires(summary(np.lib.stride_tricks.sliding_window_view(counts.astype(np.float64), width)))


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
