"""Scores beyond the ends of their range: areas that say so, and hold the area of the scores themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import COARSE, OK
from spark_jobs.diagnostics import auc, ranking_figures, roc_curve
from spark_jobs.diagnostics._score_ends import AtEnds, notice
from spark_jobs.diagnostics._score_figures.measurement import crowd
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts

RANDOM = np.random.default_rng(8)
ROWS = 20_000
LABELS = RANDOM.random(ROWS) < 0.2
LOG_ODDS = RANDOM.normal(size=ROWS) + 0.95 * LABELS - 1.5
SCORES = 1 / (1 + np.exp(-LOG_ODDS))
EXACT = roc_auc_score(LABELS, SCORES)
HIDDEN = {"percent": 100 * SCORES, "of 300 to 850": 300 + 550 * SCORES, "log-odds": LOG_ODDS, "-1 to 1": 2 * SCORES - 1}
TOLD_APART = {"scores": SCORES, "a rare event": SCORES * 1e-6, "almost sure": 1 - (1 - SCORES) * 1e-6}


def areas(scores: Any) -> list[tuple[str, float | None, float, tuple[float, float]]]:
    """Status, share at the ends, area and interval: of a curve, of the area alone, of the Gini coefficient."""
    counts = ScoreCounts.from_arrays(LABELS, scores)
    noise = SeededNoise(5)
    curve, one = (kind.release(counts, epsilon=1, confidence=0.99, noise=noise) for kind in (roc_curve, auc))
    ranked = ranking_figures.release(counts, epsilon=1, confidence=0.99, noise=noise)
    of_gini = ranked.gini.mapped(lambda value: (1 + value) / 2)
    return [
        (curve.status, curve.at_ends, curve.auc.number, curve.auc.ends()),
        (one.status, one.at_ends, one.figure.number, one.figure.ends()),
        (ranked.status, curve.at_ends, of_gini.number, of_gini.ends()),
    ]


@pytest.mark.parametrize("scores", HIDDEN.values(), ids=HIDDEN)
def test_scores_beyond_the_range_are_said_and_the_interval_holds_their_area(scores: Any) -> None:
    clamped = np.mean((scores <= 0) | (scores >= 1))
    for status, at_ends, _, (low, high) in areas(scores):
        assert status == COARSE
        assert at_ends == pytest.approx(clamped, abs=0.05)
        assert low <= EXACT <= high


@pytest.mark.parametrize("part", [0.0, 1e-6, 4e-5])
def test_scores_in_a_very_small_part_of_the_range_are_said_and_the_interval_holds_their_area(part: float) -> None:
    for status, at_ends, _, (low, high) in areas(0.5 + part * SCORES):
        assert status == COARSE
        assert at_ends is None or at_ends < 0.05
        assert low <= 0.5
        assert high >= EXACT


@pytest.mark.parametrize(
    "scores", [np.round(SCORES, 1), np.where(SCORES > 0.3, 0.7, 0.2), np.where(LOG_ODDS < -2, 0.1, SCORES)]
)
def test_scores_of_few_values_are_ties_and_not_hidden(scores: Any) -> None:
    exact = roc_auc_score(LABELS, scores)
    for status, _, _, (low, high) in areas(scores):
        assert status == OK
        assert low <= exact <= high
        assert high - low < 0.03


def test_a_row_moves_the_crowd_of_both_classes_by_one() -> None:
    random = np.random.default_rng(3)
    for _ in range(300):
        classes = random.integers(0, 9, (2, 40))
        sizes = (int(random.integers(-5, 300)), int(random.integers(-5, 300)))
        more = classes.copy()
        more[random.integers(2), random.integers(40)] += 1
        assert 0 <= crowd(*more, sizes) - crowd(*classes, sizes) <= 1


def test_classes_with_one_score_each_are_told_from_each_other() -> None:
    counts = ScoreCounts.from_arrays([0, 1] * 5_000, [0.2, 0.8] * 5_000)
    for seed in range(20):
        assert auc.release(counts, epsilon=1, noise=SeededNoise(seed)).status == OK
        assert roc_curve.release(counts, epsilon=1, noise=SeededNoise(seed)).status == OK


@pytest.mark.parametrize("scores", TOLD_APART.values(), ids=TOLD_APART)
def test_scores_of_any_size_within_the_range_have_their_area(scores: Any) -> None:
    for status, at_ends, value, (low, high) in areas(scores):
        assert status == OK
        assert at_ends is None or at_ends < 0.05
        assert value == pytest.approx(EXACT, abs=0.01)
        assert high - low < 0.02


def test_ties_widen_by_half_of_the_pairs_and_only_where_they_are_beyond_the_noise() -> None:
    area = Figure(value=0.55, interval=Ends(0.5, 0.6), population=Ends(0.45, 0.65), privacy_share=0.1)
    half = AtEnds.of_rows([500.0, 1000.0], [80.0, 100.0], stddev=2.0)
    assert (half.share, half.tied) == (pytest.approx(580 / 1100), pytest.approx(0.4))
    assert half.widened(area).interval == pytest.approx((0.3, 0.8))
    assert half.status(area) == COARSE
    few = AtEnds.of_rows([4.0, 1000.0], [1.0, 100.0], stddev=2.0)
    assert (few.tied, few.status(area), few.widened(area)) == (0.0, OK, area)
    assert AtEnds().widened(area) == area


def test_a_report_says_it_from_one_row_in_a_hundred_on() -> None:
    assert notice(OK, 0.005) is None
    assert notice(OK, None) is None
    assert "About 12 % of the rows" in str(notice(OK, 0.12))
    assert "any order" in str(notice(COARSE, 0.9))
    assert "almost equal scores" in str(notice(COARSE, 0.0))
