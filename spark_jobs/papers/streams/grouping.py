"""Private grouping of the similar steps of a stream of counts: the grouper of PeGaSus, in bounded memory.

Specification (Chen, Machanavajjhala, Hay, Miklau, *PeGaSus: data-adaptive differentially private stream processing*,
CCS 2017; Chen 2018, algorithm 16). The deviation of a group G of steps is ``dev(G) = sum |c_i - mean(G)|``. If no group
is open, step t opens one, without a test, and a noisy threshold ``theta + Lap`` is drawn for it. Otherwise t is tested:
if ``dev(G + t) + Lap`` is below the group's threshold, t joins the open group G; if not, G is closed and t becomes a
group of its own, which is closed at once. A group is also closed when it has ``max_group`` steps.

Guarantee: epsilon-DP for a row that is added or removed at one step, with noise of scale ``2 / e1`` on a threshold and
``4 / e2`` on a test, ``e1 + e2 = epsilon``. With twice the noise, epsilon-DP also for a row that is replaced, possibly
by a row at another step.
Sensitivity. One count changes by 1, so ``dev`` changes by at most ``2 (1 - 1 / |G|)``: the term of the changed step by
``1 - 1 / |G|``, the others by ``1 / |G|`` each. ``dev`` is not monotone in the counts. Here ``dev`` is rounded to
multiples of ``1 / PARTS``; as rounding commutes with whole shifts, the rounded value moves by at most ``2 PARTS`` such
multiples.
Proof. The tests of one group are an instance of the sparse vector technique with cut-off 1 and sensitivity 2, at cost
epsilon for any number of tests (``sparse_vector``). The steps of an instance are those of its group and the one that
closed it, which starts no instance: every step is used by exactly one instance. Given the previous answers, an instance
depends only on the counts of its own steps, so that the probability of a sequence of answers is a product over the
instances, of which only one changes. Replacing a row removes one and adds one.

Running time of a step: one insertion into a sorted list of at most ``max_group`` counts, and a few integers.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_jobs.arrays import Int64Array

PARTS = 16
"""Deviations are rounded to multiples of 1 / PARTS."""


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupState:
    """The groups of one stream between two steps; private, so its ``repr`` shows no counts.

    Attributes:
        step: the number of steps so far.
        start: the first step of the last group.
        open: whether the last group may grow.
        level: the noisy threshold of the last group, in parts (multiples of ``1 / PARTS`` rows).
        counts: the exact counts of the open group, ascending; empty if no group is open.
    """

    step: int = 0
    start: int = 0
    open: bool = False
    level: int = 0
    counts: tuple[int, ...] = ()


def rounded_deviation(size: Any, mean: Any, rest: Any, inside: Any, below: Any) -> Any:
    """``dev`` of a group in parts, rounded: from whole numbers, or from arrays of them for several groups.

    Args:
        size: the number of counts, up to 65,536.
        mean: their sum divided by ``size``, rounded down.
        rest: the remainder of this division.
        inside: how many of them are not above ``mean``.
        below: the sum of these.
    """
    # dev(G) is twice the total shortfall of the counts below the mean; no term reaches 2^63 for counts up to 2^40
    return 2 * PARTS * (inside * mean - below) + (4 * PARTS * inside * rest + size) // (2 * size)


def group_steps(
    state: GroupState, counts: Sequence[int], *, levels: Sequence[int], tests: Sequence[int], max_group: int
) -> tuple[GroupState, Int64Array]:
    """The groups of the next steps of one stream.

    Args:
        state: the state after the previous step.
        counts: exact counts of the next steps, whole numbers of at least 0.
        levels: a noisy threshold for each step, in parts (multiples of ``1 / PARTS`` rows); used if the step opens a
            group.
        tests: noise for each step, in parts; used if the step is tested.
        max_group: the largest number of steps of a group, at least 1; public.

    Returns:
        The state after the last step, and for each step the first step of its group, shape (len(counts),): when step t
        is published and its group begins at s, the group consists of the steps s to t.
    """
    start, growing, level, ordered = state.start, state.open, state.level, list(state.counts)
    size, total = len(ordered), sum(ordered)
    mean = total // size if size else 0
    # the first `inside` of the ordered counts are not above the mean; their sum is `below`
    inside = bisect_right(ordered, mean)
    below = sum(ordered[:inside])
    starts = []
    for at, count in enumerate(counts):
        if not growing:
            start, growing, level = state.step + at, max_group > 1, levels[at]
            ordered, size, total, mean, inside, below = [count], 1, count, count, 1, count
        else:
            insort(ordered, count)
            if count <= mean:
                inside, below = inside + 1, below + count
            size, total = size + 1, total + count
            mean = total // size
            while inside < size and ordered[inside] <= mean:
                below, inside = below + ordered[inside], inside + 1
            while ordered[inside - 1] > mean:
                inside -= 1
                below -= ordered[inside]
            if rounded_deviation(size, mean, total - mean * size, inside, below) + tests[at] < level:
                growing = size < max_group
            else:
                start, growing = state.step + at, False
        starts.append(start)
    after = GroupState(
        step=state.step + len(starts),
        start=start,
        open=growing,
        level=level if growing else 0,
        counts=tuple(ordered) if growing else (),
    )
    return after, np.array(starts, dtype=np.int64)
