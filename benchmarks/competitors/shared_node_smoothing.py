"""The 2-norm smoothing of prefix counts with shared-node noise, exact and fast.

Barczewski, Mawass and Ramon smooth prefix counts ``y`` with shared-node noise (``shared_nodes``) by the corrections
``v`` of smallest squared 2-norm, one for each dyadic node, such that ``x = y + Z v`` is non-decreasing within
``[lower, total]`` (their problem (3), p = 2). They use a general quadratic programme; here the problem is solved
exactly, in rounds of O(N).

*Rounds.* Let ``B x >= c`` be the N + 1 constraints (the first value is at least ``lower``, no value falls, the last is
at most ``total``) and ``K = Z Z'``. The optimum is ``x = y + K B' f`` with multipliers ("forces") ``f >= 0`` that are
above 0 only where a constraint is tight: with ``A = B K B'`` and ``r = c - B y``, ``f >= 0``, ``A f >= r``, and in each
component one of the two is an equality. Off its diagonal ``A`` has no positive entry: a node raises the step at its
left end and lowers the one after its right end. So inverses of its proper principal blocks have no negative entry.
Start with the constraints that ``y`` violates: on them ``A f = r > 0`` has a solution ``f >= 0``. Then add every
constraint that is now violated: the forces only grow, so that all of them stay valid and no constraint is ever removed.
When no constraint is violated, the line is the optimum (Chandrasekaran, "A special case of the complementary pivot
problem", 1970; Hintermueller, Ito, Kunisch, "The primal-dual active set strategy as a semismooth Newton method", 2003).
The N + 1 constraints are never all active at once: their ``A f - r`` add up to ``total - lower``. At most N + 1 rounds
are needed; the largest number observed at 32,768 points was a dozen.

*One round* solves ``A f = r`` on the active constraints by elimination along the tree, in one pass up and one pass
down. The response of the two ends of a block of cells to forces on them, with the steps inside the block eliminated, is
a symmetric 2 x 2 matrix. Two neighbouring blocks are joined by eliminating the step between them, and their common node
adds one to every entry.
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
    """The non-decreasing line within ``[lower, total]`` with the smallest node corrections, in squared 2-norm.

    Post-processing, without further cost. The projection is in a norm other than that of the error: with a total it is
    better than ``smooth_2norm`` on average, though not for every draw; without a total it can increase the error if
    there are few rows, and ``smooth_2norm`` is the safer choice.

    Args:
        noisy: released prefix counts with shared-node noise, of the first 1, ..., N cells; shape (N,).
        total: the largest possible value, if it is public.
        lower: the smallest possible value.

    Raises:
        ValueError: ``noisy`` is not a one-dimensional array of finite numbers, or the range is empty.
    """
    values = checked_line(noisy, lower, total)
    if values.size == 0 or total == lower:
        return np.full(values.size, lower)
    upper = math.inf if total is None else total
    violations = -_slacks(values, lower, upper)
    tolerance = _ROUNDING * max(float(np.abs(values).max()), abs(lower), 0.0 if total is None else abs(total))
    active, line = violations > tolerance, values
    while active.any():
        forces = _forces(active, violations)
        line = values + _shared(forces[:-1] - forces[1:])
        violated = ~active & (_slacks(line, lower, upper) < -tolerance)
        if not violated.any() or (active | violated).all():
            break
        active = active | violated
    return np.clip(np.maximum.accumulate(line), lower, total)


def _slacks(line: FloatArray, lower: float, upper: float) -> FloatArray:
    """``B x - c``: shape (N + 1,)."""
    return np.concatenate([[line[0] - lower], np.diff(line), [upper - line[-1]]])


def _shared(values: FloatArray) -> FloatArray:
    """``K v``: for each point, the sum over the dyadic nodes that contain it of all values in the node."""
    sums = [values]
    while sums[-1].size > 1:
        sums.append(np.add.reduceat(sums[-1], np.arange(0, sums[-1].size, 2)))
    spread = sums[-1]
    for level in sums[-2::-1]:
        spread = level + np.repeat(spread, 2)[: level.size]
    return spread


@dataclass(frozen=True, kw_only=True, eq=False)
class _Joints:
    """The joints between neighbouring blocks of one level; an odd last block has none.

    Attributes:
        steps: the steps of the line at these joints, as a slice of the N - 1 steps between points.
        pull_first, pull_last: the opening of the joint by a force of 1 at the first (last) point of the pair.
        stiffness: the force in the joint for an opening of 1; 0 where the step is inactive.
        force: the force that closes the joint if there are no forces at the ends of the pair.
    """

    steps: slice
    pull_first: FloatArray
    pull_last: FloatArray
    stiffness: FloatArray
    force: FloatArray


def _forces(active: BoolArray, violations: FloatArray) -> FloatArray:
    """``f`` with ``A f = r`` on the active constraints and 0 elsewhere; shape (N + 1,)."""
    joints, (yields, moved) = _pass_up(active[1:-1], violations[1:-1])
    first, last, both = (float(value[0]) for value in yields)
    ends = active[[0, -1]]
    forces = np.zeros(active.size)
    if ends.any():
        matrix = np.array([[first, -both], [-both, last]])[np.ix_(ends, ends)]
        wanted = np.array([violations[0] - moved[0][0], violations[-1] + moved[1][0]])
        at_ends = np.zeros(2)
        at_ends[ends] = np.linalg.solve(matrix, wanted[ends])
        forces[[0, -1]] = at_ends
    _pass_down(joints, forces)
    return forces


def _pass_up(active: BoolArray, violations: FloatArray) -> tuple[list[_Joints], tuple[tuple[FloatArray, ...], ...]]:
    """The pass up: all joints, and the response and the displacement of the ends of the whole line."""
    size, stride = active.size + 1, 1
    first = last = both = np.ones(size)
    moved_first = moved_last = np.zeros(size)
    joints = []
    while first.size > 1:
        pairs, odd = divmod(first.size, 2)
        left, right = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
        steps = slice(stride - 1, stride - 1 + 2 * stride * (pairs - 1) + 1, 2 * stride)
        pull_first, pull_last = -both[left], both[right]
        stiffness = active[steps] / (last[left] + first[right])
        force = (violations[steps] - moved_first[right] + moved_last[left]) * stiffness
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


def _pass_down(joints: list[_Joints], forces: FloatArray) -> None:
    """The pass down: fill in the forces of the steps between points, given the forces at the ends of the line."""
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
