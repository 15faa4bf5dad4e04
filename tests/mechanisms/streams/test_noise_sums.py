"""Bands of sums of noisy counts, against exact laws."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from spark_jobs.mechanisms.noise import SeededNoise, laplace_scale
from spark_jobs.mechanisms.streams.noise_sums import _tail, noise_quantiles, windows

ONE = np.array([1])


def exact_tail(x, number):
    """The tail of a sum of Laplace variables of scale 1, which is a difference of two gamma variables."""
    density = stats.gamma(number)
    value, _ = integrate.quad(lambda y: density.pdf(y) * density.sf(x + y), 0, np.inf, epsabs=1e-13)
    return value


@pytest.mark.parametrize("number", [2, 5, 24])
@pytest.mark.parametrize("spread", [0.7, 1.6, 3.0, 5.0])
def test_a_tail_is_never_underestimated_and_by_a_few_percent_at_most_overestimated(number, spread):
    x = spread * math.sqrt(2 * number)
    assert 1 <= float(_tail(np.array([x]), np.array([float(number)]))[0]) / exact_tail(x, number) < 1.03


@pytest.mark.parametrize("tail", [0.25, 0.05, 1e-3, 1e-9])
def test_the_tail_of_one_variable_is_that_of_laplace(tail):
    x = -math.log(2 * tail)
    assert 1 <= float(_tail(np.array([x]), np.array([1.0]))[0]) / tail < 1.06


@pytest.mark.parametrize("width", [1, 3, 24])
def test_bands_contain_the_exact_sums_as_often_as_they_say(width):
    random, epsilon = np.random.default_rng(2), "0.05"
    counts = random.poisson(40, (40_000, 1))
    noisy = SeededNoise(4).laplace(counts, epsilon=epsilon, l1_sensitivity=1)
    scales = np.full(counts.shape, laplace_scale(epsilon, 1))
    sums = windows(noisy, scales, np.ones(counts.shape, dtype=bool), ONE, width=width, every=width)
    exact = np.add.reduceat(counts[:, 0], np.arange(0, 40_000 - width + 1, width))[: sums.ends.size]
    held = (np.abs(sums.sums[:, 0] - exact) <= sums.half_widths(0.05)[:, 0]).mean()
    error = math.sqrt(0.09 / exact.size)
    assert 0.9 - 4 * error < held < 0.925 + 4 * error


def test_sums_of_different_scales_have_the_band_of_their_variance_and_fourth_cumulant():
    scales = np.array([[1.0], [1.0], [30.0]])
    mixed = windows(np.zeros((3, 1), dtype=np.int64), scales, np.ones((3, 1), dtype=bool), ONE, width=3)
    assert mixed.half_widths(0.05)[0, 0] == pytest.approx(30 * math.log(10), rel=0.05)


def test_windows_begin_with_the_stream_and_changes_compare_neighbours():
    noisy = np.arange(7, dtype=np.int64)[:, None]
    sums = windows(noisy, np.ones((7, 1)), np.ones((7, 1), dtype=bool), ONE, width=2, every=2)
    assert (sums.ends.tolist(), sums.sums[:, 0].tolist()) == ([2, 4, 6], [1, 5, 9])
    changes = sums.changes(1)
    assert (changes.sums[:, 0].tolist(), changes.squares[:, 0].tolist()) == ([4, 4], [4.0, 4.0])
    assert windows(noisy, np.ones((7, 1)), np.ones((7, 1), dtype=bool), ONE, width=8).ends.size == 0


def test_without_noise_bands_are_points_and_with_any_they_are_whole_numbers():
    assert noise_quantiles([0.0, 0.0], [0.0, 0.0], tail=0.05).tolist() == [0, 0]
    assert noise_quantiles(1e-6, 1e-12, tail=0.05) == 1
    with pytest.raises(ValueError, match="tail"):
        noise_quantiles(1, 1, tail=0.5)
