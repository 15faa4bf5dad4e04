from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.mechanisms.zcdp import epsilon_of, rho_within
from tests.support.flawed.zcdp_conversion import rho_within as by_decimal_logarithms

COSTS = [("0.1", "1e-6"), ("1", "1e-6"), ("1", "1e-9"), ("4", "1e-5"), ("20", "1e-3")]


def gaussian_delta(rho, epsilon):
    """Exact: of one number with Gaussian noise that costs ``rho`` (Balle and Wang 2018, theorem 8)."""
    apart = np.sqrt(2 * rho)
    return norm.cdf(apart / 2 - epsilon / apart) - np.exp(epsilon) * norm.cdf(-apart / 2 - epsilon / apart)


def proposition(rho, epsilon):
    """Canonne, Kamath, Steinke 2020, proposition 12, minimised anew."""

    def log_delta(t):
        order = 1 + np.exp(t)
        return (order - 1) * (order * rho - epsilon) - np.log(order - 1) + order * np.log1p(-1 / order)

    return np.exp(minimize_scalar(log_delta, bounds=(-15, 15), method="bounded", options={"xatol": 1e-10}).fun)


@pytest.mark.parametrize(("epsilon", "delta"), COSTS)
def test_a_rho_keeps_its_delta_and_wastes_little_of_it(epsilon, delta):
    rho = float(rho_within(epsilon, delta))
    assert proposition(rho, float(epsilon)) == pytest.approx(float(delta), rel=1e-5)
    assert gaussian_delta(rho, float(epsilon)) <= float(delta)
    # what Bun and Steinke's proposition 1.3 allows
    chance = -np.log(float(delta))
    assert rho > 1.02 * (np.sqrt(chance + float(epsilon)) - np.sqrt(chance)) ** 2


@pytest.mark.parametrize(("epsilon", "delta"), COSTS[1:3])
def test_decimal_logarithms_promise_a_delta_that_is_not_kept(epsilon, delta):
    flawed = by_decimal_logarithms(float(epsilon), float(delta))
    assert gaussian_delta(flawed, float(epsilon)) > 1.5 * float(delta)
    assert flawed > 1.3 * float(rho_within(epsilon, delta))


def test_half_the_square_of_epsilon_is_a_weaker_promise():
    assert epsilon_of("0.5", "1e-6") > 5
    assert rho_within(1, "1e-6") < Decimal("0.03")


@given(epsilon=st.decimals("0.01", "50", places=3), delta=st.integers(1, 15))
def test_there_and_back_never_gains(epsilon, delta):
    chance = Decimal(1).scaleb(-delta)
    rho = rho_within(epsilon, chance)
    back = epsilon_of(rho, chance)
    # the best order is found twice, in doubles; either is safe
    assert epsilon * (1 - Decimal("1e-9")) < back <= epsilon * (1 + Decimal("1e-9"))
    assert rho_within(epsilon * 2, chance) > rho
    assert epsilon_of(rho, chance / 10) > back


def test_where_no_noise_is_needed_epsilon_is_zero():
    assert epsilon_of("1e-6", "0.5") == 0


@pytest.mark.parametrize(
    ("convert", "given_", "match"),
    [
        (rho_within, (0, "1e-6"), "epsilon"),
        (rho_within, (1, 0), "delta"),
        (rho_within, (1, 1), "delta"),
        (epsilon_of, (-1, "1e-6"), "rho"),
        (epsilon_of, ("nan", "1e-6"), "rho"),
    ],
)
def test_numbers_outside_their_bounds_are_refused(convert, given_, match):
    with pytest.raises(InvalidRequest, match=match):
        convert(*given_)
