"""The exact law of the groups of a stream, from the scales that are drawn with, and the loss between two laws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from spark_jobs.papers.streams.grouping import PARTS
from tests.support.sparse_vector_loss import geometric_mass, tail


@dataclass(frozen=True)
class GroupScales:
    """What a grouping draws with, in parts."""

    level: int
    of_levels: float
    of_tests: float


def deviation(counts):
    """``sum |c - mean|`` in whole parts, rounded, from the definition."""
    mean = Fraction(sum(counts), len(counts))
    return math.floor(PARTS * sum(abs(count - mean) for count in counts) + Fraction(1, 2))


def group_law(counts, scales):
    """The first step of each step's group, as a tuple, to its probability."""
    support, mass = geometric_mass(scales.of_levels, math.ceil(25 * scales.of_levels))
    levels = support + scales.level

    def runs_of(start):
        """(starts of the steps from ``start`` on, probability), where no group is open before ``start``."""
        if start >= len(counts):
            yield (), 1.0
            return
        joined = mass
        for at in range(start + 1, len(counts)):
            above = tail(scales.of_tests, levels - deviation(counts[start : at + 1]))
            closed = float((joined * above).sum())
            for later, chance in runs_of(at + 1):
                yield (*(start,) * (at - start), at, *later), closed * chance
            joined = joined * (1 - above)
        yield (start,) * (len(counts) - start), float(joined.sum())

    return dict(runs_of(0))


def law_loss(one, other):
    """The largest |log ratio| of the probabilities of one outcome."""
    return max(abs(math.log(one[key] / other[key])) for key in one if min(one[key], other[key]) > 1e-9)


def neighbours_of(counts, replaced):
    """Streams with one event more, or with one event at another step."""
    line = np.array(counts)
    unit = np.eye(line.size, dtype=int)
    for new in range(line.size):
        if not replaced:
            yield (line + unit[new]).tolist()
        else:
            yield from ((line + unit[new] - unit[old]).tolist() for old in np.flatnonzero(line) if old != new)
