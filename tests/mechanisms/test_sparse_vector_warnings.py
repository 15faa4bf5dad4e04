"""Published threshold tests that are not private: their exact losses, beside those of what is shipped."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.sparse_vector import above_threshold
from tests.support.flawed.sparse_vector import (
    SHARES,
    generalised_as_printed,
    gptt,
    published,
    value_of_the_noise_that_passed,
)
from tests.support.sparse_vector_loss import RecordingNoise, answer_probability, geometric_mass, tail, worst_loss

EPSILON = Decimal(1)
NAMES = pytest.mark.parametrize("name", SHARES)
NO_NOISE = 1e-3
"""A scale whose two-sided geometric noise is 0 in floating point: queries that have none."""


def swapped(copies):
    """Queries 0 and 1 on one table, 1 and 0 on its neighbour, so many times each: the counterexample of theorem 4."""
    return (0,) * copies + (1,) * copies, (1,) * copies + (0,) * copies


def scales_of(name):
    recorder = RecordingNoise()
    published(name, [0], epsilon=EPSILON, noise=recorder)
    return (*recorder.scales, NO_NOISE)[:2]


def loss_of_the_swap(copies, threshold_scale, query_scale):
    """Log ratio of "all zeros below, all ones above"."""
    answers = [False] * copies + [True] * copies
    one, other = (answer_probability(t, answers, threshold_scale, query_scale) for t in swapped(copies))
    return math.log(one / other) if other > 0 else math.inf


def laplace_loss_of_the_swap(copies, epsilon1, epsilon2):
    """The same for Laplace noise, by quadrature over the threshold."""
    x = np.linspace(-120, 120, 480_001)

    def below(z):
        return np.where(z < 0, np.exp(epsilon2 * np.minimum(z, 0)) / 2, 1 - np.exp(-epsilon2 * np.maximum(z, 0)) / 2)

    density = np.exp(-epsilon1 * np.abs(x))
    one = (density * (below(x) * (1 - below(x - 1))) ** copies).sum()
    other = (density * (below(x - 1) * (1 - below(x))) ** copies).sum()
    return math.log(one / other)


@NAMES
def test_published_variants_lose_more_the_more_queries_they_answer(name):
    losses = [loss_of_the_swap(copies, *scales_of(name)) for copies in (1, 4, 16)]
    if SHARES[name][1] is None:
        assert losses == [math.inf] * 3
    else:
        # with t copies of each the loss is at least t epsilon2, whatever was claimed
        assert all(loss >= t * float(SHARES[name][1]) for loss, t in zip(losses, (1, 4, 16), strict=True))
        assert losses[-1] > 8 * EPSILON


def test_a_threshold_test_without_cutoff_loses_at_least_epsilon2_for_each_pair_of_queries():
    # Laplace noise, as published: the log odds of its distribution have a slope of at least epsilon2 everywhere
    assert laplace_loss_of_the_swap(8, 0.25, 0.75) == pytest.approx(9.61, abs=0.005)
    for copies in (1, 2, 8, 32):
        for epsilon1, epsilon2 in ((0.25, 0.75), (0.5, 0.5), (0.9, 0.1)):
            assert laplace_loss_of_the_swap(copies, epsilon1, epsilon2) >= copies * epsilon2


@pytest.mark.parametrize("cutoff", [1, 2])
def test_what_is_shipped_keeps_epsilon_on_the_same_tables(cutoff):
    recorder = RecordingNoise()
    above_threshold([0], epsilon=EPSILON, noise=recorder, cutoff=cutoff)
    loss = worst_loss([swapped(5)], *recorder.scales, cutoff)
    assert 0.1 < loss <= EPSILON


def test_what_is_shipped_cannot_be_asked_for_any_of_it():
    for cutoff in (0, None, math.inf, 1.5):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            above_threshold([0, 1], epsilon=1, noise=SeededNoise(1), cutoff=cutoff)
    # queries without noise would need an infinite epsilon
    with pytest.raises((ValueError, ArithmeticError)):
        above_threshold([0, 1], epsilon=math.inf, noise=SeededNoise(1))


def test_a_count_reset_for_every_query_never_stops_what_is_shipped_does():
    passing = np.full(40, 10**6)
    zeros = np.zeros(40, np.int64)
    printed = generalised_as_printed(
        passing, zeros, cutoff=2, epsilon=EPSILON, noise=SeededNoise(1), sensitivities=(1, 1)
    )
    assert printed == [True] * 40
    ours = above_threshold(passing, thresholds=zeros, cutoff=2, epsilon=EPSILON, noise=SeededNoise(1), sensitivity=2)
    assert ours.above.tolist() == [0, 1]
    assert ours.answered == 2


def test_a_count_reset_for_every_query_loses_more_than_it_claims():
    # noise for a cut-off of 2, and no cut-off
    recorder = RecordingNoise()
    generalised_as_printed([0], [0], cutoff=2, epsilon=EPSILON, noise=recorder, sensitivities=(1, 0))
    assert recorder.scales == pytest.approx([2, 8], rel=1e-9)
    assert loss_of_the_swap(32, *recorder.scales) > 3 * EPSILON
    # the same scales hold where the count is kept
    assert worst_loss([swapped(4)], *recorder.scales, 2) <= EPSILON


def reused_value_loss(copies, threshold_scale, query_scale):
    """Log ratio of "``copies`` below, then one above with the value 0" between (0..0, 1) and (1..1, 0)."""
    support, mass = geometric_mass(threshold_scale)
    below_or_at = support <= 0  # the value that passed is 0, so the threshold was 0 at most
    chances = []
    for many, last in ((0, 1), (1, 0)):
        ratio = np.exp(-1 / query_scale)
        stays = (1 - tail(query_scale, support - many)) ** copies
        chances.append(float((mass * stays * below_or_at).sum()) * ratio**last)
    return abs(math.log(chances[0] / chances[1]))


def test_the_value_of_the_noise_that_passed_says_more_than_it_pays_for():
    recorder = RecordingNoise()
    value_of_the_noise_that_passed([0], epsilon=EPSILON, noise=recorder)
    losses = [reused_value_loss(copies, *recorder.scales) for copies in (1, 4, 16, 64)]
    assert losses == sorted(losses)
    assert losses[-1] > 20 * EPSILON


def test_values_of_what_is_shipped_have_noise_that_their_threshold_never_saw():
    # the values' loss is that of a release of its own: its scale pays for all of them
    recorder = RecordingNoise()
    made = above_threshold(
        [10**9] * 3,
        epsilon=EPSILON,
        noise=recorder,
        cutoff=2,
        numeric_share=0.5,
        numeric_sensitivity=1,
    )
    assert made.values is not None
    assert len(recorder.scales) == 3
    assert recorder.scales[2] == pytest.approx(2 / 0.5)


def test_the_flawed_functions_compare_as_they_say():
    sharp = SeededNoise(3)
    for name in SHARES:
        answers = published(name, [0, 5, 9], epsilon=10**6, noise=sharp, threshold=5)
        assert answers.tolist() == [False, True, True]
    assert gptt([4, 5], epsilon1=10**6, epsilon2=None, noise=sharp, threshold=5).tolist() == [False, True]
    assert value_of_the_noise_that_passed([1, 7], epsilon=10**6, noise=sharp, threshold=5) == (1, 7)
