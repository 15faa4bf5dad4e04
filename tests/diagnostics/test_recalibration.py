"""Brier score, log loss, calibration slope and the recalibration map, from counts of groups of scores."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from benchmarks.recalibration import FIGURES, coverage_of, exact_figures
from spark_jobs.contract.options import RecalibrationOptions, RocCurveOptions
from spark_jobs.diagnostics import recalibration
from spark_jobs.diagnostics._shared_groups.measurement import WIDEST_IN_LOG_ODDS
from spark_jobs.diagnostics.recalibration.inside_groups import FORMS, NEAREST_END, SPREAD, Means, ScoresInside
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import cells_of, edges_of, middles_of
from spark_jobs.statistics import ScoreCounts
from tests.diagnostics.test_score_figures import counted, nasty
from tests.suites.diagnostic import DiagnosticSuite
from tests.support.sharing import measure_shared, read_as

RNG = np.random.default_rng(23)
ODDS = RNG.normal(-1.5, 1.2, 20_000)
LABELS = RNG.random(20_000) < expit(ODDS)
SCORES = expit(0.6 + 1.5 * ODDS)
COUNTS = ScoreCounts.from_arrays(LABELS, SCORES)
CLIP = 0.001


class TestForm(DiagnosticSuite):
    package = recalibration
    tables = {name: partial(counted, name) for name in ("ties", "one", "negatives")}
    empty = staticmethod(partial(counted, "none"))
    nasty = staticmethod(nasty)
    settings = [{"epsilon": epsilon, "clip": clip} for epsilon, clip in (("0.01", 0.001), ("0.7", 0.1))]

    def check_form(self, result: Any, options: Any) -> None:
        assert RecalibrationOptions.result.violations(result.to_dict()) == []
        assert result.score[0] == pytest.approx(options["clip"])


def test_the_reference_agrees_with_scikit_learn() -> None:
    scores = middles_of(COUNTS.cells)[cells_of(SCORES, COUNTS.cells)]
    clipped, exact = np.clip(scores, CLIP, 1 - CLIP), exact_figures(COUNTS, CLIP)
    fit = LogisticRegression(C=np.inf, tol=1e-10).fit(logit(clipped)[:, None], LABELS)
    assert exact["brier"] == pytest.approx(brier_score_loss(LABELS, scores))
    assert exact["log_loss"] == pytest.approx(log_loss(LABELS, clipped))
    assert (exact["intercept"], exact["slope"]) == pytest.approx((fit.intercept_[0], fit.coef_[0, 0]), abs=1e-4)


def test_without_noise_figures_are_those_of_the_rows() -> None:
    """Up to where scores lie inside their groups."""
    result, exact = recalibration.release(COUNTS, epsilon=10**9, noise=SeededNoise(1)), exact_figures(COUNTS, CLIP)
    assert (result.brier.value, result.log_loss.value) == pytest.approx((exact["brier"], exact["log_loss"]), rel=1e-3)
    assert (result.intercept.value, result.slope.value) == pytest.approx((exact["intercept"], exact["slope"]), abs=2e-3)


def test_the_map_is_the_regression() -> None:
    result = recalibration.release(COUNTS, epsilon=1, noise=SeededNoise(2))
    assert result.map == {"intercept": result.intercept.value, "slope": result.slope.value, "clip": CLIP}
    assert result.recalibrated.value == pytest.approx(
        expit(result.intercept.value + result.slope.value * logit(result.score)), abs=1e-6
    )
    # scores were stretched by 1.5 and moved by 0.6
    assert result.slope.value == pytest.approx(1 / 1.5, abs=0.05)
    assert result.intercept.value == pytest.approx(-0.6 / 1.5, abs=0.1)
    low, high = result.slope.interval
    assert result.slope.population[0] <= low <= result.slope.value <= high <= result.slope.population[1]


def test_groups_are_narrow_in_log_odds_and_end_where_scores_are_clipped() -> None:
    draw = recalibration.measure(COUNTS, epsilon=1, noise=SeededNoise(3))
    odds = logit(np.clip(edges_of(COUNTS.cells)[draw.groups.cuts], CLIP, 1 - CLIP))
    assert np.diff(odds).max() <= WIDEST_IN_LOG_ODDS + 0.05
    ends = np.searchsorted(edges_of(COUNTS.cells), [CLIP, 1 - CLIP]) - [0, 1]
    assert set(ends) <= set(draw.groups.cuts.tolist())
    assert draw.epsilon == 1


def test_it_shares_a_measurement_at_no_cost() -> None:
    options = RecalibrationOptions()
    shared = measure_shared(COUNTS, diagnostics=(options, RocCurveOptions()), epsilon=1, noise=SeededNoise(5))
    result = recalibration.summarise(read_as(options, shared), seed=5)
    assert (result.status, result.epsilon, shared.epsilon) == ("ok", 1, 1)
    assert result.brier.interval[0] <= exact_figures(COUNTS, CLIP)["brier"] <= result.brier.interval[1]


def test_which_rows_of_a_group_are_positive_is_a_random_choice() -> None:
    weights = np.array([[0.2, 0.5, 0.3]])
    inside = ScoresInside(scores=np.array([[0.1, 0.2, 0.3]]), weights=weights)
    counts = np.full((40_000, 1), 30.0), np.full((40_000, 1), 70.0)
    found = inside.beyond(*counts, SeededNoise(4))[:, 0]
    np.testing.assert_allclose(found.sum(axis=1), 0, atol=1e-9)
    expected = 30 * 70 / 100 * (np.diag(weights[0]) - np.outer(weights[0], weights[0]))
    np.testing.assert_allclose(np.cov(found.T), expected, atol=0.1)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_scores_inside_groups_has_the_mean_of_the_group(form: str) -> None:
    draw = recalibration.measure(COUNTS, epsilon=10**9, noise=SeededNoise(3))
    means = Means.of(draw.groups)
    inside = means.drawn(SeededNoise(5), form)
    assert inside.weights.sum(axis=1) == pytest.approx(1)
    found = (inside.scores * inside.weights).sum(axis=1)
    # scores that are spread are not too near either end; all at one place, they are moved by half a cell
    exact = means.low + means.width * (
        np.clip(means.share, NEAREST_END, 1 - NEAREST_END) if form == SPREAD else means.share
    )
    np.testing.assert_allclose(found, exact, atol=1e-5)


def test_without_a_class_everything_is_undefined() -> None:
    none = ScoreCounts.from_arrays(np.zeros(5000), np.full(5000, 0.3))
    result = recalibration.release(none, epsilon=1, noise=SeededNoise(5))
    assert result.status == "undefined"
    assert result.map is result.slope.value is result.brier.interval is None
    assert np.isnan(result.recalibrated.value).all()


@pytest.mark.verify
@pytest.mark.parametrize("end", ["", "_population"])
@pytest.mark.parametrize("name", [*FIGURES, "map"])
def test_intervals_hold_on_tables_of_the_law(name: str, end: str, held_on_the_law: list[dict[str, float]]) -> None:
    """Nominal 90 %; a test that fails has a probability of 0.001 if 86 % hold."""
    held = sum(one[name + end] for one in held_on_the_law)
    assert held >= binom.ppf(0.001, len(held_on_the_law), 0.86)


@pytest.fixture(scope="module", params=[35, pytest.param(70, marks=pytest.mark.soak)])
def held_on_the_law(request: pytest.FixtureRequest) -> list[dict[str, float]]:
    """What held on each of so many tables."""
    return [one for seed in range(request.param) if (one := coverage_of(seed)) is not None]
