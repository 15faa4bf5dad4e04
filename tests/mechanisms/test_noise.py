import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.mechanisms.noise import (
    SecureNoise,
    SeededNoise,
    gaussian_stddev,
    laplace_scale,
    laplace_variance,
    scale_of_sum,
)

FALSE_ALARM = 1e-6
"""Chance that one distribution test fails although the sampler is right; SecureNoise cannot be seeded."""

EPSILONS = st.decimals("1e-9", "1e9", places=12).filter(lambda number: number > 0)
SOURCES = [SecureNoise(), SeededNoise(20240229)]
BOTH = pytest.mark.parametrize("noise", SOURCES, ids=lambda noise: type(noise).__name__)


def two_sided_geometric(z, scale):
    ratio = math.exp(-1 / scale)
    return (1 - ratio) / (1 + ratio) * ratio ** np.abs(z)


def discrete_gaussian(z, stddev):
    support = np.arange(-math.ceil(40 * stddev) - 1, math.ceil(40 * stddev) + 2)
    return np.exp(-(z**2) / (2 * stddev**2)) / np.exp(-(support**2) / (2 * stddev**2)).sum()


def goodness_of_fit(sample, pmf):
    """p-value of a chi-squared test on the cells |z| <= K with at least 20 expected, and the two tails."""
    count = sample.size
    edge = 0
    while count * pmf(np.array([edge + 1]))[0] >= 20:
        edge += 1
    inner = np.arange(-edge, edge + 1)
    chances = pmf(inner)
    tail = max((1 - chances.sum()) / 2, 1e-12)
    expected = count * np.concatenate([[tail], chances, [tail]])
    seen = np.bincount(np.clip(sample, -edge - 1, edge + 1) + edge + 1, minlength=inner.size + 2)
    keep = expected >= 5
    return stats.chisquare(seen[keep], expected[keep] * seen[keep].sum() / expected[keep].sum()).pvalue


@given(epsilon=EPSILONS, sensitivity=st.integers(1, 1000))
def test_scale_never_spends_more_than_epsilon_and_hardly_less(epsilon, sensitivity):
    scale = Fraction(laplace_scale(epsilon, sensitivity))
    assert sensitivity / scale <= Fraction(epsilon)
    assert sensitivity / scale >= Fraction(epsilon) * (1 - Fraction(1, 10**14))


@BOTH
def test_values_that_may_not_be_written_to_are_taken_and_left_as_they_are(noise):
    values = np.arange(2000)
    values.flags.writeable = False
    assert noise.laplace(values, epsilon=10**6, l1_sensitivity=1).tolist() == list(range(2000))
    assert noise.gaussian(values, rho=10**6, l2_sensitivity=1).tolist() == list(range(2000))


@given(rho=EPSILONS, sensitivity=st.floats(0.01, 1000))
def test_stddev_never_spends_more_than_rho_and_hardly_less(rho, sensitivity):
    stddev = Fraction(gaussian_stddev(rho, sensitivity))
    spent = Fraction(sensitivity) ** 2 / (2 * stddev**2)
    assert Fraction(rho) * (1 - Fraction(1, 10**14)) <= spent <= Fraction(rho)


@given(epsilon=st.sampled_from(["0.1", "0.3", "1", "3", "0.7000000000000000000000000001"]), factor=st.integers(2, 9))
def test_scale_is_monotone_in_epsilon_and_in_sensitivity(epsilon, factor):
    assert laplace_scale(Decimal(epsilon) * factor, 1) < laplace_scale(epsilon, 1)
    assert laplace_scale(epsilon, factor) > laplace_scale(epsilon, 1)


@pytest.mark.parametrize("epsilon", ["0.1", "0.3333333333333333333333333333", "1", "7.7", "1e9", "1e-12"])
@pytest.mark.parametrize("sensitivity", [1, 2, 7])
def test_the_map_of_opendp_agrees_that_epsilon_is_not_exceeded(epsilon, sensitivity):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement = dp.m.make_laplace(*space, scale=laplace_scale(epsilon, sensitivity))
    assert Decimal(measurement.map(sensitivity)) <= Decimal(epsilon)
    assert measurement.map(sensitivity + 1) > float(Decimal(epsilon))


@pytest.mark.sampled("noise")
@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("scale", [0.4, 1.0, 8.5, 60.0])
def test_laplace_has_the_exact_distribution_and_another_scale_is_rejected(noise, scale):
    sample = noise.laplace(np.zeros(60_000, dtype=np.int64), epsilon=Decimal(1) / Decimal(scale), l1_sensitivity=1)
    assert goodness_of_fit(sample, lambda z: two_sided_geometric(z, scale)) > FALSE_ALARM
    assert goodness_of_fit(sample, lambda z: two_sided_geometric(z, 0.9 * scale)) < FALSE_ALARM
    assert goodness_of_fit(sample, lambda z: two_sided_geometric(z, 1.1 * scale)) < FALSE_ALARM


@pytest.mark.sampled("noise")
@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("stddev", [0.6, 1.0, 3.7, 50.0])
def test_gaussian_has_the_exact_distribution_and_another_stddev_is_rejected(noise, stddev):
    sample = noise.gaussian(np.zeros(60_000, dtype=np.int64), rho=1 / (2 * stddev**2), l2_sensitivity=1.0)
    assert goodness_of_fit(sample, lambda z: discrete_gaussian(z, stddev)) > FALSE_ALARM
    assert goodness_of_fit(sample, lambda z: discrete_gaussian(z, 0.95 * stddev)) < FALSE_ALARM
    assert goodness_of_fit(sample, lambda z: discrete_gaussian(z, 1.05 * stddev)) < FALSE_ALARM


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.3, 1e4])
def test_laplace_variance_is_the_variance_of_the_distribution(scale):
    z = np.arange(1, math.ceil(60 * scale) + 2, dtype=float)
    assert laplace_variance(scale) == pytest.approx(2 * (z**2 * two_sided_geometric(z, scale)).sum(), rel=1e-9)


