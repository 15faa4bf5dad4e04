"""Shares of noise have the law that is promised, and each is drawn exactly, also where 64 bits do not decide."""

import math

import numpy as np
import pytest
from scipy import stats

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.federation import noise_shares
from spark_jobs.federation.noise_shares import NoiseShare, _Law, negative_binomials
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise, laplace_variance
from tests.support.noises import Scripted


def law(parts, scale):
    return stats.nbinom(1 / parts, -math.expm1(-1 / scale))


@pytest.mark.parametrize(("parts", "scale"), [(1, 0.3), (1, 5.0), (3, 1.0), (7, 40.0), (20, 900.0)])
def test_the_table_is_scipys_distribution(parts, scale):
    table = noise_shares._table(_Law(parts=parts, scale=scale)).astype(np.float64) / 2.0**64
    values = np.arange(table.size)
    np.testing.assert_allclose(table, law(parts, scale).cdf(values), rtol=1e-9)
    assert table[-1] == 1.0


@pytest.mark.parametrize(("parts", "scale"), [(1, 2.0), (4, 3.0), (5, 200.0)])
def test_draws_follow_the_law(parts, scale):
    drawn = negative_binomials(40_000, parts=parts, scale=scale, noise=SeededNoise(5))
    edges = np.unique(law(parts, scale).ppf(np.linspace(0.02, 0.98, 12)))
    expected = np.diff(np.concatenate([[0.0], law(parts, scale).cdf(edges), [1.0]])) * drawn.size
    counts = np.bincount(np.searchsorted(edges, drawn), minlength=expected.size)
    assert stats.chisquare(counts, expected).pvalue > 1e-4


@pytest.mark.parametrize("colluding", [0, 2])
def test_shares_of_the_honest_add_up_to_two_sided_geometric_noise(colluding):
    share = NoiseShare(epsilon="0.5", l1_sensitivity=2, contributors=5, colluding=colluding)
    total = sum(share.draw((30_000,), noise=SeededNoise(seed)) for seed in range(share.honest))
    ratio = math.exp(-1 / share.scale)
    assert np.var(total) == pytest.approx(laplace_variance(share.scale), rel=0.05)
    assert np.mean(total == 0) == pytest.approx((1 - ratio) / (1 + ratio), abs=0.01)


def test_digits_make_whole_noise_of_any_scale(monkeypatch):
    """Each digit has the law of a geometric variable's digit; that they make the variable is seen at a small base."""
    monkeypatch.setattr(noise_shares, "MAX_SCALE", 8.0)
    monkeypatch.setattr(noise_shares, "_BASE", 4)
    drawn = negative_binomials(40_000, parts=1, scale=100.0, noise=SeededNoise(5))
    assert stats.kstest(drawn + np.random.default_rng(1).random(drawn.size), _smeared(100.0)).pvalue > 1e-4
    assert stats.kstest(drawn + np.random.default_rng(1).random(drawn.size), _smeared(110.0)).pvalue < 1e-4
    monkeypatch.undo()
    large = NoiseShare(epsilon="0.01", l1_sensitivity=10**8, contributors=2, colluding=1)
    assert np.var(large.draw((4000,), noise=SeededNoise(2))) == pytest.approx(laplace_variance(large.scale), rel=0.15)


def _smeared(scale):
    """The distribution function of a geometric variable plus a uniform one."""

    def function(x):
        below = np.floor(x)
        chance = -math.expm1(-1 / scale) * np.exp(-below / scale)
        return -np.expm1(-below / scale) + chance * (x - below)

    return function


@pytest.mark.parametrize("last", [2**64 - 1, 2**64 - 2])
def test_the_largest_uniform_numbers_are_the_largest_digit(last):
    law = _Law(parts=1, scale=10.0**8, below=4096)
    assert noise_shares._table(law).size == 4096
    assert noise_shares._inverted(1, law, Scripted([last, 2**64 - 1])).tolist() == [4095]


def test_a_uniform_number_on_a_boundary_is_refined_with_more_bits():
    parts, scale = 3, 2.0
    boundary = int(noise_shares._table(_Law(parts=parts, scale=scale))[1])
    for near in (boundary - 1, boundary, boundary + 1):
        below = negative_binomials(1, parts=parts, scale=scale, noise=Scripted([near, 0]))
        above = negative_binomials(1, parts=parts, scale=scale, noise=Scripted([near, 2**64 - 1]))
        assert (below[0], above[0]) in {(1, 1), (1, 2), (2, 2)}
        assert below[0] == noise_shares._decided(near << 64, 128, _Law(parts=parts, scale=scale))
    # the boundary itself lies strictly inside the interval of its first 64 bits, so further bits decide
    assert negative_binomials(1, parts=parts, scale=scale, noise=Scripted([boundary, 0]))[0] == 1
    assert negative_binomials(1, parts=parts, scale=scale, noise=Scripted([boundary, 2**64 - 1]))[0] == 2


def test_the_largest_uniform_numbers_are_refined_beyond_the_table():
    parts, scale = 2, 1.0
    last = noise_shares._table(_Law(parts=parts, scale=scale)).size - 1
    drawn = negative_binomials(1, parts=parts, scale=scale, noise=Scripted([2**64 - 1, 2**64 - 1, 12345]))
    assert drawn[0] > last
    assert law(parts, scale).sf(drawn[0] - 1) == pytest.approx(2.0**-128, rel=1.0)


def test_bits_that_do_not_decide_are_followed_by_more():
    parts, scale = 3, 2.0
    first, second = _digits_of_a_boundary(parts, scale)
    low = negative_binomials(1, parts=parts, scale=scale, noise=Scripted([first, second, 0]))
    high = negative_binomials(1, parts=parts, scale=scale, noise=Scripted([first, second, 2**64 - 1]))
    assert (low[0], high[0]) == (0, 1)


def _digits_of_a_boundary(parts, scale):
    """The first 128 bits of P(X = 0), as two words."""
    from decimal import Decimal, localcontext

    with localcontext(prec=90):
        start = ((1 - (-1 / Decimal(scale)).exp()).ln() / parts).exp()
        digits = int(start * (1 << 128))
    return digits >> 64, digits & (2**64 - 1)


def test_secure_noise_draws_shares_of_any_shape():
    share = NoiseShare(epsilon=1, l1_sensitivity=1, contributors=2)
    assert share.draw((3, 4), noise=SecureNoise()).shape == (3, 4)
    assert share.draw((0,), noise=SecureNoise()).shape == (0,)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"colluding": 3}, "colluding: got 3; must be from 0 to 2"),
        ({"colluding": -1}, "colluding: got -1; must be from 0 to 2"),
        ({"epsilon": "0.00001"}, "epsilon: got '?0.00001'?; must be at least 1/10000"),
        ({"epsilon": "1e-13", "colluding": 2}, "epsilon: got '?1e-13'?; must be at least 1/1000000000000"),
        ({"epsilon": 0}, "epsilon: got 0; must be above 0"),
    ],
)
def test_impossible_shares_are_refused(wrong, message):
    with pytest.raises(InvalidRequest, match=message):
        NoiseShare(**{"epsilon": 1, "l1_sensitivity": 1, "contributors": 3, **wrong})
