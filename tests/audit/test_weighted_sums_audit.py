from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import average_precision
from spark_jobs.diagnostics._score_figures import weighted as module
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.weighted_sums import CellWeights, weighted_sum
from spark_jobs.statistics import ScoreCounts
from tests.suites.audit import REPLACED, Fault, SampledAudit
from tests.support.audit import convicts, exactly, keeps, log_ratio

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)
# the rows whose weights differ the most: one that is added, one that changes its class and its cell
WEIGHTS = CellWeights(cuts=np.array([0, 1, 2]), weights=np.array([[-4096, -900], [300, 2500]]), resolution=1e-6)
BASE = np.array([[3, 0], [2, 4]])
PAIRS = {
    Neighbours.ADD_REMOVE: (BASE, BASE + np.array([[1, 0], [0, 0]])),
    Neighbours.REPLACE_ONE: (BASE + np.array([[0, 0], [0, 1]]), BASE + np.array([[1, 0], [0, 0]])),
}
BOTH = pytest.mark.parametrize("relation", list(Neighbours))


def sums(relation, noise, *, told=None, times=1):
    """Log ratios of a sum's densities at the scale that the relation asks for."""
    first, second = (np.array([WEIGHTS.total(table)]) for table in PAIRS[relation])
    scale = WEIGHTS.sensitivity(relation) / float(EPSILON)

    def mechanism(table, count):
        options = {"epsilon": EPSILON, "neighbours": told or relation, "noise": noise}
        drawn = np.array([[weighted_sum(table, WEIGHTS, **options).total] for _ in range(count * times)])
        return log_ratio(drawn, first, second, scale).reshape(count, times).sum(axis=1)

    return mechanism, *PAIRS[relation]


class TestWeightedSum(SampledAudit):
    mechanisms = ("weighted sum",)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.3, 131, 1500, 6000
    shipped_options = {"threshold": 0.0}
    faults = {
        "half the noise": Fault(noise={"epsilon_factor": 2}),
        "budget spent twice": Fault(planted={"times": 2}),
        "noise for an added row": Fault(planted={"told": Neighbours.ADD_REMOVE}, relations=[REPLACED], samples=12000),
    }

    def mechanism(self, mechanism, relation, noise, **planted):
        return sums(relation, noise, **planted)


def table(rows, extra=()):
    """Many rows in 64 cells, so that there is a weighted sum, and some more."""
    cells = np.arange(64)
    negatives, positives = (np.rint(rows * np.exp(-(((cells - at) / 9.0) ** 2))).astype(np.int64) for at in (24, 38))
    for label, cell, count in extra:
        (positives if label else negatives)[cell] += count
    return ScoreCounts(negatives=negatives, positives=positives)


RELEASED = {
    Neighbours.ADD_REMOVE: (table(400), table(400, [(0, 63, 1)])),
    Neighbours.REPLACE_ONE: (table(400, [(1, 40, 1)]), table(400, [(0, 63, 1)])),
}


def transcript_loss(made, first, second, relation):
    """The log ratio of everything that one release has drawn, by the noise that its claimed spendings allow."""
    value, (one, other) = 0.0, (np.stack([each.negatives, each.positives]) for each in (first, second))
    factor = 1 if relation is Neighbours.ADD_REMOVE else 2
    epsilons = [float(spending.epsilon) for spending in made.spendings]
    for cells, epsilon in zip(made.counts.located, epsilons, strict=False):
        both = (one, other) if cells.counts.ndim > 1 else (one.sum(axis=0), other.sum(axis=0))
        value += log_ratio(cells.counts.ravel(), *(totals(each, cells.cuts).ravel() for each in both), cells.scale)
        assert cells.scale == pytest.approx(factor / epsilon)
    for label, tree in enumerate((made.counts.negatives, made.counts.positives)):
        exact = (totals(each[label], made.counts.cuts) for each in (one, other))
        value += log_ratio(tree.nodes[0], *exact, tree.scale)
        assert tree.scale == pytest.approx(factor / epsilons[-2])
    weights = made.weighted.weights
    exact = (np.array([weights.total(each)]) for each in (one, other))
    assert made.weighted.scale == pytest.approx(weights.sensitivity(relation) / epsilons[-1])
    return value + log_ratio(np.array([made.weighted.total]), *exact, made.weighted.scale)


def losses(relation):
    found = []
    for seed in range(6):
        statistic = RELEASED[relation][seed % 2]
        options = {"epsilon": EPSILON, "neighbours": relation, "method": "weighted_counts", "noise": SeededNoise(seed)}
        made = average_precision.measure(statistic, **options)
        found.append(abs(transcript_loss(made, *RELEASED[relation], relation)))
    return found


@BOTH
def test_no_transcript_of_a_release_says_more_than_epsilon(relation):
    """Whatever was drawn: looks, counts and the weights that they chose; the bound holds for every single one."""
    assert keeps(
        exactly(max(losses(relation))), "average precision, weighted counts", relation=relation, claimed=EPSILON
    )


@BOTH
def test_a_sum_with_a_meter_that_forgets_is_convicted(monkeypatch, relation):
    class Forgetful(module.BudgetMeter):
        def spend_rest(self, *, label):
            super().spend_rest(label=label)
            return EPSILON

        @property
        def remaining(self):
            return EPSILON

    monkeypatch.setattr("spark_jobs.diagnostics.diagnostic.BudgetMeter", Forgetful)
    options = {"epsilon": EPSILON, "neighbours": relation, "method": "weighted_counts", "noise": SeededNoise(7)}
    made = average_precision.measure(RELEASED[relation][0], **options)
    spent = sum(float(spending.epsilon) for spending in made.spendings[:-1])
    loss = spent + made.weighted.weights.sensitivity(relation) / made.weighted.scale
    fault = "the looks forgotten"
    assert convicts(
        exactly(loss), "average precision, weighted counts", relation=relation, claimed=EPSILON, fault=fault
    )
