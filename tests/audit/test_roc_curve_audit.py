from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.diagnostics import roc_curve
from spark_jobs.mechanisms.cells import totals
from spark_jobs.statistics import ScoreCounts
from tests.suites.audit import ADDED, REPLACED, Fault, SampledAudit, forget_spending
from tests.support.audit import log_ratio

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)


def table(negatives, positives):
    return ScoreCounts(negatives=np.array(negatives), positives=np.array(positives))


BASE = table([1, 0, 2, 0], [0, 3, 0, 1])
PAIRS = {
    ADDED: (table([1, 0, 2, 0], [0, 3, 0, 2]), BASE),
    REPLACED: (table([1, 0, 2, 0], [1, 3, 0, 1]), table([1, 0, 2, 1], [0, 3, 0, 1])),
}


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


class TestRocCurve(SampledAudit):
    mechanisms = {"ROC curve, auto": "auto", "ROC curve, fixed_cells": "fixed_cells"}
    claimed, at_least, seed, quick, thorough = EPSILON, 0.05, 91, 2000, 4000
    faults = {**SampledAudit.faults, "budget spent twice": Fault(patch=forget_spending, long=True)}
    faults = {name: replace(fault, mechanisms=["ROC curve, auto"]) for name, fault in faults.items()}

    def mechanism(self, mechanism, relation, noise, *, told=None):
        return roc_of(noise, told or relation, PAIRS[relation], self.mechanisms[mechanism])


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


class TestClassesByHistograms(SampledAudit):
    mechanisms = {f"ROC curve, fixed cells by {name}": name for name in ("geometric", "hb", "dawa")}
    claimed, seed, quick, thorough = LARGE, 94, 1000, 3000
    faults = {"half the noise": Fault(noise={"epsilon_factor": 2}, mechanisms=[*mechanisms][:2], long=True)}

    def floor(self, mechanism, relation):
        return {"geometric": 0.3, "hb": 0.1, "dawa": 0.05}[self.mechanisms[mechanism]]

    def mechanism(self, mechanism, relation, noise):
        return by_histogram(noise, relation, PAIRS[relation], self.mechanisms[mechanism])


class TestCountsBetweenMedians(SampledAudit):
    mechanisms = ("ROC curve, recursive medians",)
    kept = ()
    claimed, at_least, seed, quick, thorough = LARGE, 0.1, 95, 600, 2000
    faults = {"half the noise of the counts": Fault(noise={"epsilon_factor": 2})}

    def mechanism(self, mechanism, relation, noise):
        return by_histogram(noise, relation, PAIRS[relation], None, "recursive_medians")
