"""The smallest shared-node noise that leaves a rising line: the 2-norm smoothing of the ECDF paper, exact and fast.

Barczewski, Mawass and Ramon smooth prefix counts ``y`` with shared-node noise (``shared_nodes``) by the corrections
``v`` of least squared 2-norm, one for each dyadic node, such that ``x = y + Z v`` rises within ``[lower, total]``
(their problem (3), p = 2). They hand it to a general quadratic programme; here it is solved exactly in rounds of
O(N).

*Rounds.* Let ``B x >= c`` collect the N + 1 conditions (first at least ``lower``, no fall, last at most ``total``)
and ``K = Z Z'``. The optimum is ``x = y + K B' f`` for forces ``f >= 0`` that act only where a condition holds with
equality: with ``A = B K B'`` and ``r = c - B y``, ``f >= 0``, ``A f >= r``, and one of the two tight in each place.
Off its diagonal ``A`` has no positive entry: a node raises the step at its left end and lowers the one after its
right end. So inverses of its proper principal blocks have no negative entry. Start with the conditions that ``y``
breaks: on them ``A f = r > 0`` has a solution ``f >= 0``. Add every condition that is broken now: forces only grow,
so all stay right, and none is ever taken out. When nothing is broken the line is the optimum (Chandrasekaran, "A
special case of the complementary pivot problem", 1970; Hintermueller, Ito, Kunisch, "The primal-dual active set
strategy as a semismooth Newton method", 2003). All N + 1 conditions never act at once: their ``A f - r`` add up to
``total - lower``. At most N + 1 rounds are needed, and a dozen were seen at 32,768 points.

*One round* solves ``A f = r`` on the acting conditions by elimination along the tree. How the ends of a block of
cells yield to forces on them is a symmetric 2 x 2 matrix, the steps inside the block being settled; two neighbours
are joined by settling the step between them, and their common node adds one to every entry. A pass up, a pass down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.mechanisms.smoothing import checked_line

_ROUNDING = 1e-13


def smooth_shared_nodes(noisy: NDArray[Any], *, total: float | None = None, lower: float = 0.0) -> FloatArray:
    """The rising line within ``[lower, total]`` that takes the smallest node corrections, in squared 2-norm.

    Post-processing: free under either relation. It projects in another norm than that of the error: with a total it is
    better than ``smooth_2norm`` on average, not on every draw; without one, lines with few rows may get worse than they
    were, and ``smooth_2norm`` is the safer choice.

    Args:
        noisy: released prefix counts with shared-node noise, of the first 1, ..., N cells; shape (N,).
        total: the largest value that is possible, where that is public.
        lower: the smallest value that is possible.

    Raises:
        ValueError: not a line of finite numbers, or an empty range.
    """
    values = checked_line(noisy, lower, total)
    if values.size == 0 or total == lower:
        return np.full(values.size, lower)
    upper = math.inf if total is None else total
    broken_by = -_slacks(values, lower, upper)
    tolerance = _ROUNDING * max(float(np.abs(values).max()), abs(lower), 0.0 if total is None else abs(total))
    acting, line = broken_by > tolerance, values
    while acting.any():
        forces = _forces(acting, broken_by)
        line = values + _shared(forces[:-1] - forces[1:])
        broken = ~acting & (_slacks(line, lower, upper) < -tolerance)
        if not broken.any() or (acting | broken).all():
            break
        acting = acting | broken
    return np.clip(np.maximum.accumulate(line), lower, total)


def _slacks(line: FloatArray, lower: float, upper: float) -> FloatArray:
    """``B x - c``: shape (N + 1,)."""
    return np.concatenate([[line[0] - lower], np.diff(line), [upper - line[-1]]])


def _shared(values: FloatArray) -> FloatArray:
    """``K v``: the sum, over the dyadic nodes that hold each point, of all values in the node."""
    sums = [values]
    while sums[-1].size > 1:
        sums.append(np.add.reduceat(sums[-1], np.arange(0, sums[-1].size, 2)))
    spread = sums[-1]
    for level in sums[-2::-1]:
        spread = level + np.repeat(spread, 2)[: level.size]
    return spread


@dataclass(frozen=True, kw_only=True, eq=False)
class _Joints:
    """The joints of neighbouring blocks of one level; an odd last block has none.

    Attributes:
        steps: which steps of the line these are, as a slice of the N - 1 steps between points.
        pull_first, pull_last: how much a unit force at the pair's first (last) point opens the joint.
        stiffness: force in the joint for a unit opening; 0 where the step is free.
        force: what settles the joint while nothing pulls at the pair's ends.
    """

    steps: slice
    pull_first: FloatArray
    pull_last: FloatArray
    stiffness: FloatArray
    force: FloatArray


def _forces(acting: BoolArray, broken_by: FloatArray) -> FloatArray:
    """``f`` with ``A f = r`` on the acting conditions and 0 elsewhere; shape (N + 1,)."""
    joints, (yields, moved) = _eliminate(acting[1:-1], broken_by[1:-1])
    first, last, both = (float(value[0]) for value in yields)
    ends = acting[[0, -1]]
    forces = np.zeros(acting.size)
    if ends.any():
        matrix = np.array([[first, -both], [-both, last]])[np.ix_(ends, ends)]
        wanted = np.array([broken_by[0] - moved[0][0], broken_by[-1] + moved[1][0]])
        at_ends = np.zeros(2)
        at_ends[ends] = np.linalg.solve(matrix, wanted[ends])
        forces[[0, -1]] = at_ends
    _hand_down(joints, forces)
    return forces


def _eliminate(acting: BoolArray, broken_by: FloatArray) -> tuple[list[_Joints], tuple[tuple[FloatArray, ...], ...]]:
    """The pass up: all joints, and of the whole line how its ends yield and where they have moved."""
    size, stride = acting.size + 1, 1
    first = last = both = np.ones(size)
    moved_first = moved_last = np.zeros(size)
    joints = []
    while first.size > 1:
        pairs, odd = divmod(first.size, 2)
        left, right = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
        steps = slice(stride - 1, stride - 1 + 2 * stride * (pairs - 1) + 1, 2 * stride)
        pull_first, pull_last = -both[left], both[right]
        stiffness = acting[steps] / (last[left] + first[right])
        force = (broken_by[steps] - moved_first[right] + moved_last[left]) * stiffness
        joints.append(
            _Joints(steps=steps, pull_first=pull_first, pull_last=pull_last, stiffness=stiffness, force=force)
        )
        joined: tuple[FloatArray, ...] = (
            first[left] - pull_first**2 * stiffness + 1,
            last[right] - pull_last**2 * stiffness + 1,
            1 - pull_first * pull_last * stiffness,
            moved_first[left] + pull_first * force,
            moved_last[right] + pull_last * force,
        )
        if odd:
            alone = (first[-1] + 1, last[-1] + 1, both[-1] + 1, moved_first[-1], moved_last[-1])
            joined = tuple(np.append(values, value) for values, value in zip(joined, alone, strict=True))
        first, last, both, moved_first, moved_last = joined
        stride *= 2
    return joints, ((first, last, both), (moved_first, moved_last))


def _hand_down(joints: list[_Joints], forces: FloatArray) -> None:
    """The pass down: fill in the forces of the steps between points, given those at the ends of the line."""
    inner = forces[1:-1]
    at_first, at_last = forces[:1], -forces[-1:]
    for level in reversed(joints):
        pairs = level.force.size
        pulled = level.pull_first * at_first[:pairs] + level.pull_last * at_last[:pairs]
        force = level.force - level.stiffness * pulled
        inner[level.steps] = force
        below = (np.empty(pairs + at_first.size), np.empty(pairs + at_first.size))
        for into, left, right, outer in zip(
            below, (at_first, -force), (force, at_last), (at_first, at_last), strict=True
        ):
            into[0 : 2 * pairs : 2], into[1 : 2 * pairs : 2] = left[:pairs], right[:pairs]
            into[2 * pairs :] = outer[pairs:]
        at_first, at_last = below
