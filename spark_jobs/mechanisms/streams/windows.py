"""Queries over the last steps of a stream: sums of sliding windows, jumps, and the baselines to hold them against."""

from __future__ import annotations

import math

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.streams.smoothing import Smoother, smooth

MAX_WIDTH = 1 << 20


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


def trailing_means(noisy: Int64Array, *, width: int) -> FloatArray:
    """The mean of the last ``width`` noisy counts at every step (fewer at the beginning); free.

    The baseline of smoothing by groups: it knows nothing of where the stream changes.

    Raises:
        ValueError: the width is below 1.
    """
    if width < 1:
        raise ValueError(f"width: got {width}; must be at least 1")
    upto = np.concatenate([[0], np.cumsum(noisy)])
    ends = np.arange(1, noisy.size + 1)
    first = np.maximum(ends - width, 0)
    means: FloatArray = (upto[ends] - upto[first]) / (ends - first)
    return means


def block_tree_windows(
    counts: Int64Array,
    *,
    width: int,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    meter: BudgetMeter | None = None,
) -> Int64Array:
    """Sums of the last ``width`` steps by a binary tree over each block of ``width``; the baseline of ``window_sums``.

    A window is the last part of one block and the first part of the next, at most ``2 log2(width)`` nodes, all of them
    complete when it ends. Formal guarantee: epsilon-DP. A step is in one block and in one node of each of its
    ``log2(width) + 1`` levels, so a row more or less moves the nodes by that much in 1-norm, a replaced one by twice
    that.

    Args:
        counts: exact counts, shape (n,).
        width: a power of two from 1 to 2^20.
        epsilon: the whole cost.
        neighbours: one row added or removed, or one replaced, which may then be at another step.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        meter: where the cost is drawn; None if the caller has drawn it.

    Returns:
        Shape (n,), int64; windows that begin before the stream are of fewer steps.

    Raises:
        InvalidRequest: epsilon is no cost.
        ValueError: the width is no power of two.
    """
    if not 1 <= width <= MAX_WIDTH or width & (width - 1):
        raise ValueError(f"width: got {width}; must be a power of two from 1 to {MAX_WIDTH}")
    if meter is not None:
        meter.spend(epsilon, label="sums of sliding windows")
    depth = int(math.log2(width)) + 1
    blocks = -(-counts.size // width)
    leaves = np.zeros(blocks * width, dtype=np.int64)
    leaves[: counts.size] = counts
    exact = [leaves.reshape(-1, 1 << level).sum(axis=1) for level in range(depth)]
    sizes = [level.size for level in exact]
    sensitivity = depth * rows_changed(neighbours)
    drawn = noise.laplace(np.concatenate(exact), epsilon=epsilon, l1_sensitivity=sensitivity)
    nodes = np.split(drawn, np.cumsum(sizes)[:-1])
    ends = np.arange(1, counts.size + 1)
    firsts = np.maximum(ends - width, 0)
    return _from_block_start(nodes, ends, depth) + _to_block_end(nodes, firsts, depth)


def _from_block_start(nodes: list[Int64Array], ends: Int64Array, depth: int) -> Int64Array:
    """Sums from the start of a block up to ``ends``, which lie in it or at its end: one node for each binary digit."""
    width = 1 << (depth - 1)
    offset = (ends - 1) % width + 1
    left, total = ends - offset, np.zeros(ends.size, dtype=np.int64)
    for level in reversed(range(depth)):
        taken = (offset >> level) & 1 == 1
        total[taken] += nodes[level][left[taken] >> level]
        left = left + np.where(taken, 1 << level, 0)
    return total


def _to_block_end(nodes: list[Int64Array], firsts: Int64Array, depth: int) -> Int64Array:
    """Sums from ``firsts`` up to the end of their block; 0 where they begin one."""
    width = 1 << (depth - 1)
    offset = -firsts % width
    right, total = firsts + offset, np.zeros(firsts.size, dtype=np.int64)
    for level in reversed(range(depth)):
        taken = (offset >> level) & 1 == 1
        right = right - np.where(taken, 1 << level, 0)
        total[taken] += nodes[level][right[taken] >> level]
    return total
