"""Two curves at one cost: a row has a score of either model, so it is in both tables."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.diagnostics import roc_comparison
from tests.audit.test_roc_curve_audit import evidence, table
from tests.suites.audit import ADDED, REPLACED, Fault, SampledAudit, forget_spending

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(3)
BASE = (table([1, 0, 2, 0], [0, 3, 0, 1]), table([0, 1, 0, 2], [1, 2, 1, 0]))
# the models disagree about the row: the first puts it highest, the second lowest
WITH_A_ROW = (table([1, 0, 2, 0], [0, 3, 0, 2]), table([0, 1, 0, 2], [2, 2, 1, 0]))
FLIPPED = (table([1, 0, 2, 1], [0, 3, 0, 1]), table([1, 1, 0, 2], [1, 2, 1, 0]))
PAIRS = {ADDED: (WITH_A_ROW, BASE), REPLACED: (WITH_A_ROW, FLIPPED)}
MODELS = ("first", "second")


def comparison_of(noise, neighbours, pair):
    def one(statistic):
        found = roc_comparison.measure(statistic, epsilon=EPSILON, neighbours=neighbours, noise=noise, confidence=0.9)
        return sum(evidence(getattr(found, name), *(tables[i] for tables in pair)) for i, name in enumerate(MODELS))

    def mechanism(statistic, count):
        return np.array([one(statistic) for _ in range(count)])

    return mechanism, *pair


class TestRocComparison(SampledAudit):
    mechanisms = ("ROC comparison",)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.04, 191, 1500, 3000
    faults = {
        "half the noise": Fault(noise={"epsilon_factor": 2}),
        "noise for an added row": Fault(planted={"told": ADDED}, relations=[REPLACED], samples=6000),
        "the whole budget for either model": Fault(patch=forget_spending),
    }

    def mechanism(self, mechanism, relation, noise, *, told=None):
        return comparison_of(noise, told or relation, PAIRS[relation])
