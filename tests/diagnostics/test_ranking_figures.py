"""Precision-recall, gains and lift, KS, Gini and the threshold of least cost, from the counts of a ROC curve."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn import metrics

from benchmarks import _exact as exact
from benchmarks._raw_law import drawn_scores
from benchmarks._score_law import SHAPES
from benchmarks.ranking_figures import COVERED, coverage_of, exact_figures
from spark_jobs.contract.options import RankingFiguresOptions, RocCurveOptions
from spark_jobs.diagnostics import auc, ranking_figures
from spark_jobs.diagnostics._simulation import band_of_courses
from spark_jobs.diagnostics.ranking_figures.summary import _ends_of_the_largest, everywhere
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.diagnostics.test_score_figures import SETS, counted, nasty
from tests.suites.diagnostic import DiagnosticSuite
from tests.support.sharing import measure_shared, read_as

RNG = np.random.default_rng(11)
LABELS = RNG.random(3000) < 0.2
SCORES = np.clip(RNG.normal(0.4 + 0.2 * LABELS, 0.15), 0, 1)
COUNTS = ScoreCounts.from_arrays(LABELS, SCORES)
DEPTHS = (0.1, 0.5, 1.0)
CELLS = 512
"""A coarser grid than the default, where figures without noise take a hundredth of the time."""


def on_grid(scores: Any) -> Any:
    return np.minimum(np.floor(np.asarray(scores) * CELLS), CELLS - 1) / CELLS


class TestForm(DiagnosticSuite):
    package = ranking_figures
    tables = {name: partial(counted, name) for name in ("ties", "one", "negatives")}
    empty = staticmethod(partial(counted, "none"))
    nasty = staticmethod(nasty)
    settings = [{"epsilon": epsilon, "depths": DEPTHS, "points": 9} for epsilon in ("0.01", "0.7")]

    def check_form(self, result: Any, options: Any) -> None:
        assert RankingFiguresOptions.result.violations(result.to_dict()) == []
        assert (result.recall.size, result.gain.value.size) == (9, 3)


@pytest.mark.parametrize("name", ["even", "ties"])
def test_without_noise_figures_are_those_of_the_rows(name: str) -> None:
    labels, scores = (np.asarray(column).astype(float) for column in SETS[name])
    result = ranking_figures.release(
        ScoreCounts.from_arrays(labels, scores, cells=CELLS), epsilon=10**9, depths=DEPTHS, noise=SeededNoise(1),
        false_positive_cost=2, false_negative_cost=3,
    )  # fmt: skip
    fpr, tpr, _ = metrics.roc_curve(labels, on_grid(scores), drop_intermediate=False)
    assert result.ks.value == pytest.approx((tpr - fpr).max(), abs=1e-6)
    assert result.gini.value == pytest.approx(2 * metrics.roc_auc_score(labels, on_grid(scores)) - 1, abs=1e-6)
    costs = 2 * fpr * (1 - labels.mean()) + 3 * (1 - tpr) * labels.mean()
    assert result.cost.value == pytest.approx(costs.min(), abs=1e-6)
    flagged = on_grid(scores) >= result.threshold
    paid = 2 * (flagged & (labels == 0)) + 3 * (~flagged & (labels == 1))
    assert paid.mean() == pytest.approx(result.cost.value, abs=1e-6)
    exact = exact_figures(ScoreCounts.from_arrays(labels, scores, cells=CELLS), result)
    assert result.gain.value == pytest.approx(exact["gain"], abs=1e-6)
    assert result.lift.value == pytest.approx(exact["gain"] / np.array(DEPTHS), abs=1e-5)
    assert result.precision.value == pytest.approx(exact["precision"], abs=1e-5)


def test_the_reference_agrees_with_scikit_learn() -> None:
    """At recalls that a threshold has exactly, the precision is scikit-learn's."""
    precision, recall, _ = metrics.precision_recall_curve(LABELS, on_grid(SCORES))
    unique = np.flatnonzero(np.diff(recall) < 0)[::40]
    counts = ScoreCounts.from_arrays(LABELS, SCORES, cells=CELLS)
    result = ranking_figures.release(counts, epsilon=10**9, noise=SeededNoise(1))
    found = exact_figures(counts, result, recalls=recall[unique])["precision"]
    highest = [precision[np.isclose(recall, at)].max() for at in recall[unique]]
    assert found == pytest.approx(highest, abs=1e-9)


def test_it_agrees_with_the_area_of_the_same_release() -> None:
    options = RankingFiguresOptions(depths=DEPTHS)
    shared = measure_shared(
        COUNTS, diagnostics=(options, RocCurveOptions()), kinds=("auc",), epsilon=1, noise=SeededNoise(2)
    )
    result = ranking_figures.summarise(read_as(options, shared), seed=5)
    area = auc.summarise(read_as(auc.DIAGNOSTIC.options(), shared), seed=5)
    assert result.gini.value == pytest.approx(2 * area.value - 1)
    assert result.gini.interval == pytest.approx([2 * end - 1 for end in area.interval])
    assert result.gain.value[-1] == result.lift.value[-1] == 1
    assert (result.positives, result.negatives) == (area.positives, area.negatives)
    for low, high in (result.ks.interval, result.ks.population):
        assert low <= result.ks.value <= high


