"""The exact law of what the streams of four states release, from the constants the code draws with."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import laplace_scale
from spark_jobs.papers.streams.grouping import PARTS
from spark_jobs.papers.streams.hierarchy import HierarchyShape, aggregate
from spark_jobs.papers.streams.pegasus import draw_tests
from spark_jobs.papers.streams.pruning import node_noise
from tests.support.noises import Recording
from tests.support.pruning_loss import answer_log
from tests.support.stream_law import GroupScales, group_law

ANSWERS = [
    ((False,), (False, False)),
    *(((True,), below) for below in itertools.product([False, True], repeat=2)),
]
"""What a pruning may answer at one step: the root, and its two children."""
NODES = 7
_cached_groups = lru_cache(maxsize=100_000)(group_law)
_cached_answers = lru_cache(maxsize=100_000)(answer_log)


def levels_of(answers):
    """The levels whose budget each node has after these answers, the root first."""
    (root,), below = answers
    middle = [(1 if each else 2) if root else 0 for each in below]
    return [1 if root else 3, *middle, *np.repeat([each == 1 for each in middle], 2).astype(int)]


@dataclass(frozen=True)
class HierarchyLaw:
    """The law of a stream that draws with the constants of ``shape``, or with a fault.

    Attributes:
        shape: whose constants.
        less: noise is that many times too small.
        generous: every measured node gets the budget of all levels from it on, whether those are pruned or not.
    """

    shape: HierarchyShape
    less: int = 1
    generous: bool = False
    groups: GroupScales = field(init=False)

    def __post_init__(self):
        asked, shape = Recording(), self.shape
        draw_tests(
            np.zeros(1, bool), np.ones((2, 1), bool),
            epsilon=shape.grouping, threshold=shape.threshold, neighbours=shape.neighbours, noise=asked,
        )  # fmt: skip
        of_levels, of_tests = (each.l1_sensitivity / float(each.epsilon) / self.less for each in asked.asked)
        level = round(shape.threshold / float(shape.grouping) * PARTS)
        object.__setattr__(self, "groups", GroupScales(level=level, of_levels=of_levels, of_tests=of_tests))

    def pruning_log(self, counts, answers):
        """The log probability of one step's answers."""
        of_node, step = node_noise(self.shape.pruning, self.shape.neighbours, levels=2)
        scale = 1 / float(of_node) / self.less
        return _cached_answers(tuple(counts), answers, scale, step, self.shape.refined_at)

    def group_laws(self, exact, kept):
        """The law of one node's groups at the steps where it is measured."""
        return _cached_groups(tuple(exact[kept].tolist()), self.groups)

    def scale(self, depth, levels):
        """Of a noisy count."""
        given = 3 - depth if self.generous else levels
        rows = 1 if self.shape.neighbours is Neighbours.ADD_REMOVE else 2
        return laplace_scale(self.shape.perturbing(given), rows) / self.less

    def loss(self, one, other):
        """The largest |log ratio| between two streams of shape (steps, 4), over all that may be released."""
        tables = [aggregate(np.array(each), self.shape.hierarchy) for each in (one, other)]
        differ = [node for node in range(NODES) if (tables[0][:, node] != tables[1][:, node]).any()]
        found = 0.0
        for answers in itertools.product(ANSWERS, repeat=len(one)):
            levels = np.array([levels_of(each) for each in answers])
            pruned = sum(
                self.pruning_log(a, each) - self.pruning_log(b, each)
                for a, b, each in zip(one, other, answers, strict=True)
            )
            up, down = pruned, -pruned
            for node in differ:
                kept = levels[:, node] > 0
                laws = [self.group_laws(table[:, node], kept) for table in tables]
                ratios = [
                    math.log(laws[0][key] / laws[1][key]) for key in laws[0] if min(laws[0][key], laws[1][key]) > 1e-9
                ]
                moved = np.abs(tables[0][kept, node] - tables[1][kept, node])
                depth = (node + 1).bit_length() - 1
                of_counts = sum(
                    gap / self.scale(depth, of) for gap, of in zip(moved, levels[kept, node], strict=True) if gap
                )
                up, down = up + max(ratios) + of_counts, down - min(ratios) + of_counts
            found = max(found, up, down)
        return found

    def evidence(self, steps, one, other):
        """The log ratio of what was released of the steps, between two streams."""
        value = 0.0
        for at, levels in enumerate(steps.levels):
            answers = ((bool(levels[0] == 1),), tuple(bool(each == 1) for each in levels[1:3]))
            value += self.pruning_log(one[at], answers) - self.pruning_log(other[at], answers)
        tables = [aggregate(np.array(each), self.shape.hierarchy) for each in (one, other)]
        for node in range(NODES):
            kept, depth = steps.levels[:, node] > 0, (node + 1).bit_length() - 1
            starts = tuple(steps.starts[kept, node].tolist())
            laws = [self.group_laws(table[:, node], kept)[starts] for table in tables]
            gaps = [np.abs(steps.noisy[kept, node] - table[kept, node]) for table in tables]
            scales = np.array([self.scale(depth, of) for of in steps.levels[kept, node]])
            value += math.log(laws[0] / laws[1]) + float(((gaps[1] - gaps[0]) / scales).sum())
        return value
