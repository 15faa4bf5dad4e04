"""The conversion of an (epsilon, delta) to a rho, held against the exact delta of Gaussian noise."""

from __future__ import annotations

from decimal import Decimal
from math import exp, sqrt

import pytest
from scipy.stats import norm

from dp_operators.budget.composition import cap_of, cost_in, epsilon_at
from tests.support.flawed.zcdp_conversion import rho_within


def gaussian_delta(rho: float, epsilon: float) -> float:
    """Exact: of one number with Gaussian noise that costs ``rho`` (Balle and Wang 2018, theorem 8)."""
    apart = sqrt(2 * rho)
    return float(norm.cdf(apart / 2 - epsilon / apart) - exp(epsilon) * norm.cdf(-apart / 2 - epsilon / apart))


@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-6", "1e-9"])
def test_a_rho_keeps_the_delta_it_was_bought_with_and_one_by_decimal_logarithms_does_not(epsilon, delta) -> None:
    published = rho_within(float(epsilon), float(delta))
    assert gaussian_delta(published, float(epsilon)) > 3 * float(delta)
    cap, _ = cap_of("zcdp", epsilon, delta, None)
    assert cap.rho is not None
    assert float(cap.rho) < 0.6 * published
    assert gaussian_delta(float(cap.rho), float(epsilon)) <= float(delta)


def test_half_of_epsilon_squared_is_no_epsilon() -> None:
    # plots that put both on one axis compare unequal guarantees
    rho = cost_in("zcdp", "1").rho
    assert rho == Decimal("0.5")
    assert gaussian_delta(float(rho), 1.0) == pytest.approx(0.127, abs=5e-4)
    assert epsilon_at(rho, Decimal("1e-6")) > Decimal("5.7")
