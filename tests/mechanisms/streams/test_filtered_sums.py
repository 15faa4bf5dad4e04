from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.streams import filtered_sums
from spark_jobs.mechanisms.streams.level_filter import LocalLevelState
from spark_jobs.mechanisms.streams.local_level import LocalLevelShape, release_filtered_steps
from tests.mechanisms.streams.test_local_level import drawn_stream


def released(counts, epsilon, *, seed=1):
    shape = LocalLevelShape(epsilon=epsilon, neighbours=Neighbours.ADD_REMOVE)
    _, steps = release_filtered_steps(LocalLevelState(), counts, shape=shape, noise=SeededNoise(seed))
    return steps, shape.variance


def sliding(values, width):
    return np.lib.stride_tricks.sliding_window_view(values, width).sum(axis=1)


@pytest.mark.parametrize("width", [1, 4, 40])
def test_without_noise_sums_are_those_of_the_counts(width):
    counts = np.random.default_rng(1).integers(0, 10**6, 300)
    steps, variance = released(counts, 1e9)
    sums = filtered_sums(steps.noisy, width=width, variance=max(variance, 1e-12))
    np.testing.assert_allclose(sums.sums, sliding(counts, width), atol=1e-2)


def test_the_first_window_is_the_noisy_sum():
    steps, variance = released(np.full(9, 50), 1)
    for given in (steps.noisy[:4], steps.noisy):
        sums = filtered_sums(given, width=4, variance=variance)
        assert sums.sums[0] == steps.noisy[:4].sum()
        assert sums.sums.shape == sums.lower.shape == sums.upper.shape == (given.size - 3,)
        assert (sums.lower < sums.upper).all()


def test_over_a_flat_stream_the_forecast_takes_most_of_the_noise():
    counts = np.full(4000, 300)
    steps, variance = released(counts, "0.1")
    sums = filtered_sums(steps.noisy, width=8, variance=variance)
    exact = sliding(counts, 8)
    assert np.abs(sums.sums - exact)[500:].mean() < 0.7 * np.abs(sliding(steps.noisy, 8) - exact)[500:].mean()


def test_a_sum_depends_on_no_later_step():
    steps, variance = released(np.arange(60), 1)
    whole, part = (filtered_sums(steps.noisy[:size], width=5, variance=variance).sums for size in (60, 40))
    assert whole[:36].tolist() == part.tolist()


@pytest.mark.parametrize(("noisy", "width"), [(np.zeros(5, int), 0), (np.zeros((5, 1), int), 2)])
def test_what_is_not_one_number_for_each_step_is_refused(noisy, width):
    with pytest.raises(ValueError, match="width, noisy"):
        filtered_sums(noisy, width=width, variance=1.0)


@pytest.mark.verify
@pytest.mark.parametrize("epsilon", ["1", "0.1", "0.01"])
def test_on_streams_of_the_law_there_is_no_regret_and_bands_hold(epsilon):
    """Regret is over the better of both sums: of noisy counts, and of filtered ones."""
    random, regrets, held = np.random.default_rng(7), {4: [], 16: [], 64: [], 256: []}, {4: [], 16: [], 64: [], 256: []}
    for seed in range(40):
        _, counts = drawn_stream(random)
        steps, variance = released(counts, epsilon, seed=seed)
        for width in regrets:
            exact, late = sliding(counts, width), slice(width, None)
            sums = filtered_sums(steps.noisy, width=width, variance=variance)
            others = (np.maximum(sliding(steps.noisy, width), 0), sliding(steps.estimates, width), sums.sums)
            errors = [np.abs(one - exact)[late].mean() for one in others]
            regrets[width].append(errors[-1] / min(errors))
            held[width].append(((sums.lower <= exact) & (exact <= sums.upper))[late].mean())
    for width, values in regrets.items():
        assert np.mean(values) < 1.07, width
        assert max(values) < 1.5, width
        assert np.mean(held[width]) > 0.89, width
        assert min(held[width]) > (0.8 if width < 256 else 0.75), width
