"""Intervals for these rows and for the population: where one class is rare, on tables that a written law draws."""

import numpy as np
import pytest
from scipy import stats

from benchmarks._score_law import POSITIVES, SIGNALS
from benchmarks.rare_classes import outcomes
from spark_jobs.diagnostics import auc, average_precision
from spark_jobs.diagnostics import roc_curve as roc
from spark_jobs.diagnostics._score_figures.precision import average_precision_of, sampling_variance
from spark_jobs.diagnostics._simulation import with_intervals
from spark_jobs.diagnostics.roc_curve import bands
from spark_jobs.diagnostics.roc_curve.trace import sampling_variance as variance_of_area
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.scored_rows import binormal

FALSE_ALARM = 1e-4
LEAST, MOST = 0.87, 0.96


def credible(held):
    """Whether a coverage speaks against a chance between the two; wrong with at most ``FALSE_ALARM``."""
    hits, count = int(np.sum(held)), len(held)
    too_few = stats.binom.cdf(hits, count, LEAST) < FALSE_ALARM / 2
    return not (too_few or stats.binom.sf(hits - 1, count, MOST) < FALSE_ALARM / 2)


def delong(statistic):
    """DeLong's variance of the area from exact counts."""
    m, p = (counts.astype(float) for counts in (statistic.negatives, statistic.positives))
    v10 = (np.cumsum(m) - m / 2) / m.sum()
    v01 = (p.sum() - np.cumsum(p) + p / 2) / p.sum()
    area = (p * v10).sum() / p.sum()
    of_positives = ((p * v10**2).sum() / p.sum() - area**2) / (p.sum() - 1)
    return of_positives + ((m * v01**2).sum() / m.sum() - area**2) / (m.sum() - 1)


def test_the_variance_of_an_area_over_samples_is_delongs():
    statistic = ScoreCounts.from_arrays(*binormal(0.8, 5000, np.random.default_rng(1), positive=0.1))
    draw = roc.measure(statistic, epsilon=50, noise=SeededNoise(1))
    assert variance_of_area(trace(draw)) == pytest.approx(delong(statistic), rel=0.02)


def test_the_variance_of_an_average_precision_is_that_of_resampled_rows():
    random = np.random.default_rng(2)
    rows = np.stack([400 * np.exp(-(((np.arange(40) - at) / 9.0) ** 2)) for at in (14, 22)]) + 1
    above = np.cumsum(random.poisson(rows, (2000, *rows.shape))[..., ::-1], axis=-1).astype(float)
    above = np.concatenate([np.zeros_like(above[..., :1]), above], axis=-1)
    figures = average_precision_of(above[:, 0], above[:, 1], np.ones(40, dtype=bool))
    assert sampling_variance(rows, np.arange(41)) == pytest.approx(figures.var(), rel=0.15)


def test_the_interval_for_the_population_is_wider_by_what_sampling_adds():
    errors = 0.02 * np.random.default_rng(3).normal(size=20_000)
    found = with_intervals(0.5, errors, sampling=0.03, confidence=0.9)
    both = 2 * 1.645 * np.hypot(0.02, 0.03)
    assert np.diff(found.interval)[0] == pytest.approx(2 * 1.645 * 0.02, rel=0.03)
    assert np.diff(found.population)[0] == pytest.approx(both, rel=0.03)
    assert found.privacy_share == pytest.approx(1 - 2 * 1.645 * 0.03 / both, abs=0.03)
    assert with_intervals(0.5, errors, sampling=0.0, confidence=0.9).privacy_share == 1.0
    assert with_intervals(0.5, np.zeros(9), sampling=0.03, confidence=0.9).privacy_share < 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "options"),
    [(auc, {"method": "counts"}), (auc, {"method": "polynomial"}), (average_precision, {"method": "counts"}),
     (average_precision, {"method": "weighted_counts"}), (average_precision, {"method": "polynomial"})],
)  # fmt: skip
def test_every_figure_has_both_intervals_and_the_share_of_privacy(module, options):
    statistic = ScoreCounts.from_arrays(*binormal(0.8, 3000, np.random.default_rng(4), positive=0.2))
    result = module.release(statistic, epsilon=1, noise=SeededNoise(2), **options)
    (low, high), (lowest, highest) = result.interval, result.population
    assert 0 <= lowest <= low <= result.value <= high <= highest <= 1
    assert 0 < result.privacy_share < 1
    more = module.release(statistic, epsilon=8, noise=SeededNoise(2), **options)
    assert more.privacy_share < result.privacy_share


@pytest.fixture(scope="module")
def released():
    """Outcomes of two tables of each shape in each cell of the law."""
    random = np.random.default_rng(20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bands, "COPIES", 200)
        return [
            one
            for positives in POSITIVES
            for signal in SIGNALS
            for one in outcomes(random, positives=positives, signal=signal, releases=2, others=False)
        ]


@pytest.mark.slow
@pytest.mark.verify
class TestLaw:
    def test_intervals_of_the_area_hold_at_their_level(self, released):
        assert credible([one.area_covered for one in released])
        assert credible([one.population_covered for one in released])

    def test_intervals_of_half_the_width_are_found_out(self, released):
        assert not credible([abs(one.area_error) <= one.area_width / 4 for one in released])

    def test_bands_hold_at_their_level(self, released):
        parts = np.array([one.band_covered for one in released])
        error = stats.norm.isf(FALSE_ALARM / 2) * parts.std() / np.sqrt(parts.size)
        assert LEAST - error <= parts.mean() <= MOST + error
        whole = [one.whole_covered for one in released]
        assert stats.binom.cdf(int(np.sum(whole)), len(whole), LEAST) > FALSE_ALARM

    def test_the_released_area_is_at_most_a_fifth_further_than_the_counted_one(self, released):
        found, counted = (
            np.array([getattr(one, name) for one in released]) for name in ("area_error", "counted_error")
        )
        assert np.abs(found).mean() < 1.2 * np.abs(counted).mean()
        assert abs(found.mean()) < 0.5 * np.abs(found).mean()
