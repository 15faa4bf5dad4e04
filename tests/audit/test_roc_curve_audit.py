from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import roc_curve
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.audit import Tampered, audit, convicts, keeps, log_ratio, samples

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)


def table(negatives, positives):
    return ScoreCounts(negatives=np.array(negatives), positives=np.array(positives))


BASE = table([1, 0, 2, 0], [0, 3, 0, 1])
ADDED = (table([1, 0, 2, 0], [0, 3, 0, 2]), BASE)
FLIPPED = (table([1, 0, 2, 0], [1, 3, 0, 1]), table([1, 0, 2, 1], [0, 3, 0, 1]))
PAIRS = pytest.mark.parametrize(
    ("neighbours", "pair"),
    [(Neighbours.ADD_REMOVE, ADDED), (Neighbours.REPLACE_ONE, FLIPPED)],
    ids=["added", "flipped"],
)


def evidence(measurement, first, second):
    """Log ratio of all that a measurement holds, under the claimed scales."""
    value = 0.0
    for cells in measurement.located:
        classes = [np.stack([t.negatives, t.positives]) for t in (first, second)]
        if cells.counts.ndim == 1:
            classes = [counts.sum(axis=0) for counts in classes]
        exact = (totals(counts, cells.cuts).ravel() for counts in classes)
        value += log_ratio(cells.counts.ravel(), *exact, cells.scale)
    for label in ("negatives", "positives"):
        noisy = getattr(measurement, label)
        exact = (np.concatenate(noisy.tree.nodes(totals(getattr(t, label), measurement.cuts))) for t in (first, second))
        value += log_ratio(np.concatenate(noisy.nodes), *exact, noisy.scale)
    return value


def roc_of(noise, neighbours, pair, method="auto"):
    def mechanism(statistic, count):
        options = {"epsilon": EPSILON, "neighbours": neighbours, "noise": noise, "method": method, "thresholds": 4}
        return np.array([evidence(roc_curve.measure(statistic, **options), *pair) for _ in range(count)])

    return mechanism, *pair


@pytest.mark.sampled
@PAIRS
@pytest.mark.parametrize("method", ["auto", "fixed_cells"])
def test_a_roc_release_keeps_epsilon_and_uses_it(method, neighbours, pair):
    found = audit(*roc_of(SecureNoise(), neighbours, pair, method), samples=samples(2000))
    assert keeps(found, f"ROC curve, {method}", relation=neighbours, claimed=EPSILON, at_least=0.05)


@pytest.mark.verify
@PAIRS
def test_half_the_noise_is_convicted(neighbours, pair):
    noise = Tampered(source=SeededNoise(91), epsilon_factor=2)
    found = audit(*roc_of(noise, neighbours, pair), samples=samples(4000))
    assert convicts(found, "ROC curve, auto", relation=neighbours, claimed=EPSILON, fault="half the noise")


@pytest.mark.verify
def test_noise_for_an_added_row_is_convicted_where_rows_are_replaced():
    found = audit(*roc_of(SeededNoise(92), Neighbours.ADD_REMOVE, FLIPPED), samples=samples(4000))
    relation, fault = Neighbours.REPLACE_ONE, "noise for an added row"
    assert convicts(found, "ROC curve, auto", relation=relation, claimed=EPSILON, fault=fault)


@pytest.mark.verify
@PAIRS
def test_a_meter_that_forgets_is_convicted(monkeypatch, neighbours, pair):
    class Forgetful(BudgetMeter):
        def spend_share(self, part, *, label):
            return self.granted.epsilon  # looking costs as much as everything

        def spend_rest(self, *, label):
            return self.granted.epsilon

    monkeypatch.setattr("spark_jobs.diagnostics.diagnostic.BudgetMeter", Forgetful)
    found = audit(*roc_of(SeededNoise(93), neighbours, pair), samples=samples(4000))
    assert convicts(found, "ROC curve, auto", relation=neighbours, claimed=EPSILON, fault="budget spent twice")


LARGE = Decimal(3)
"""For what is worth less evidence: thresholds are not part of it."""


def by_histogram(noise, neighbours, pair, histogram, method="fixed_cells"):
    """The log ratio under plain noise: the whole evidence of ``geometric``, and a fair statistic of the others."""

    def one(statistic):
        measurement = roc_curve.measure(
            statistic, epsilon=LARGE, delta="1e-9", neighbours=neighbours, noise=noise, method=method, thresholds=4,
            histogram=histogram,
        )  # fmt: skip
        if histogram is None:
            return evidence(measurement, *pair)
        return sum(
            log_ratio(released.cells, *(totals(getattr(t, label), measurement.cuts) for t in pair), released.scale)
            for label, released in (("negatives", measurement.negatives), ("positives", measurement.positives))
        )

    def mechanism(statistic, count):
        return np.array([one(statistic) for _ in range(count)])

    return mechanism, *pair


@pytest.mark.sampled
@PAIRS
@pytest.mark.parametrize(("histogram", "least"), [("geometric", 0.3), ("hb", 0.1), ("dawa", 0.05)])
def test_classes_by_histograms_keep_epsilon_and_use_it(histogram, least, neighbours, pair):
    found = audit(*by_histogram(SecureNoise(), neighbours, pair, histogram), samples=samples(1000))
    name = f"ROC curve, fixed cells by {histogram}"
    assert keeps(found, name, relation=neighbours, claimed=LARGE, at_least=least)


@pytest.mark.verify
@PAIRS
@pytest.mark.parametrize("histogram", ["geometric", "hb"])
def test_classes_by_histograms_with_half_the_noise_are_convicted(histogram, neighbours, pair):
    noise = Tampered(source=SeededNoise(94), epsilon_factor=2)
    found = audit(*by_histogram(noise, neighbours, pair, histogram), samples=samples(3000))
    name = f"ROC curve, fixed cells by {histogram}"
    assert convicts(found, name, relation=neighbours, claimed=LARGE, fault="half the noise")


@pytest.mark.verify
@PAIRS
def test_counts_between_medians_keep_epsilon_and_half_their_noise_is_convicted(neighbours, pair):
    name = "ROC curve, recursive medians"
    found = audit(*by_histogram(SecureNoise(), neighbours, pair, None, "recursive_medians"), samples=samples(600))
    assert keeps(found, name, relation=neighbours, claimed=LARGE, at_least=0.1)
    noise = Tampered(source=SeededNoise(95), epsilon_factor=2)
    found = audit(*by_histogram(noise, neighbours, pair, None, "recursive_medians"), samples=samples(2000))
    assert convicts(found, name, relation=neighbours, claimed=LARGE, fault="half the noise of the counts")
