"""Two curves at one cost: a row has a score of either model, so it is in both tables."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import roc_comparison
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from tests.audit.test_roc_curve_audit import evidence, table
from tests.support.audit import Tampered, audit, convicts, keeps, samples

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(3)
NAME = "ROC comparison"
BASE = (table([1, 0, 2, 0], [0, 3, 0, 1]), table([0, 1, 0, 2], [1, 2, 1, 0]))
# the models disagree about the row: the first puts it highest, the second lowest
ADDED = ((table([1, 0, 2, 0], [0, 3, 0, 2]), table([0, 1, 0, 2], [2, 2, 1, 0])), BASE)
FLIPPED = (ADDED[0], (table([1, 0, 2, 1], [0, 3, 0, 1]), table([1, 1, 0, 2], [1, 2, 1, 0])))
PAIRS = pytest.mark.parametrize(
    ("neighbours", "pair"),
    [(Neighbours.ADD_REMOVE, ADDED), (Neighbours.REPLACE_ONE, FLIPPED)],
    ids=["added", "flipped"],
)


MODELS = ("first", "second")


def comparison_of(noise, neighbours, pair):
    def one(statistic):
        found = roc_comparison.measure(statistic, epsilon=EPSILON, neighbours=neighbours, noise=noise, confidence=0.9)
        return sum(evidence(getattr(found, name), *(tables[i] for tables in pair)) for i, name in enumerate(MODELS))

    def mechanism(statistic, count):
        return np.array([one(statistic) for _ in range(count)])

    return mechanism, *pair


@pytest.mark.sampled
@PAIRS
def test_a_comparison_keeps_epsilon_and_uses_it(neighbours, pair):
    found = audit(*comparison_of(SecureNoise(), neighbours, pair), samples=samples(1500))
    assert keeps(found, NAME, relation=neighbours, claimed=EPSILON, at_least=0.04)


@pytest.mark.verify
@PAIRS
def test_half_the_noise_is_convicted(neighbours, pair):
    noise = Tampered(source=SeededNoise(191), epsilon_factor=2)
    found = audit(*comparison_of(noise, neighbours, pair), samples=samples(3000))
    assert convicts(found, NAME, relation=neighbours, claimed=EPSILON, fault="half the noise")


@pytest.mark.verify
def test_noise_for_an_added_row_is_convicted_where_rows_are_replaced():
    found = audit(*comparison_of(SeededNoise(192), Neighbours.ADD_REMOVE, FLIPPED), samples=samples(6000))
    relation = Neighbours.REPLACE_ONE
    assert convicts(found, NAME, relation=relation, claimed=EPSILON, fault="noise for an added row")


@pytest.mark.verify
@PAIRS
def test_the_whole_budget_for_either_model_is_convicted(monkeypatch, neighbours, pair):
    class Forgetful(BudgetMeter):
        def spend_share(self, part, *, label):
            return self.granted.epsilon

        def spend_rest(self, *, label):
            return self.granted.epsilon

    monkeypatch.setattr("spark_jobs.diagnostics.diagnostic.BudgetMeter", Forgetful)
    found = audit(*comparison_of(SeededNoise(193), neighbours, pair), samples=samples(3000))
    assert convicts(found, NAME, relation=neighbours, claimed=EPSILON, fault="the whole budget for either model")
