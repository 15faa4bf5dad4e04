"""Which method ``auto`` takes for an AUC, what it spends, and how far off it is on tables from a law."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import expit

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import auc
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction
from spark_jobs.statistics import ScoreCounts
from tests.support.noises import Recording


def table(positives, negatives, *, separation=1.0, seed=1):
    random = np.random.default_rng(seed)
    labels = np.r_[np.ones(positives), np.zeros(negatives)].astype(int)
    scores = expit(random.normal(0, 1, labels.size) + separation * (labels - 0.5))
    return ScoreCounts.from_arrays(labels, scores)


@pytest.mark.parametrize(
    ("positives", "epsilon", "method"),
    [(20, "1", "counts"), (2000, "1", "polynomial"), (2000, "0.01", "counts"), (2000, "61", "counts")],
)
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_auto_takes_counts_where_the_smaller_class_is_small_for_the_noise(positives, epsilon, method, neighbours):
    for statistic in (table(positives, 20_000), table(20_000, positives)):
        drawn = auc.measure(statistic, epsilon=epsilon, neighbours=neighbours, noise=SeededNoise(1))
        assert drawn.method == method


@pytest.mark.parametrize("positives", [20, 2000])
def test_all_of_epsilon_is_spent_once_and_the_choice_rests_on_noisy_sizes(positives):
    noise = Recording(source=SecureNoise())
    draw = auc.measure(table(positives, 5000), epsilon=1, noise=noise)
    assert sum(spending.epsilon for spending in draw.spendings) == Decimal(1)
    assert draw.spendings[0].label == "sizes of the classes"
    assert Fraction(draw.spendings[0].epsilon) == Fraction(1, 20)
    first = noise.asked[0]
    assert sorted(first.values.tolist()) == sorted([positives, 5000])


@pytest.mark.verify
def test_an_interval_is_not_the_whole_scale_on_few_rows():
    widths = []
    for seed in range(20):
        statistic = table(300, 500, separation=2, seed=seed)
        result = auc.release(statistic, epsilon="0.25", noise=SeededNoise(seed))
        low, high = result.interval or (0.0, 1.0)
        widths.append(high - low)
    assert np.median(widths) < 0.5


# the law of tables: rows, share of positives, how well scores separate the classes, and the shape of the scores
def drawn_table(random):
    """A table from the law: 200 to 50,000 rows, 1 to 50% positives, binormal, discrete, bimodal or skewed scores."""
    rows, share = int(10 ** random.uniform(2.3, 4.7)), 10 ** random.uniform(-2, np.log10(0.5))
    positives, separation = max(int(rows * share), 1), random.uniform(0.3, 3)
    labels = np.r_[np.ones(positives), np.zeros(rows - positives)].astype(int)
    scores = random.normal(0, 1, rows) + separation * labels
    kind = random.choice(["binormal", "discrete", "bimodal", "skewed"])
    if kind == "bimodal":
        scores = expit(np.where(random.random(rows) < 0.5, scores - 3, scores + 2))
    elif kind == "skewed":
        scores = expit(scores - 5)
    else:
        scores = expit(scores - separation / 2)
    return ScoreCounts.from_arrays(labels, np.round(scores * 9) / 9 if kind == "discrete" else scores)


@pytest.mark.verify
@pytest.mark.parametrize("tables", [12, pytest.param(30, marks=pytest.mark.soak)])
def test_on_tables_of_the_law_auto_is_near_the_better_method(tables):
    """Errors of a table are means of ten releases; logarithms of its regret vary by 0.2."""
    random, regrets = np.random.default_rng(5), []
    for number in range(tables):
        statistic, epsilon = drawn_table(random), random.choice(["0.1", "0.5", "1", "2"])
        exact, errors = float(auc_fraction(statistic.negatives, statistic.positives)), {}
        for method in ("auto", "polynomial", "counts"):
            released = [
                auc.release(statistic, epsilon=epsilon, method=method, noise=SeededNoise(100 * number + seed))
                for seed in range(10)
            ]
            # an undefined figure is as good as a guess
            errors[method] = np.mean([abs((0.5 if r.value is None else r.value) - exact) for r in released])
        regrets.append(errors["auto"] / min(errors["polynomial"], errors["counts"]))
    assert np.exp(np.mean(np.log(regrets))) < 1.15
