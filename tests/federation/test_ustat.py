"""Every way to sum publishes the parties' sum with the noise of its law."""

import math

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.federation.ustat import Curator, Masked, Servers
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance

VECTORS = list(np.random.default_rng(8).integers(0, 1000, (5, 3000)))
WAYS = {
    "curator": lambda **more: Curator(**more),
    "two servers": lambda **more: Servers(**more),
    "three servers, one of which colludes": lambda **more: Servers(servers=3, colluding=1, **more),
    "masked": lambda **more: Masked(threshold=4, colluding=2, **more),
}


@pytest.mark.parametrize("way", WAYS)
def test_without_noise_the_sum_is_exact(way):
    released = WAYS[way](noise=SeededNoise(1)).noisy_sum(VECTORS, epsilon=10**6, l1_sensitivity=1)
    assert released.dtype == np.int64
    np.testing.assert_array_equal(released, np.sum(VECTORS, axis=0))


@pytest.mark.parametrize(("way", "times"), [("curator", 1), ("two servers", 2), ("masked", 5 / 2)])
def test_noise_has_the_variance_of_its_contributors(way, times):
    """Two servers of which one may collude add the whole noise each; of five parties, any two suffice for it."""
    ways = WAYS[way](noise=SeededNoise(2), silos_per_person=3)
    released = ways.noisy_sum(VECTORS, epsilon="0.5", l1_sensitivity=2)
    noise = released - np.sum(VECTORS, axis=0)
    assert np.var(noise) == pytest.approx(times * laplace_variance(3 * 2 / 0.5), rel=0.15)
    assert abs(np.mean(noise)) < 5 * math.sqrt(np.var(noise) / noise.size)


def test_parties_that_drop_out_are_left_out_of_the_sum():
    vectors = [VECTORS[0], None, *VECTORS[2:]]
    released = Masked(threshold=3, noise=SeededNoise(3)).noisy_sum(vectors, epsilon=10**6, l1_sensitivity=1)
    np.testing.assert_array_equal(released, np.sum(VECTORS, axis=0) - VECTORS[1])


def test_too_many_that_drop_out_publish_nothing():
    vectors = [VECTORS[0], None, None, None, VECTORS[4]]
    with pytest.raises(InvalidRequest, match="arrived: got '2 parties'; must be of at least 3 parties"):
        Masked(threshold=3, noise=SeededNoise(3)).noisy_sum(vectors, epsilon=1, l1_sensitivity=1)


@pytest.mark.parametrize("way", WAYS)
def test_results_are_stamped(way):
    assert WAYS[way]().guarantee == PRIVATE
    assert WAYS[way](noise=SeededNoise(1)).guarantee == NOT_PRIVATE


def test_as_many_colluders_as_servers_are_refused():
    with pytest.raises(InvalidRequest, match="colluding: got 2; must be from 0 to 1 for 2 contributors"):
        Servers(colluding=2).noisy_sum(VECTORS, epsilon=1, l1_sensitivity=1)


def test_colluders_who_could_learn_both_secrets_of_a_party_are_refused():
    with pytest.raises(InvalidRequest, match="colluding: got 1; must be from 0 to 0 at this threshold"):
        Masked(threshold=3, colluding=1).noisy_sum(VECTORS, epsilon=1, l1_sensitivity=1)


@pytest.mark.parametrize("way", ["curator", "two servers"])
def test_vectors_of_two_shapes_are_refused(way):
    with pytest.raises(InvalidRequest, match="shares: .*must be vectors of the same shape"):
        WAYS[way]().noisy_sum([VECTORS[0], VECTORS[1][:5]], epsilon=1, l1_sensitivity=1)
