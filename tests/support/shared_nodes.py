"""References for noise that is shared along a binary tree: matrices, least weights, exact loss, a general programme."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
from scipy.optimize import linprog, nnls

from spark_jobs.contract.privacy import Neighbours


def node_matrix(points):
    """``Z``: a row for each point, a column for each dyadic node; levels from the points up."""
    levels = (points - 1).bit_length()
    index = np.arange(points)
    return np.hstack(
        [(index[:, None] >> level == np.arange((points - 1 >> level) + 1)).astype(float) for level in range(levels + 1)]
    )


def differences(points, neighbours):
    """Every way in which neighbours' prefix counts differ, as the first point and the one after the last."""
    if neighbours is Neighbours.ADD_REMOVE:
        return [(first, points) for first in range(points)]
    return list(itertools.combinations(range(points), 2))  # the row leaves one cell for an earlier one


def least_weight(difference):
    """The least 1-norm of real node values that make up a difference, by linear programming."""
    nodes = node_matrix(difference.size)
    found = linprog(np.ones(2 * nodes.shape[1]), A_eq=np.hstack([nodes, -nodes]), b_eq=difference)
    return found.fun


def least_whole_weight(levels, first, end):
    """The least 1-norm of whole node values that make up the interval ``[first, end)`` of ``2 ** levels`` points."""

    @cache
    def least(level, node, carried):
        low, high = node << level, (node + 1) << level
        if first <= low and high <= end:
            return abs(1 - carried)
        if high <= first or end <= low:
            return abs(carried)
        return min(
            abs(own) + least(level - 1, 2 * node, carried + own) + least(level - 1, 2 * node + 1, carried + own)
            for own in (-1, 0, 1)
        )

    return least(levels, 0, 0)


def log_probability(prefix_noise, scale, reach=60):
    """The exact log probability that shared nodes add up to this noise on ``2 ** k`` points; noise cut at ``reach``."""
    values = np.arange(-reach, reach + 1)
    one = -np.abs(values) / scale + np.log(np.tanh(0.5 / scale))
    offsets = np.arange(-2 * reach, 2 * reach + 1)  # what is carried into a node, wide enough for both ends

    def below(noise):
        """For every carried value, the log probability of the noise below, its node's own noise included."""
        if noise.size == 1:
            return -np.abs(noise[0] - offsets) / scale + np.log(np.tanh(0.5 / scale))
        halves = below(noise[: noise.size // 2]) + below(noise[noise.size // 2 :])
        padded = np.pad(halves, reach, constant_values=-np.inf)
        return np.logaddexp.reduce([padded[k : k + offsets.size] + one[k] for k in range(values.size)], axis=0)

    return below(np.asarray(prefix_noise))[2 * reach]


def exact_loss(scale, points, intervals, *, outputs=None):
    """The largest exact log ratio over these differences, at far outputs (of every sign pattern, if none are given)."""
    if outputs is None:
        outputs = [20 * np.array(signs) for signs in itertools.product((-1, 0, 1), repeat=points)]
    worst, before = 0.0, [log_probability(output, scale) for output in outputs]
    for first, end in intervals:
        index = np.arange(points)
        difference = ((first <= index) & (index < end)).astype(int)
        after = [log_probability(output - difference, scale) for output in outputs]
        worst = max(worst, float(np.abs(np.subtract(before, after)).max()))
    return worst


def programme(noisy, lower, total):
    """The ECDF paper's problem (3), p = 2, by a general method: least distance programming (Lawson, Hanson 1974)."""
    nodes = node_matrix(noisy.size)
    steps = np.vstack([np.eye(noisy.size)[:1], np.diff(np.eye(noisy.size), axis=0)])
    bounds = np.concatenate([[lower], np.zeros(noisy.size - 1)])
    if total is not None:
        steps, bounds = np.vstack([steps, -np.eye(noisy.size)[-1:]]), np.append(bounds, -total)
    system = np.vstack([(steps @ nodes).T, bounds - steps @ noisy])
    target = np.zeros(system.shape[0])
    target[-1] = 1.0
    residual = system @ nnls(system, target, maxiter=100 * system.size)[0] - target
    return noisy - nodes @ (residual[:-1] / residual[-1])
