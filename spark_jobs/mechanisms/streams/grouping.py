"""Which steps of a stream of counts are alike: the grouping of PeGaSus, step by step and in bounded memory.

Specification (Chen, Machanavajjhala, Hay, Miklau, *PeGaSus: data-adaptive differentially private stream processing*,
CCS 2017; Chen 2018, algorithm 16). The deviation of a group G of steps is ``dev(G) = sum |c_i - mean(G)|``. Where no
group is open, step t opens one, and a threshold ``theta + Lap`` is drawn for it; t is not tested. Otherwise t is
tested: if ``dev(G + t) + Lap`` is below the group's threshold, it joins; if not, G is closed and t is a closed group of
its own. A group of ``max_group`` steps is closed as well.

Guarantee: epsilon-DP for a row more or less at one step, at noise of ``2 / e1`` on a threshold and ``4 / e2`` on a
test, ``e1 + e2 = epsilon``; for a row that is replaced, and may be at two steps, with twice the noise.
Sensitivity. One count changes by 1, so ``dev`` changes by at most ``2 (1 - 1 / |G|)``: its own term by ``1 - 1 / |G|``,
the others by ``1 / |G|`` each. It is not monotone. Here it is rounded to whole parts of ``1 / PARTS``; as rounding
commutes with whole shifts, the rounded value moves by at most ``2 PARTS`` of them.
Proof. The tests of one group are a sparse vector technique with cut-off 1 and sensitivity 2: epsilon, however many
there are (``sparse_vector``). The steps of a run are its group's and the one that closed it, which opens no run: every
step is read by exactly one run. Given the answers before it, a run depends on the counts of its own steps alone, so the
probability of a sequence of answers is a product of runs of which one changes. A replaced row is one less and one more.

Cost of a step: one insertion into a sorted list of at most ``max_group`` counts, and a few integers.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import Int64Array

PARTS = 16
"""Deviations are rounded to whole parts of 1 / PARTS."""


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupState:
    """What is kept between two steps; private, so its ``repr`` has no count.

    Attributes:
        step: steps so far.
        start: the first step of the last group.
        open: whether it may grow.
        level: its noisy threshold, in parts.
        counts: the exact counts of an open group, ascending; empty where none is open.
    """

    step: int = 0
    start: int = 0
    open: bool = False
    level: int = 0
    counts: tuple[int, ...] = ()


def group_steps(
    state: GroupState, counts: Sequence[int], *, levels: Sequence[int], tests: Sequence[int], max_group: int
) -> tuple[GroupState, Int64Array]:
    """The groups that the next steps belong to.

    Args:
        state: after the step before.
        counts: exact counts of the next steps, whole numbers of at least 0.
        levels: a noisy threshold for each of them, in parts; used where the step opens a group.
        tests: noise for each of them, in parts; used where it is tested.
        max_group: steps a group may have, at least 1; public.

    Returns:
        The state after the last step, and for each step the first step of its group, shape (len(counts),): a step t
        whose group begins at s is, when it is published, in the group of the steps s to t.
    """
    start, growing, level, ordered = state.start, state.open, state.level, list(state.counts)
    size, total = len(ordered), sum(ordered)
    mean = total // size if size else 0
    # of the counts in order, the first `inside` are not above the mean, and sum up to `below`
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
            # size * dev(G) is twice what the counts below the mean lack
            lacking = 2 * (inside * total - size * below)
            if (2 * PARTS * lacking + size) // (2 * size) + tests[at] < level:
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
