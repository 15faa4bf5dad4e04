"""Shares add up to the sum, and all but one of them say nothing."""

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.federation.additive import add, reconstruct, split
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from tests.support.noises import Scripted

EXTREMES = np.array([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63)])


@pytest.mark.parametrize("servers", [2, 3, 7])
def test_shares_of_a_vector_are_put_together_again(servers):
    shares = split(EXTREMES, servers=servers, noise=SecureNoise())
    assert len(shares) == servers
    assert reconstruct(shares).tolist() == EXTREMES.tolist()


def test_sums_of_shares_are_shares_of_the_sum():
    vectors = np.random.default_rng(1).integers(-1000, 1000, (20, 3, 50))
    parties = [split(vector, servers=3, noise=SecureNoise()) for vector in vectors]
    sums = [add(received) for received in zip(*parties, strict=True)]
    np.testing.assert_array_equal(reconstruct(sums), vectors.sum(axis=0))


@pytest.mark.parametrize("honest", [0, 1, 2])
def test_the_other_servers_together_see_the_same_law_whatever_was_shared(honest):
    """Random words that share one vector match words that share another, with equal views of all but one server."""
    one, other = np.array([5, -3, 2**40]), np.array([0, 17, -9])
    words = np.random.default_rng(2).integers(0, 2**64, 6, dtype=np.uint64)
    shares = split(one, servers=3, noise=Scripted(words))
    matching = words.reshape(2, 3).copy()
    if honest < 2:  # the word that the honest server holds makes up for the difference
        matching[honest] += (other - one).astype(np.uint64)
    again = split(other, servers=3, noise=Scripted(matching.reshape(-1)))
    for server in range(3):
        same = np.array_equal(shares[server], again[server])
        assert same == (server != honest)


def test_each_share_is_uniform():
    shares = split(np.full(4096, 7), servers=2, noise=SeededNoise(3))
    for share in shares:
        bits = np.unpackbits(share.view(np.uint8))
        assert abs(bits.mean() - 0.5) < 0.01
        assert np.unique(share).size == share.size


@pytest.mark.parametrize("servers", [1, 0, -2])
def test_one_server_is_refused(servers):
    with pytest.raises(InvalidRequest, match=f"servers: got {servers}; must be at least 2"):
        split(EXTREMES, servers=servers, noise=SecureNoise())


@pytest.mark.parametrize(
    "shares", [[], [np.zeros(2, np.uint64), np.zeros(3, np.uint64)], [np.zeros(2)], [np.zeros(2, np.int64)]]
)
def test_shares_that_do_not_fit_are_refused(shares):
    with pytest.raises(InvalidRequest, match="shares: .* must be vectors of the same shape, of residues"):
        add(shares)
