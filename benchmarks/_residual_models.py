"""Tables of fitted values and residuals with known lack of fit, after Chen 2018, section 4.2.3."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spark_jobs.arrays import FloatArray

UNIT = 0.01
"""Of the residuals of the law."""
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


def drawn_model(random: np.random.Generator) -> Draw:
    """A model of a written law: its fitted values, the trend of its residuals, their spread and their shape.

    Fitted values are uniform, normal, skewed or of few values, over a range of 10 to 1,000. The mean residual is a
    parabola with a slope of up to 0.1 and a bow of up to one standard deviation, and 0 in half of all models. The
    standard deviation is 1% to 20% of the range, and changes along it up to threefold. The shape is normal, skewed
    (gamma), heavy-tailed (Student's t) or rounded.
    """
    span, start = 10 ** random.uniform(1, 3), random.uniform(-100, 100)
    along = random.choice(["uniform", "normal", "skewed", "few"])
    shape = random.choice(["normal", "skewed", "t", "few"])
    spread = span * 10 ** random.uniform(-2, -0.7)
    slope, bow = random.uniform(-1, 1, 2) * [0.1 * span, spread] * (random.random() < 0.5)
    wider, few = random.uniform(-0.55, 0.55), int(random.integers(5, 40))
    gamma, degrees, step = random.uniform(0.7, 4), random.uniform(3, 6), spread * random.uniform(0.2, 1)

    def draw(rows: int, random: np.random.Generator) -> Points:
        place = {
            "uniform": lambda: random.uniform(-1, 1, rows),
            "normal": lambda: 0.4 * random.standard_normal(rows),
            "skewed": lambda: random.gamma(1.5, 0.4, rows) - 1,
            "few": lambda: 2 * random.integers(0, few, rows) / (few - 1) - 1,
        }[str(along)]()
        error = {
            "skewed": lambda: (random.gamma(gamma, size=rows) - gamma) / np.sqrt(gamma),
            "t": lambda: random.standard_t(degrees, rows) / np.sqrt(degrees / (degrees - 2)),
        }.get(str(shape), lambda: random.standard_normal(rows))()
        residual = slope * place + bow * (place**2 - 1 / 3) + spread * np.exp(wider * place) * error
        if shape == "few":
            residual = step * np.round(residual / step)
        return start + span * (place + 1) / 2, residual

    return draw
