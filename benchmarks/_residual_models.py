"""Tables of fitted values and residuals with known lack of fit, after Chen 2018, section 4.2.3."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spark_jobs.arrays import FloatArray

Points = tuple[FloatArray, FloatArray]
Draw = Callable[[int, np.random.Generator], Points]


def linear(noise: Callable[[FloatArray], object], *, bend: float = 0.0, floor: float = 0.0) -> Draw:
    """Tables of ``y = x + bend x^2 + noise``, as fitted value ``x`` and residual ``y - x``: the model is M1's line."""

    def draw(rows: int, random: np.random.Generator) -> Points:
        x = random.uniform(floor, 50, rows)
        return x, bend * x**2 + np.asarray(noise(x)) * random.normal(size=rows)

    return draw


def least_squares(draw: Draw) -> Draw:
    """The same tables under the line of least squares through each of them."""

    def fitted(rows: int, random: np.random.Generator) -> Points:
        x, residual = draw(rows, random)
        slope, intercept = np.polyfit(x, x + residual, 1)
        return intercept + slope * x, x + residual - (intercept + slope * x)

    return fitted


M1 = linear(lambda x: 1.0)


def uneven(alpha: float) -> Draw:
    """M2."""
    return linear(lambda x: 1.0 + alpha * x)


def curved(gamma: float) -> Draw:
    """M3."""
    return linear(lambda x: 1.0, bend=gamma)


def shifted(by: float) -> Draw:
    """M1 with all residuals shifted by the same amount."""

    def draw(rows: int, random: np.random.Generator) -> Points:
        x, residual = M1(rows, random)
        return x, residual + by

    return draw


def fanned_out(draw: Draw) -> Draw:
    """The same with a spread that grows threefold along the fitted values, and still without curvature."""

    def fanned(rows: int, random: np.random.Generator) -> Points:
        fitted, residual = draw(rows, random)
        return fitted, residual * (1 + fitted / 25)

    return fanned


SKEWED: dict[str, Draw] = {
    "exponential": lambda rows, random: (random.uniform(0, 50, rows), random.exponential(1.0, rows) - 1),
    "lognormal": lambda rows, random: (random.uniform(0, 50, rows), random.lognormal(0, 1, rows) - np.exp(0.5)),
}
"""Residuals of mean 0 that are not as far out on one side as on the other; the model holds."""
