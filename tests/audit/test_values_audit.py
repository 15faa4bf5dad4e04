"""The number of different scores beside an average precision: its sensitivity by brute force, and its noise."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.diagnostics._score_figures import ties
from spark_jobs.diagnostics.diagnostic import Terms
from tests.audit.test_crowd_audit import neighbours_of
from tests.suites.audit import ExactAudit, Fault
from tests.support.sparse_vector_loss import RecordingNoise

pytestmark = [pytest.mark.audit, pytest.mark.slow]

CLAIMED = Decimal(1)
TABLES = 400


class TestValues(ExactAudit):
    mechanisms = ("how many different scores there are",)
    claimed, at_least = CLAIMED, 0.99
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "budget spent twice": Fault(planted={"times": 2}),
        "a score counted in each class": Fault(planted={"classes": 2}),
    }

    def loss(self, mechanism, relation, *, less=1, times=1, classes=1):
        drawn, random = RecordingNoise(), np.random.default_rng(5)
        terms = Terms(epsilon=CLAIMED / ties.VALUES_SHARE, neighbours=relation, noise=drawn)
        counts = np.array([[0, 2, 1], [0, 1, 0]])
        measured = ties.measure_values(counts, meter=terms.meter(), noise=drawn)
        assert measured.scale == drawn.scales[0]
        moved = 0
        for _ in range(TABLES):
            one, other = (classes * ties.different_scores(rows) for rows in neighbours_of(relation, random))
            moved = max(moved, abs(one - other))
        return times * moved / (drawn.scales[0] / less)