@pytest.mark.parametrize("scale", [0.02, 0.3, 1.0, 40.0, 1e7])
def test_the_scale_of_a_sum_has_the_variance_of_its_terms(scale):
    assert scale_of_sum(scale, 1) == scale
    assert laplace_variance(scale_of_sum(scale, 5)) == pytest.approx(5 * laplace_variance(scale), rel=1e-9)
    assert scale_of_sum(1e-5, 5) == 1e-5  # no noise


@pytest.mark.slow
@BOTH
def test_shape_order_and_dtype_are_kept(noise):
    values = (np.arange(90_000, dtype=np.int64) * 1000).reshape(300, 300)
    noisy = noise.laplace(values, epsilon=1, l1_sensitivity=1)
    assert noisy.shape == values.shape
    assert noisy.dtype == np.int64
    assert np.abs(noisy - values).max() < 100
    for size in (0, 1, 511, 513, 1025, 5000):  # in one piece, and in as many as threads draw
        line = np.arange(size, dtype=np.int64) * 1000
        noisy = noise.laplace(line, epsilon=1, l1_sensitivity=1)
        assert noisy.shape == line.shape
        assert np.all(np.abs(noisy - line) < 100)
    assert noise.gaussian(values, rho=1, l2_sensitivity=1.0).shape == values.shape


@BOTH
@pytest.mark.parametrize("epsilon", [1e9, "1000000000000"])
def test_a_huge_epsilon_leaves_the_values_as_they_are(noise, epsilon):
    values = np.array([0, 1, -5, 2**62, -(2**63), 2**63 - 1])
    np.testing.assert_array_equal(noise.laplace(values, epsilon=epsilon, l1_sensitivity=3), values)
    np.testing.assert_array_equal(noise.gaussian(values, rho=epsilon, l2_sensitivity=3.0), values)


@BOTH
def test_sums_saturate_instead_of_wrapping(noise):
    ends = np.repeat(np.array([-(2**63), 2**63 - 1]), 500)
    noisy = noise.laplace(ends, epsilon="0.001", l1_sensitivity=1)
    assert (np.sign(noisy.astype(float)) == np.sign(ends.astype(float))).all()
    drowned = noise.laplace(ends, epsilon="1e-25", l1_sensitivity=1)
    assert set(np.unique(drowned)) <= {-(2**63), 2**63 - 1, 2**63 - 1024, -1, 0, -1025, -1024}


@BOTH
@pytest.mark.parametrize("epsilon", [0, -1, "nan", "inf", float("nan"), float("inf"), "much", None, Decimal("NaN")])
def test_an_epsilon_that_buys_no_noise_is_refused(noise, epsilon):
    with pytest.raises(InvalidRequest, match="epsilon"):
        noise.laplace(np.zeros(1, dtype=np.int64), epsilon=epsilon, l1_sensitivity=1)


@BOTH
@pytest.mark.parametrize("sensitivity", [0, -1, 0.5])
def test_a_sensitivity_below_one_is_refused(noise, sensitivity):
    with pytest.raises(ValueError, match="l1_sensitivity"):
        noise.laplace(np.zeros(1, dtype=np.int64), epsilon=1, l1_sensitivity=sensitivity)


@BOTH
@pytest.mark.parametrize("values", [np.zeros(2), np.array(["1"]), np.zeros(2, dtype=np.uint64)])
def test_values_off_the_integer_lattice_are_refused(noise, values):
    with pytest.raises(TypeError, match="integers"):
        noise.laplace(values, epsilon=1, l1_sensitivity=1)


def test_a_seed_repeats_and_says_so():
    zeros = np.zeros(100, dtype=np.int64)
    first, second = (SeededNoise(7).laplace(zeros, epsilon="0.1", l1_sensitivity=1) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, SeededNoise(8).laplace(zeros, epsilon="0.1", l1_sensitivity=1))
    assert SeededNoise(7).guarantee == "NOT PRIVATE"
    assert SeededNoise(7).private is False


def test_secure_noise_cannot_be_seeded_and_does_not_repeat():
    zeros = np.zeros(100, dtype=np.int64)
    np.random.seed(0)
    first = SecureNoise().laplace(zeros, epsilon="0.1", l1_sensitivity=1)
    np.random.seed(0)
    assert not np.array_equal(first, SecureNoise().laplace(zeros, epsilon="0.1", l1_sensitivity=1))
    assert SecureNoise().guarantee == "differentially private"
    assert SecureNoise().private is True
    with pytest.raises(TypeError):
        SecureNoise(7)


@BOTH
@pytest.mark.parametrize("size", [1 << 10, 1 << 16])
def test_pieces_of_a_vector_get_independent_noise(noise, size):
    sample = noise.laplace(np.zeros(size, dtype=np.int64), epsilon="0.05", l1_sensitivity=1)
    halves = sample.reshape(2, -1)
    correlation = np.corrcoef(halves)[0, 1]
    assert abs(correlation) < stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(halves.shape[1])


@BOTH
def test_words_are_uniform_bits(noise):
    words = noise.words(4096)
    assert words.dtype == np.uint64
    ones = int(np.unpackbits(words.view(np.uint8)).sum())
    assert stats.binomtest(ones, 4096 * 64).pvalue > FALSE_ALARM
    assert np.unique(words).size == 4096


def test_importing_the_module_does_not_import_opendp():
    import subprocess
    import sys

    code = "import sys, spark_jobs.mechanisms.noise; sys.exit('opendp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
