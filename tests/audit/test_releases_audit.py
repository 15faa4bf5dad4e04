"""Whole releases of score diagnostics: the exact log ratio of all that they drew, which pure privacy bounds.

Confusion matrices, which have no audit of their own elsewhere, are sampled as well.
"""

from decimal import Decimal
from functools import partial

import numpy as np
import pytest

from spark_jobs.diagnostics import binned_residuals, calibration, confusion_matrix, ecdf, roc_curve
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.suites.audit import ADDED, REPLACED, ExactAudit, SampledAudit
from tests.support.audit import Tampered, log_ratio
from tests.support.sharing import measure_shared
from tests.support.transcripts import Transcripts

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)


def table(negatives, positives):
    return ScoreCounts(negatives=np.array(negatives), positives=np.array(positives))


NEGATIVES, POSITIVES = [1, 0, 2, 0, 0, 1, 0, 0], [0, 0, 3, 0, 1, 0, 0, 1]
BASE = table(NEGATIVES, POSITIVES)
ONE_MORE = table(NEGATIVES, [*POSITIVES[:-1], 2])
PAIRS = {
    ADDED: [(ONE_MORE, BASE)],
    # the row that is more turns negative and moves to the other end; or turns negative where it is
    REPLACED: [
        (ONE_MORE, table([2, *NEGATIVES[1:]], POSITIVES)),
        (ONE_MORE, table([*NEGATIVES[:-1], 1], POSITIVES)),
    ],
}
RELEASES = {
    "binned residuals, auto": partial(binned_residuals.measure, bins=4),
    "binned residuals, fixed bins": partial(binned_residuals.measure, method="fixed_bins", bins=4),
    "calibration, auto": partial(calibration.measure, bins=4),
    "calibration, fixed bins": partial(calibration.measure, method="fixed_bins", bins=4),
    "ROC curve, auto": partial(roc_curve.measure, thresholds=4),
    "ROC curve, fixed cells": partial(roc_curve.measure, method="fixed_cells", thresholds=4),
    "ROC curve, fixed cells by hb": partial(roc_curve.measure, method="fixed_cells", thresholds=4, histogram="hb"),
    "confusion matrix": confusion_matrix.measure,
    "confusion matrices at three thresholds": partial(confusion_matrix.measure, thresholds=(0.25, 0.5, 0.75)),
    "distribution of scores": partial(ecdf.measure, points=2),
    "figures of scores in one": partial(
        measure_shared, kinds=("roc_curve", "auc", "calibration", "binned_residuals", "confusion_matrix")
    ),
}


class TestReleases(ExactAudit):
    """The largest log ratio of what runs on neighbours drew, at the scales that they drew with."""

    mechanisms = RELEASES
    claimed, at_least, verified = EPSILON, 0.7, True

    def loss(self, mechanism, relation, *, told=None, times=1, less=1):
        def run(statistic, noise):
            for _ in range(times):
                source = Tampered(source=noise, epsilon_factor=less)
                RELEASES[mechanism](statistic, epsilon=EPSILON, neighbours=told or relation, noise=source)

        transcripts = Transcripts(run)
        tables = [pair[::step] for pair in PAIRS[relation] for step in (1, -1)]
        return max(transcripts.evidence(*pair, SeededNoise(seed)) for pair in tables for seed in range(40))


def of_matrix(noise, relation, pair):
    """The log ratio of the four noisy counts of a matrix at one half."""

    def once(statistic):
        drawn = confusion_matrix.measure(statistic, epsilon=EPSILON, neighbours=relation, noise=noise)
        value = 0.0
        for label in ("negatives", "positives"):
            noisy = getattr(drawn, label)
            exact = (np.concatenate(noisy.tree.nodes(totals(getattr(one, label), drawn.cuts))) for one in pair)
            value += log_ratio(np.concatenate(noisy.nodes), *exact, noisy.scale)
        return value

    return (lambda statistic, count: np.array([once(statistic) for _ in range(count)])), *pair


class TestConfusionMatrix(SampledAudit):
    mechanisms = ("confusion matrix",)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.2, 101, 1500, 4000

    def mechanism(self, mechanism, relation, noise, *, told=None):
        return of_matrix(noise, told or relation, PAIRS[relation][0])
