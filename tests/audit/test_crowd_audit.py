"""The number of rows of both classes with almost equal scores: its sensitivity by brute force, and its noise."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.diagnostics._score_figures import measurement
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.statistics import ScoreCounts
from tests.suites.audit import REPLACED, ExactAudit, Fault
from tests.support.sparse_vector_loss import RecordingNoise

pytestmark = [pytest.mark.audit, pytest.mark.slow]

CLAIMED = Decimal(1)
TABLES = 400
FACTOR = 3
"""Of a count that is scaled as if the factor of the larger class could exceed 1."""


def neighbours_of(relation, random):
    """Counts of both classes in few cells, and those with a row more, or with one replaced."""
    rows = random.integers(0, 9, (2, 40))
    more = rows.copy()
    more[random.integers(2), random.integers(40)] += 1
    if relation is REPLACED:
        there = np.argwhere(rows > 0)
        more[tuple(there[random.integers(len(there))])] -= 1
    return rows, more


class TestCrowd(ExactAudit):
    mechanisms = ("rows of both classes with almost equal scores",)
    claimed, at_least = CLAIMED, 0.99
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "budget spent twice": Fault(planted={"times": 2}),
        "a class counted with a factor above 1": Fault(planted={"factor": FACTOR}),
    }

    def loss(self, mechanism, relation, *, less=1, times=1, factor=1):
        drawn, random = RecordingNoise(), np.random.default_rng(5)
        terms = Terms(epsilon=CLAIMED / measurement.ENDS_SHARE, neighbours=relation, noise=drawn)
        counts = ScoreCounts.from_arrays([0, 1] * 40, [0.2, 0.3] * 40)
        measurement._crowded(counts, (40, 40), meter=terms.meter(), terms=terms)
        moved = 0
        for _ in range(TABLES):
            sizes = tuple(int(size) for size in random.integers(-5, 300, 2))
            one, other = (measurement.crowd(*(factor * rows), sizes) for rows in neighbours_of(relation, random))
            moved = max(moved, abs(one - other))
        return times * moved / (drawn.scales[0] / less)
