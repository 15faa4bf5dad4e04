"""No value of an output betrays its input: the attack of Mironov (CCS 2012) on every source of noise.

Floating-point noise added to a floating-point value lands on different numbers for different values: their last bits
tell which. What is released here lies on a lattice that is the same for all inputs, all of it in reach from each.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.mechanisms.continuous_noise import (
    PublicGrid,
    cauchy_noise,
    laplace_noise,
    polynomial_noise,
    student_t_noise,
)
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from tests.support.audit import audit, convicts, keeps, samples

pytestmark = pytest.mark.audit

EPSILON = 1.0
FINE = PublicGrid(lower=-8, upper=8, steps=1 << 24)
COARSE = PublicGrid(lower=-2, upper=3, steps=5)
DENSITIES = {
    "polynomial": polynomial_noise(EPSILON),
    "Cauchy": cauchy_noise(EPSILON),
    "Student's t": student_t_noise(EPSILON),
    "Laplace (smooth)": laplace_noise(EPSILON, "1e-6"),
}
SOURCES = [SecureNoise(), SeededNoise(61)]
BOTH = pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)


def discrete_laplace(source, value, count):
    return source.laplace(np.full(count, value), epsilon=EPSILON, l1_sensitivity=1)


def discrete_gaussian(source, value, count):
    return source.gaussian(np.full(count, value), rho=0.5, l2_sensitivity=1.0)


def on_grid(name, grid):
    def draw(source, value, count):
        return DENSITIES[name].release([Decimal(value)] * count, [1.0] * count, grid=grid, noise=source)

    return draw


def naive_laplace(generator, value, count):
    """What a textbook says: a float plus the logarithm of a float."""
    size = np.log(generator.integers(1, 2**53, count) / 2**53) / EPSILON
    return value + np.where(generator.integers(0, 2, count) == 1, size, -size)


def anchored_at_the_data(generator, value, count):
    """Rounded noise on a value that is not: the lattice moves along with the data."""
    return value + np.rint(naive_laplace(generator, 0.0, count) * 1024) / 1024


def last_bits(draw, source):
    """How far down the binary digits of outputs near 0 go (absolute position of the last one); -1 elsewhere."""

    def mechanism(value, count):
        drawn = np.asarray(draw(source, value, count), dtype=float)
        mantissa, exponent = np.frexp(np.abs(drawn))
        whole = (mantissa * 2**53).astype(np.int64)
        lowest = np.where(whole == 0, 0, np.log2(np.maximum(whole & -whole, 1)).astype(int) + exponent - 53)
        return np.where(np.abs(drawn) < 1 / 16, 1100 + lowest, -1)

    return mechanism


@BOTH
@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_integer_noise_reaches_the_same_integers_from_neighbours(draw, source):
    seen = [draw(source, value, 4000) for value in (0, 1)]
    assert all(values.dtype == np.int64 for values in seen)
    middle = set(range(-1, 3))
    assert all(middle <= set(values.tolist()) for values in seen)


@pytest.mark.parametrize("name", DENSITIES)
def test_continuous_noise_reaches_the_whole_public_grid_and_nothing_else_from_neighbours(name):
    # inputs that differ by a record, and by the last bit of a float
    grid = set(np.linspace(-2, 3, 6).tolist())
    for value in ("0", "1", "0.30000000000000004", "0.3"):
        assert set(on_grid(name, COARSE)(SecureNoise(), value, 400).tolist()) == grid


@pytest.mark.parametrize("name", [*DENSITIES, "discrete Laplace", "discrete Gaussian"])
def test_last_bits_say_no_more_than_epsilon(name):
    draw = {"discrete Laplace": discrete_laplace, "discrete Gaussian": discrete_gaussian}.get(name)
    if draw is None:
        draw = on_grid(name, FINE)
    found = audit(last_bits(draw, SecureNoise()), 1, 0, samples=samples(300))
    assert keeps(found, f"{name} noise, last bits", relation="values 1 apart", claimed=EPSILON)


@pytest.mark.verify
def test_last_bits_convict_noise_in_floating_point():
    found = audit(last_bits(naive_laplace, np.random.default_rng(62)), 1.0, 0.0, samples=samples(40_000))
    assert convicts(
        found,
        "Laplace noise, last bits",
        relation="values 1 apart",
        claimed=EPSILON,
        fault="added in floating point",
    )


@pytest.mark.verify
def test_last_bits_convict_a_lattice_that_moves_with_the_data():
    found = audit(last_bits(anchored_at_the_data, np.random.default_rng(63)), 0.25, 0.3, samples=samples(40_000))
    assert convicts(
        found,
        "Laplace noise, last bits",
        relation="values 0.05 apart",
        claimed=EPSILON,
        fault="rounded before it is added",
    )


def test_floating_point_noise_has_values_that_one_input_alone_can_reach():
    # which u would have given this output from 0? try all near the only candidate
    drawn = np.abs(naive_laplace(np.random.default_rng(64), 1.0, 20_000))
    drawn = drawn[(drawn > 1e-3) & (drawn < 4)]
    around = np.arange(-64, 65)
    candidates = np.rint(np.exp(-EPSILON * drawn) * 2**53)[:, None] + around
    reachable = (-np.log(np.clip(candidates, 1, 2**53 - 1) / 2**53) / EPSILON == drawn[:, None]).any(axis=1)
    assert 0.05 < reachable.mean() < 0.95
    # the same search finds every output of 0 itself
    own = np.abs(naive_laplace(np.random.default_rng(65), 0.0, 20_000))
    own = own[(own > 1e-3) & (own < 4)]
    candidates = np.rint(np.exp(-EPSILON * own) * 2**53)[:, None] + around
    assert (-np.log(np.clip(candidates, 1, 2**53 - 1) / 2**53) / EPSILON == own[:, None]).any(axis=1).mean() > 0.99
