"""Private linear models of several variables: least squares from noisy sums of products.

Guarantee: ``epsilon``-DP, or ``(epsilon, delta)``-DP by Gaussian noise, for one row added or removed, or replaced.
The model and its intervals are computed from one noisy matrix (proof: ``mechanisms.moment_matrix``).

At an epsilon of 10^9 the coefficients are those of ordinary least squares on the clipped rows, rounded to 4,096 steps
from the middle of each range to its ends.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> from spark_jobs.statistics.cross_products import Bounded
    >>> design = CrossProductCells(
    ...     features=(Bounded(name="x", lower=0, upper=10),), outcome=Bounded(name="y", lower=0, upper=100)
    ... )
    >>> x = [0.0, 2.5, 5.0, 7.5, 10.0] * 5000
    >>> rows = CrossProducts.from_arrays({"x": x}, [20 + 5 * value for value in x], design=design)
    >>> result = release(rows, epsilon=1, noise=SeededNoise(1))
    >>> result.terms, result.coefficients.round(1).tolist()
    (('intercept', 'x'), [20.0, 5.0])
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figures import DEFINED_ABOVE
from spark_jobs.contract.options import CrossProductCells, FitSettings, LinearFitOptions
from spark_jobs.diagnostics._fits.measurement import FitDraw, measured
from spark_jobs.diagnostics._fits.result import PrivateFit
from spark_jobs.diagnostics._fits.solving import Solution
from spark_jobs.diagnostics._fits.summary import summarise_fit
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.statistics import CrossProducts

__all__ = ["DIAGNOSTIC", "LinearFitDraw", "PrivateFit", "measure", "release", "summarise"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFitDraw(FitDraw):
    """The draw of a linear fit."""


def measure_sums(statistic: CrossProducts, options: FitSettings, terms: Terms) -> LinearFitDraw:
    """Draw the noise of a linear fit; ``(epsilon, delta)``-DP for one row added, removed or replaced.

    Args:
        statistic: exact sums of products of a design with an outcome; private.
        options: the settings.
        terms: budget, relation and noise; delta is spent if the noise is Gaussian.

    Raises:
        InvalidRequest: the sums are those of a label, not of an outcome.
    """
    if not isinstance(statistic.design, CrossProductCells):
        raise InvalidRequest(
            "statistic", requirement="must have an outcome with bounds", remedy="use logistic_fit for labels"
        )
    return LinearFitDraw(**measured(statistic, options, terms))


def summarise(measurement: LinearFitDraw, *, seed: int) -> PrivateFit:
    """The model of a draw; the same draw and seed give the same result.

    Args:
        measurement: the draw.
        seed: public seed of the simulations for intervals.
    """
    outcome = measurement.outcome
    if outcome is None:
        raise ValueError("measurement: must be that of a linear fit")
    middle, half = outcome.middle, outcome.half

    def line(solution: Solution) -> tuple[FloatArray, FloatArray]:
        intercept = solution.outcome - (solution.slopes * solution.means).sum(axis=-1)
        return middle + half * intercept, half * solution.slopes

    def fit(solution: Solution) -> dict[str, float]:
        if solution.residual < DEFINED_ABOVE * solution.blur:
            return {"residual_stddev": math.nan, "r_squared": math.nan}
        return {
            "residual_stddev": half * math.sqrt(solution.variance),
            "r_squared": 1.0 - float(solution.residual / solution.total),
        }

    return summarise_fit(measurement, kind="linear", line=line, fit=fit, seed=seed)


class Call(FitSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=LinearFitOptions,
    call=Call,
    measurement=Measurement[CrossProducts, LinearFitDraw](draw=LinearFitDraw, measure=measure_sums),
    summarise=summarise,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
