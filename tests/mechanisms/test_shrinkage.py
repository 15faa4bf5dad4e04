import numpy as np
import pytest

from spark_jobs.mechanisms import shrinkage
from spark_jobs.mechanisms.shrinkage import shrunk


def shrink(values, *, variance=1.0, centres=None, low=-1e6, high=1e6):
    ends = {"low": np.full_like(values, low), "high": np.full_like(values, high)}
    centres = [np.zeros_like(values)] if centres is None else centres
    return shrunk(values, np.full_like(values, variance), centres=centres, **ends)


@pytest.fixture
def random():
    return np.random.default_rng(3)


def test_pure_noise_is_taken_as_noise(random):
    noise = random.normal(0, 5, 1000)
    assert np.square(shrink(noise, variance=25.0)).mean() < 0.02 * 25


def test_a_few_large_values_among_noise_are_kept(random):
    expected = np.zeros(1000)
    expected[:5] = [40, -60, 80, 1000, -500]
    estimates = shrink(expected + random.normal(0, 1, 1000))
    np.testing.assert_allclose(estimates[:5], expected[:5], atol=4)
    assert np.square(estimates[5:]).mean() < 0.1


def test_large_values_hardly_change(random):
    values = random.normal(0, 1e4, 500)
    np.testing.assert_allclose(shrink(values), values, atol=1.0)


def test_the_posterior_mean_of_normal_expectations_is_met(random):
    expected = random.normal(0, 2, 4000)
    values = expected + random.normal(0, 1, 4000)
    # the Bayes rule keeps 4/5, with an error of 4/5
    best = np.square(0.8 * values - expected).mean()
    assert np.square(shrink(values) - expected).mean() < 1.03 * best


def test_values_get_the_centres_that_they_are_near(random):
    centre = np.linspace(-30, 30, 400)
    values = centre + random.normal(0, 1, 400)
    estimates = shrink(values, centres=[np.zeros(400), centre])
    assert np.square(estimates - centre).mean() < 0.05
    away = shrink(random.normal(0, 1, 400), centres=[np.zeros(400), centre])
    assert np.square(away).mean() < 0.05


def test_expectations_at_an_end_are_put_there(random):
    ends = random.choice([-50.0, 50.0], 600)
    estimates = shrink(ends + random.normal(0, 4, 600), variance=16.0, low=-50.0, high=50.0)
    assert np.square(estimates - ends).mean() < 0.05 * 16


def test_many_values_are_shrunk_as_few_at_a_time(random, monkeypatch):
    values = random.normal(0, 3, 5000)
    together = shrink(values)
    monkeypatch.setattr(shrinkage, "_AT_ONCE", 700)
    np.testing.assert_array_equal(shrink(values), together)


def test_no_value_and_one_value_are_shrunk():
    assert shrink(np.zeros(0)).shape == (0,)
    assert np.isfinite(shrink(np.array([1e12]), low=-1e12, high=1e12)).all()
