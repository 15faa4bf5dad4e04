"""Whole releases of score diagnostics: the exact log ratio of all that they drew, which pure privacy bounds.

Confusion matrices, which have no audit of their own elsewhere, are sampled as well.
"""

from decimal import Decimal
from functools import partial

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import binned_residuals, calibration, confusion_matrix, ecdf, roc_curve
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.audit import Tampered, audit, convicts, exactly, keeps, log_ratio, samples
from tests.support.sharing import measure_shared
from tests.support.transcripts import Transcripts

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)
ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


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
    "ROC curve and calibration in one": partial(measure_shared, kinds=("roc_curve", "calibration")),
}
EACH = pytest.mark.parametrize("name", RELEASES)
BOTH = pytest.mark.parametrize("relation", list(Neighbours), ids=["added", "replaced"])


def worst(name, relation, *, told=None, times=1, less=1, runs=40):
    """The largest log ratio of what runs on neighbours drew, at the scales that they drew with."""

    def run(statistic, noise):
        for _ in range(times):
            source = Tampered(source=noise, epsilon_factor=less)
            RELEASES[name](statistic, epsilon=EPSILON, neighbours=told or relation, noise=source)

    transcripts = Transcripts(run)
    tables = [pair[::step] for pair in PAIRS[relation] for step in (1, -1)]
    return exactly(max(transcripts.evidence(*pair, SeededNoise(seed)) for pair in tables for seed in range(runs)))


@EACH
@BOTH
def test_no_draw_of_a_release_tells_more_than_epsilon(name, relation):
    assert keeps(worst(name, relation), name, relation=relation, claimed=EPSILON, at_least=0.7)


@pytest.mark.verify
@EACH
@BOTH
@pytest.mark.parametrize(
    ("fault", "planted"),
    [("half the noise", {"less": 2}), ("budget spent twice", {"times": 2})],
    ids=["halved", "twice"],
)
def test_a_faulty_release_is_convicted(name, relation, fault, planted):
    assert convicts(worst(name, relation, **planted), name, relation=relation, claimed=EPSILON, fault=fault)


@pytest.mark.verify
@EACH
def test_noise_for_an_added_row_is_convicted_where_rows_are_replaced(name):
    found = worst(name, REPLACED, told=ADDED)
    assert convicts(found, name, relation=REPLACED, claimed=EPSILON, fault="noise for an added row")


def of_matrix(noise, relation, pair, *, told=None):
    """The log ratio of the four noisy counts of a matrix at one half."""

    def once(statistic):
        drawn = confusion_matrix.measure(statistic, epsilon=EPSILON, neighbours=told or relation, noise=noise)
        value = 0.0
        for label in ("negatives", "positives"):
            noisy = getattr(drawn, label)
            exact = (np.concatenate(noisy.tree.nodes(totals(getattr(one, label), drawn.cuts))) for one in pair)
            value += log_ratio(np.concatenate(noisy.nodes), *exact, noisy.scale)
        return value

    return (lambda statistic, count: np.array([once(statistic) for _ in range(count)])), *pair


MATRIX = "confusion matrix"


@pytest.mark.sampled
@BOTH
def test_a_sampled_matrix_keeps_epsilon_and_uses_it(relation):
    found = audit(*of_matrix(SecureNoise(), relation, PAIRS[relation][0]), samples=samples(1500))
    assert keeps(found, MATRIX, relation=relation, claimed=EPSILON, at_least=0.2)


@pytest.mark.verify
@BOTH
def test_a_sampled_matrix_with_half_the_noise_is_convicted(relation):
    noise = Tampered(source=SeededNoise(101), epsilon_factor=2)
    found = audit(*of_matrix(noise, relation, PAIRS[relation][0]), samples=samples(4000))
    assert convicts(found, MATRIX, relation=relation, claimed=EPSILON, fault="half the noise")


@pytest.mark.verify
def test_a_sampled_matrix_with_noise_for_an_added_row_is_convicted_where_rows_are_replaced():
    found = audit(*of_matrix(SeededNoise(102), REPLACED, PAIRS[REPLACED][0], told=ADDED), samples=samples(4000))
    assert convicts(found, MATRIX, relation=REPLACED, claimed=EPSILON, fault="noise for an added row")