def test_predicting_no_row_positive_can_cost_least() -> None:
    result = ranking_figures.release(COUNTS, epsilon=1, noise=SeededNoise(3), false_positive_cost=1000)
    assert result.threshold > 1
    assert result.cost.value == pytest.approx(LABELS.mean(), abs=0.02)


def test_the_largest_of_a_curve_is_between_one_place_and_the_largest_values_of_copies() -> None:
    copies = np.random.default_rng(4).normal([0.0, 0.1, 0.5], [0.1, 0.3, 0.1], (20_000, 3))
    low, high = _ends_of_the_largest(copies, None, 0.9)
    assert low == pytest.approx(norm.ppf(0.05, 0.5, 0.1), abs=0.01)
    assert np.prod(norm.cdf(high, [0.0, 0.1, 0.5], [0.1, 0.3, 0.1])) == pytest.approx(0.95, abs=0.005)


def test_the_place_that_noise_chose_among_equal_ones_does_not_raise_the_lower_end() -> None:
    """A hundred edges with one exact distance, as between two scores that all rows share: noise chooses the highest."""
    random, held, of_one_place = np.random.default_rng(6), [], []
    for _ in range(60):
        raw = random.normal(0.4, 0.01, 100)
        copies = raw - random.normal(0.0, 0.01, (2_000, 100))
        low, high = _ends_of_the_largest(copies, copies, 0.9)
        held.append(low[0] <= 0.4 <= high[0])
        of_one_place.append(_ends_of_the_largest(copies, None, 0.9)[0][0] <= 0.4)
    assert np.mean(held) > 0.9
    assert np.mean(of_one_place) < 0.1


@pytest.mark.slow
@pytest.mark.verify
def test_intervals_hold_raw_figures_of_two_scores_and_of_scores_with_an_atom() -> None:
    random, held = np.random.default_rng(8), {"ks": [], "area": []}
    for form in ("two values", "an atom") * 30:
        table = drawn_scores(random, positives=3_000, forms=(form,))
        released = ranking_figures.release(
            ScoreCounts.from_arrays(table.labels, table.scores), epsilon="0.5",
            noise=SeededNoise(int(random.integers(2**32))),
        )  # fmt: skip
        low, high = released.ks.interval
        held["ks"].append(low <= exact.separation(table.labels, table.scores) <= high)
        low, high = released.gini.interval
        held["area"].append(low <= 2 * exact.area(table.labels, table.scores) - 1 <= high)
    assert np.mean(held["ks"]) > 0.85
    assert np.mean(held["area"]) > 0.85


@pytest.mark.verify
@pytest.mark.parametrize("figure", COVERED)
def test_intervals_hold_on_tables_of_the_law(figure: str, law_of_rankings: dict[str, float]) -> None:
    """Nominal 90 % of 42 tables; a standard error is 4.6 %."""
    assert law_of_rankings[figure] >= 0.9 - 3.3 * 0.046


@pytest.fixture(scope="module")
def law_of_rankings() -> dict[str, float]:
    found = [coverage_of(seed, shape=SHAPES[seed % len(SHAPES)]) for seed in range(42)]
    return {name: float(np.mean([one[name] for one in found if one])) for name in COVERED}


@pytest.mark.verify
def test_intervals_for_the_population_hold() -> None:
    """Normal scores, 40 samples of 4,000 rows: the rows are drawn anew each time, so sampling counts too."""
    apart, share, grid = 1.2, 0.2, np.linspace(6, -6, 20_001)
    fpr, tpr = norm.sf(grid), norm.sf(grid - apart)
    true = {"gini": 2 * norm.cdf(apart / np.sqrt(2)) - 1, "ks": 2 * norm.cdf(apart / 2) - 1}
    random, found = np.random.default_rng(8), []
    for seed in range(40):
        labels = np.arange(4000) < 800
        scores = norm.cdf(random.normal(apart * labels - 0.6, 1))
        result = ranking_figures.release(ScoreCounts.from_arrays(labels, scores), epsilon=1, noise=SeededNoise(seed))
        gain = np.interp(result.depths, share * tpr + (1 - share) * fpr, tpr)
        precision = result.recall * share / (
            result.recall * share + np.interp(result.recall, tpr, fpr) * (1 - share)
        )  # fmt: skip
        one = {name: held_in(getattr(result, name).ends("population"), value) for name, value in true.items()}
        one["gain"] = held_in((result.gain.population.lower, result.gain.population.upper), gain).mean()
        bands = result.precision.population.lower, result.precision.population.upper
        one["precision"] = held_in(bands, precision).all()
        found.append(one)
    # a standard error of 40 at 90 % is 5 %
    for name in ("gini", "ks", "gain", "precision"):
        assert np.mean([one[name] for one in found]) >= 0.9 - 3.3 * 0.05, name


def test_a_band_with_two_sides_holds_whole_copies_and_is_no_wider_where_errors_are_skewed() -> None:
    skewed = np.random.default_rng(1).exponential(0.02, (400, 20)) + 0.3
    low, high = band_of_courses(skewed, 0.9)
    assert held_in((low, high), skewed).all(axis=1).mean() == 0.9
    one_scale = everywhere(skewed, 0.9)
    assert (low > one_scale[0]).all()
    assert np.mean(high - low) < 0.8 * np.mean(one_scale[1] - one_scale[0])


def held_in(ends: Any, value: Any) -> Any:
    return (np.asarray(ends[0]) <= value) & (value <= np.asarray(ends[1]))
