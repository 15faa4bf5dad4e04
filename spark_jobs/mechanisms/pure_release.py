"""Smooth noise without a residual delta: the release of one number with pure differential privacy.

``continuous_noise`` charges a delta for the effect of finite precision. If the tails of the density fall no faster than
a power, and the grid is coarse enough, every grid point has a probability so far above the precision that the error is
only a factor close to 1, which a billionth of epsilon covers.

Proof. Let ``q_j`` be the probability of grid point j under the ideal noise, which is ``e0``-DP for
``e0 = epsilon (1 - SLACK)``, rounded to the grid and clipped, and ``q'_j`` the one that the program realises. If
``|q'_j / q_j - 1| <= eta`` for all tables and j, the program is ``(e0 + 3 eta)``-DP for eta below 0.1. Bounds S are
clipped to ``[STEP, 1]`` (a constant floor keeps a bound smooth), the rate lies in [1e-9, 10], so one scale
``s = S / rate`` lies in [9e-11, 1e9], and a grid point at most ``1 / s`` scales away, in a cell ``STEP / s`` scales
wide. With tails that fall like ``|x|^-6`` or slower, ``q_j >= 1e-60``; the 256 random bits of each part of a sample
move ``q_j`` by at most a few times 2^-256, which is below ``1e-16 q_j``. Samples have a relative error below 1e-54 in x
(an absolute one near 0), which moves the ends of a cell by at most ``1e-54 / STEP = 1e-45`` of the cell's width, or
1e-35 of it near 0, where cells are at least 1e-18 scales wide. So eta is below 1e-15, and ``3 eta`` below
``SLACK epsilon`` for every epsilon of at least ``MIN_EPSILON``.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import MAX_DIGITS, exact_decimal, plain
from spark_jobs.mechanisms.continuous_noise import Density, PublicGrid, SmoothNoise, cauchy_noise, polynomial_noise
from spark_jobs.mechanisms.noise import Cost, Noise

STEP = 2.0**-30
"""The step of the grid of released values in [0, 1], and the smallest smooth bound that noise is scaled by."""
SLACK = Decimal("1e-9")
MIN_EPSILON = Decimal("1e-5")
MAX_EPSILON = Decimal(10)
"""The constants of the densities are proven up to this epsilon; a release with a larger budget spends only this."""
_GRID = PublicGrid(lower=0, upper=1, steps=1 << 30)


def pure_noise(epsilon: Cost, density: Density = Density.POLYNOMIAL) -> SmoothNoise:
    """The noise with which ``release_pure`` costs ``epsilon``, which is at most ``MAX_EPSILON``.

    Raises:
        InvalidRequest: epsilon is not from 0.00001 to 10.
        ValueError: the density's tails are too thin.
    """
    cost = exact_decimal(epsilon, what="epsilon")
    if cost < MIN_EPSILON:
        raise InvalidRequest(
            "epsilon", plain(cost), f"must be at least {MIN_EPSILON}", "give the release a larger share of the budget"
        )
    with localcontext(prec=2 * MAX_DIGITS):
        ideal = (cost * (1 - SLACK)).quantize(Decimal(1).scaleb(1 - MAX_DIGITS))
    if density is Density.POLYNOMIAL:
        return polynomial_noise(ideal)
    if density is Density.CAUCHY:
        return cauchy_noise(ideal)
    raise ValueError(f"density: got {density}; its tails must not fall faster than the power -6")


def release_pure(value: Decimal, bound: float, *, shape: SmoothNoise, noise: Noise) -> float:
    """``value`` in [0, 1] with noise, rounded to a multiple of ``STEP``.

    Formal guarantee: ``epsilon``-DP, without a delta, for ``shape = pure_noise(epsilon)`` and a bound that is smooth
    with rate ``shape.smoothness``, under the neighbouring relation for which the bound is smooth. Proof: see the
    module.

    Args:
        value: the exact statistic; private.
        bound: its smooth bound; private.
        shape: the result of ``pure_noise``.
        noise: source of the random bits (``SecureNoise`` in production).
    """
    released: float = shape.release(value, min(max(bound, STEP), 1.0), grid=_GRID, noise=noise)[0].item()
    return released


def quantile(shape: SmoothNoise, probability: float) -> float:
    """The quantile of ``|noise|`` at this probability for a bound of 1, for intervals."""
    left = 1.0 - probability
    if shape.density is Density.POLYNOMIAL:
        alpha = float(shape.epsilon) / shape.rate
        centre = 1 - (1 - 1 / alpha) ** alpha
        tail = (1 - 1 / alpha) ** (alpha - 1) * (1 + 1 / alpha)
        if probability * (centre + tail) <= centre:
            size = 1 - (1 - probability * (centre + tail)) ** (1 / alpha)
        else:
            size = (1 + 1 / alpha) * (left * (centre + tail) / tail) ** (-1 / alpha) - 1
    elif shape.density is Density.CAUCHY:
        size = 1 / math.tan(left * math.pi / 2)
    elif shape.density is Density.LAPLACE:
        size = -math.log(left)
    else:
        raise ValueError(f"density: got {shape.density}; its quantile has no closed form here")
    distance: float = shape.scale * size
    return distance
