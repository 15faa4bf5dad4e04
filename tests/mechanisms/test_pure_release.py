from __future__ import annotations

from decimal import Decimal
from math import log

import numpy as np
import pytest

from spark_jobs.contract import InvalidRequest
from spark_jobs.mechanisms.continuous_noise import Density
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.pure_release import SLACK, STEP, pure_noise, quantile, release_pure


@pytest.mark.parametrize("density", [Density.POLYNOMIAL, Density.CAUCHY])
@pytest.mark.parametrize("epsilon", ["0.00001", "0.1", "1", "10"])
@pytest.mark.parametrize("bound", [STEP, 1e-6, 1e-3, 1.0])
def test_every_grid_point_is_likely_enough_for_the_random_bits(density: Density, epsilon: str, bound: float) -> None:
    """The least likely cell of the proof lies furthest out: its mass, from the tail of the closed form."""
    shape = pure_noise(epsilon, density)
    far = 1 / (shape.scale * bound)
    width = STEP / (shape.scale * bound)

    def log_tail(x: float) -> float:
        if density is Density.CAUCHY:
            return log(np.arctan(1 / x) / np.pi)
        alpha = float(shape.epsilon) / shape.rate
        centre, tail = 1 - (1 - 1 / alpha) ** alpha, (1 - 1 / alpha) ** (alpha - 1) * (1 + 1 / alpha)
        if x <= 1 / alpha:
            return log(0.5 * (1 - (1 - (1 - x) ** alpha) / (centre + tail)))
        return log(0.5 * tail / (centre + tail)) - alpha * log((1 + x) / (1 + 1 / alpha))

    alpha = 1.0 if density is Density.CAUCHY else 5.0
    # mass of [far, far + width] is at least tail(far) times 1 - ((1 + far) / (1 + far + width))^alpha
    log_mass = log_tail(far) + log(-np.expm1(-alpha * np.log1p(width / (1 + far))))
    assert log_mass > -60 * log(10)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("density", [Density.POLYNOMIAL, Density.CAUCHY, Density.LAPLACE])
@pytest.mark.parametrize("probability", [0.3, 0.6, 0.9, 0.99])
def test_quantiles_are_those_of_the_samples(density: Density, probability: float) -> None:
    from spark_jobs.mechanisms.continuous_noise import laplace_noise

    shape = laplace_noise(1, "1e-6") if density is Density.LAPLACE else pure_noise(1, density)
    drawn = np.abs(np.array([float(x) for x in shape.sample(4000, SeededNoise(2))])) * shape.scale
    below = float(np.mean(drawn <= quantile(shape, probability)))
    # four standard errors of 4,000 samples
    assert abs(below - probability) < 4 * np.sqrt(probability * (1 - probability) / 4000)


def test_values_lie_on_the_grid_and_noise_has_a_floor() -> None:
    shape, noise = pure_noise(1), SeededNoise(1)
    made = [release_pure(Decimal("0.5"), 0.0, shape=shape, noise=noise) for _ in range(50)]
    assert all((value / STEP).is_integer() and 0 <= value <= 1 for value in made)
    assert len(set(made)) > 2


def test_what_pays_for_the_last_bits_is_part_of_epsilon() -> None:
    assert pure_noise(1).epsilon == Decimal(1) - SLACK


@pytest.mark.parametrize("epsilon", [0, "0.000001", 11])
def test_epsilons_beyond_the_proof_are_refused(epsilon: object) -> None:
    with pytest.raises(InvalidRequest, match="epsilon"):
        pure_noise(epsilon)  # type: ignore[arg-type]


def test_thin_tails_are_refused() -> None:
    with pytest.raises(ValueError, match="tails"):
        pure_noise(1, Density.LAPLACE)
