"""Intervals of a mean for the population, from noisy counts of a sample."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from spark_jobs.diagnostics._populations import RatioNoise, population_interval

FALSE_ALARM = 1e-4
NONE = RatioNoise(*np.zeros((3, 1)))


def noise_of(scale: float, draws: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, RatioNoise]:
    """Laplace noise in a part and in the rest, and what an interval knows of it."""
    part, rest = random.laplace(0, scale, (2, draws))
    variance = 2 * scale**2
    return part, rest, RatioNoise(*(np.full(draws, value) for value in (variance, variance, 2 * variance)))


@pytest.mark.parametrize(("successes", "rows"), [(0, 40), (3, 40), (37, 40), (500, 1000)])
def test_without_noise_the_interval_of_a_share_is_wilsons(successes: int, rows: int) -> None:
    low, high = population_interval(np.array([successes / rows]), np.array([rows]), NONE, confidence=0.9)
    wilson = stats.binomtest(successes, rows).proportion_ci(0.9, method="wilson")
    assert (low[0], high[0]) == pytest.approx((wilson.low, wilson.high))


def test_a_mean_difference_of_label_and_score_is_a_moved_share() -> None:
    share, score, rows = np.array([0.3]), 0.42, np.array([250])
    of_share = population_interval(share, rows, NONE, confidence=0.9)
    of_residual = population_interval(share - score, rows, NONE, confidence=0.9, score=score)
    assert np.array(of_residual) == pytest.approx(np.array(of_share) - score)


def test_where_the_noise_hides_the_number_of_rows_every_mean_is_possible() -> None:
    noise = RatioNoise(*np.array([[900.0], [900.0], [1800.0]]))
    for score in (0.0, 0.3):
        ends = population_interval(np.array([0.1]), np.array([5.0]), noise, confidence=0.9, score=score)
        assert np.concatenate(ends).tolist() == [-score, 1 - score]


@pytest.mark.parametrize(("share", "rows", "scale"), [(0.5, 400, 10.0), (0.05, 2_000, 5.0), (0.97, 300, 4.0)])
def test_the_interval_holds_the_share_of_the_population_at_its_level(share: float, rows: int, scale: float) -> None:
    draws, random = 4_000, np.random.default_rng(5)
    part, rest, noise = noise_of(scale, draws, random)
    positives = random.binomial(rows, share, draws)
    noisy, number = positives + part, rows + part + rest
    value = np.clip(noisy / number, 0.0, 1.0)
    low, high = population_interval(value, number, noise, confidence=0.9)
    hits = int(((low <= share) & (share <= high)).sum())
    assert stats.binom.cdf(hits, draws, 0.88) > FALSE_ALARM
    assert stats.binom.sf(hits - 1, draws, 0.95) > FALSE_ALARM
    unaware = population_interval(value, number, RatioNoise(*np.zeros((3, draws))), confidence=0.9)
    missed = int(((unaware[0] <= share) & (share <= unaware[1])).sum())
    assert stats.binom.cdf(missed, draws, 0.88) < FALSE_ALARM


def test_the_noise_of_copies_is_their_variance() -> None:
    random = np.random.default_rng(6)
    part, rest = random.laplace(0, [[3.0], [5.0]], (2, 200_000))
    found = RatioNoise.of_copies(part[:, None], (part + rest)[:, None])
    assert [float(value[0]) for value in found] == pytest.approx([18, 18, 68], rel=0.05)
