"""Two curves and the sums of both scores at one cost: a row with both scores is in every step."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.options import RocComparisonSettings, RocCurveSettings
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import roc_comparison
from spark_jobs.diagnostics._shared_groups.measurement import measure_shared
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.diagnostics.roc_comparison import measurement
from spark_jobs.diagnostics.roc_comparison.measurement import measure_rest
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.paired_sums import paired_sums
from spark_jobs.statistics import PairedScoreCounts, ScoreCounts
from tests.suites.audit import ADDED, REPLACED, ExactAudit, Fault, forget_spending
from tests.support.noises import worst_loss
from tests.support.replay import Leaked, replay

pytestmark = pytest.mark.audit

EPSILON = Decimal(1)
RANDOM = np.random.default_rng(5)
LABELS = RANDOM.integers(0, 2, 60)
FIRST, SECOND = (np.clip(RANDOM.normal(0.4 + 0.2 * LABELS, 0.2), 0, 1) for _ in range(2))
# models that agree about the row, and that disagree in each direction and in both classes
ROWS = [(label, first, second) for label in (0, 1) for first, second in ((0.97, 0.03), (0.02, 0.95), (0.5, 0.5))]


def table(*more, kept=60):
    columns = (np.append(column[:kept], [row[i] for row in more]) for i, column in enumerate((LABELS, FIRST, SECOND)))
    return PairedScoreCounts.from_arrays(*columns)


def neighbours_of(relation, table=table, rows=ROWS):
    base = table() if relation is ADDED else None
    for row in rows:
        if base is not None:
            yield table(row), base
        else:
            yield table(row, kept=59), table(kept=60)


class TestRocComparison(ExactAudit):
    mechanisms = ("ROC comparison",)
    claimed, at_least = EPSILON, 0.85
    kept = "all"
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "noise for an added row": Fault(planted={"told": ADDED}, relations=[REPLACED]),
        "the whole budget for every step": Fault(patch=forget_spending),
    }

    def loss(self, mechanism, relation, *, less=1, told=None):
        def release(statistic, noise):
            roc_comparison.measure(statistic, epsilon=EPSILON, neighbours=told or relation, noise=noise)

        return less * max(worst_loss(release, *pair) for pair in neighbours_of(relation))


OF_ONE_SCORE = 5
WITHOUT_SECOND = [(label, first, np.nan) for label in (0, 1) for first in (0.02, 0.97)]


def both(*more, kept=60):
    """The pairs of scores, and the first scores, of which some have no second one."""
    columns = [np.append(column[:kept], [row[i] for row in more]) for i, column in enumerate((LABELS, FIRST))]
    paired = np.array([True] * (kept + len(more)))
    paired[:OF_ONE_SCORE] = False
    second = np.where(paired, np.append(SECOND[:kept], [row[2] for row in more]), np.nan)
    return PairedScoreCounts.from_arrays(*columns, second), ScoreCounts.from_arrays(*columns)


def shared_release(statistic, noise, relation, *, each=EPSILON / 2):
    """A whole release: what is shared, then the rest of a comparison."""
    pairs, scores = statistic
    terms = Terms(epsilon=each, neighbours=relation, noise=noise)
    shared = measure_shared(scores, (RocCurveSettings(),), terms)
    return measure_rest(pairs, RocComparisonSettings(), terms, shared)


class TestComparisonBesideSharedRelease(ExactAudit):
    mechanisms = ("ROC comparison beside a shared release",)
    claimed, at_least = EPSILON, 0.85
    kept = "all"
    faults = {
        "half the noise": Fault(planted={"less": 2}),
        "noise for an added row": Fault(planted={"told": ADDED}, relations=[REPLACED]),
        "the whole budget for both": Fault(planted={"each": EPSILON}),
    }

    def loss(self, mechanism, relation, *, less=1, told=None, each=EPSILON / 2):
        def release(statistic, noise):
            shared_release(statistic, noise, told or relation, each=each)

        return less * max(
            worst_loss(release, *pair) for pair in neighbours_of(relation, both, [*ROWS, *WITHOUT_SECOND])
        )


def with_exact_rows(classes, values, counts, **terms):
    """The sums, to which the exact number of rows is added."""
    noisy = paired_sums(classes, values, counts, **terms)
    return replace(noisy, totals=noisy.totals + counts.sum())


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("exact", [False, True])
def test_nothing_of_a_comparison_beside_a_shared_release_is_exact(relation, exact, monkeypatch):
    def release(statistic, noise):
        made = shared_release(statistic, noise, relation)
        return [made.to_dict(), roc_comparison.summarise(made, seed=5)]

    tables = both(), both(*ROWS, *WITHOUT_SECOND)
    if exact:
        monkeypatch.setattr(measurement, "paired_sums", with_exact_rows)
        with pytest.raises(Leaked):
            replay(release, *tables, source=SeededNoise(3))
    else:
        assert replay(release, *tables, source=SeededNoise(3))


@pytest.mark.parametrize("relation", list(Neighbours))
def test_the_rest_of_a_comparison_is_priced_as_it_is_drawn(relation):
    seen = set()
    for seed in range(20):
        made = shared_release(both(), SeededNoise(seed), relation)
        assert sum(spending.epsilon for spending in made.spendings) == EPSILON / 2
        rows = 2 if relation is REPLACED else 1
        assert made.sums.scale == pytest.approx(rows * 2.5 * 2**28 / float(made.spendings[-1].epsilon))
        first = made.first_of_pairs is not None
        assert float(made.spendings[-1].epsilon) == pytest.approx(0.25 if first else 0.375)
        seen.add(first)
    assert seen == {True, False}, "noisy sizes decide whether the first curve is measured anew"


@pytest.mark.parametrize("relation", list(Neighbours))
def test_the_steps_of_a_comparison_are_priced_as_they_are_drawn(relation):
    made = roc_comparison.measure(table(), epsilon=EPSILON, neighbours=relation)
    assert sum(spending.epsilon for spending in made.spendings) == EPSILON
    rows = 2 if relation is REPLACED else 1
    assert made.sums.scale == pytest.approx(rows * 2.5 * 2**28 / float(made.spendings[-1].epsilon))
    for draw in (made.first, made.second):
        assert draw.negatives.scale == pytest.approx(
            rows * draw.negatives.tree.measured / float(draw.spendings[-1].epsilon)
        )
