"""Private linear models of several variables: least squares from noisy sums of products.

Guarantee: ``epsilon``-DP, or ``(epsilon, delta)``-DP by Gaussian noise, for one row added or removed, or replaced.
Everything that is told of the model, its intervals too, is made from one noisy matrix (``mechanisms.moment_matrix``,
with the proof).

At an epsilon of 10^9 the coefficients are those of ordinary least squares on the clipped rows, rounded to 4,096 steps
from the middle of each range to its ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.figures import DEFINED_ABOVE
from spark_jobs.contract.options.fits import Fitting
from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.diagnostics._fits.measurement import SECURE, FitMeasurement, measured, measured_fields
from spark_jobs.diagnostics._fits.result import PrivateFit
from spark_jobs.diagnostics._fits.solving import Solution
from spark_jobs.diagnostics._fits.summary import tell
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.statistics import CrossProducts
from spark_jobs.statistics.cross_products import CrossProductCells

__all__ = ["Measurement", "PrivateFit", "measure", "release", "summarise"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement(FitMeasurement):
    """The draw of a linear fit."""

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The measurement that ``to_dict`` described."""
        return cls(**measured_fields(fields))


def measure(
    statistic: CrossProducts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    confidence: float = 0.9,
) -> Measurement:
    """Draw the noise of a linear fit; ``(epsilon, delta)``-DP for one row added, removed or replaced.

    Args:
        statistic: exact sums of a design with an outcome; private.
        epsilon: what the release may cost; all of it is spent.
        delta: the same; spent if the noise is Gaussian.
        neighbours: the relation.
        noise: where the noise comes from.
        method: ``laplace``, ``gaussian`` or ``auto``: the less noisy one.
        confidence: nominal level of intervals.

    Raises:
        RequestRefused: an option is out of its bounds, or the sums are of a label.
    """
    if not isinstance(statistic.design, CrossProductCells):
        raise RequestRefused(
            "statistic", bound="must have an outcome with bounds", remedy="use logistic_fit for labels"
        )
    options = Fitting(method=method, confidence=confidence)
    return Measurement(**measured(statistic, options, epsilon=epsilon, delta=delta, neighbours=neighbours, noise=noise))


def summarise(measurement: Measurement, *, seed: int) -> PrivateFit:
    """The model that a measurement makes; the same measurement and seed give the same one.

    Args:
        measurement: the draw.
        seed: of the simulations behind intervals; public.
    """
    outcome = measurement.outcome
    if outcome is None:
        raise ValueError("the measurement is that of a logistic fit")
    middle, half = outcome.middle, outcome.half

    def line(found: Solution) -> tuple[FloatArray, FloatArray]:
        intercept = found.outcome - (found.slopes * found.means).sum(axis=-1)
        return middle + half * intercept, half * found.slopes

    def fit(found: Solution) -> dict[str, float]:
        if found.residual < DEFINED_ABOVE * found.blur:
            return {"residual_stddev": math.nan, "r_squared": math.nan}
        return {
            "residual_stddev": half * math.sqrt(found.variance),
            "r_squared": 1.0 - float(found.residual / found.total),
        }

    return tell(measurement, kind="linear", line=line, fit=fit, seed=seed)


def release(
    statistic: CrossProducts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    confidence: float = 0.9,
) -> PrivateFit:
    """Measure and summarise in one call; arguments as ``measure``.

    Raises:
        RequestRefused: an option is out of its bounds.

    Example:
        >>> from spark_jobs.mechanisms.noise import SeededNoise
        >>> from spark_jobs.statistics.cross_products import Bounded
        >>> design = CrossProductCells(
        ...     features=(Bounded(name="x", lower=0, upper=10),), outcome=Bounded(name="y", lower=0, upper=100)
        ... )
        >>> x = [0.0, 2.5, 5.0, 7.5, 10.0] * 5000
        >>> rows = CrossProducts.from_arrays({"x": x}, [20 + 5 * value for value in x], design=design)
        >>> found = release(rows, epsilon=1, noise=SeededNoise(1))
        >>> found.terms, found.coefficients.round(1).tolist()
        (('intercept', 'x'), [20.0, 5.0])
    """
    Budget(epsilon=epsilon, delta=delta)
    measurement = measure(
        statistic,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        noise=noise,
        method=method,
        confidence=confidence,
    )
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
