"""Private linear models of several variables: least squares from noisy sums of products.

Guarantee: ``epsilon``-DP, or ``(epsilon, delta)``-DP by Gaussian noise, for one row added or removed, or replaced.
The model and its intervals are computed from one noisy matrix (proof: ``mechanisms.moment_matrix``). Intervals are
widened by how far the rounding of numbers may have moved a figure (``rounding``).

At an epsilon of 10^9 the coefficients are those of ordinary least squares on the clipped rows, rounded to 4,096 steps
from the middle of each range to its ends.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> from spark_jobs.statistics.cross_products import Bounded
    >>> from spark_jobs.contract.options import CrossProductCells
    >>> design = CrossProductCells(
    ...     features=(Bounded(name="x", lower=0, upper=10),), outcome=Bounded(name="y", lower=0, upper=100)
    ... )
    >>> x = [0.0, 2.5, 5.0, 7.5, 10.0] * 5000
    >>> rows = CrossProducts.from_arrays({"x": x}, [20 + 5 * value for value in x], design=design)
    >>> result = release(rows, epsilon=1, noise=SeededNoise(1))
    >>> result.terms, result.coefficients.value.round(1).tolist()
    (('intercept', 'x'), [20.0, 5.0])
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, SHRUNK, UNDEFINED
from spark_jobs.contract.options import FitSettings, LinearFitOptions
from spark_jobs.contract.options.fits import Bounded
from spark_jobs.contract.results.fits import PrivateLinearFit
from spark_jobs.diagnostics._fits.intervals import as_line, copies_for, least_squares_copies
from spark_jobs.diagnostics._fits.measurement import FitDraw, layout_of
from spark_jobs.diagnostics._fits.solving import Solution, solve
from spark_jobs.diagnostics._fits.summary import Fitted, digits, in_units, released_fit
from spark_jobs.diagnostics._simulation import with_intervals
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.linear_fit.rounding import moved_coefficients, moved_r_squared
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.mechanisms.moment_matrix import NoisyProducts, noisy_products
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import CrossProducts

__all__ = ["DIAGNOSTIC", "LinearFitDraw", "PrivateLinearFit", "measure", "release", "summarise"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFitDraw(FitDraw):
    """The draw of a linear fit.

    Attributes:
        outcome: the outcome with its bounds.
        products: the noisy matrix; its rows and columns are the intercept, the terms of ``features`` and
            ``categorical``, and the outcome.
    """

    outcome: Bounded
    products: NoisyProducts


def measure_sums(statistic: CrossProducts, options: FitSettings, terms: Terms) -> LinearFitDraw:
    """Draw the noise of a linear fit; ``(epsilon, delta)``-DP for one row added, removed or replaced.

    Args:
        statistic: exact sums of products of a design with an outcome; private.
        options: the settings.
        terms: budget, relation and noise; delta is spent if the noise is Gaussian.

    Raises:
        InvalidRequest: the statistic was counted for a label, not for an outcome.
    """
    if not isinstance(statistic, CrossProducts):
        raise InvalidRequest("statistic", None, "must be CrossProducts", "use logistic_fit for labels")
    design, meter = statistic.design, terms.meter()
    products = noisy_products(
        statistic.products,
        layout=layout_of(design),
        meter=meter,
        neighbours=terms.neighbours,
        noise=terms.noise,
        method=options.method,
    )
    return LinearFitDraw.of(
        terms,
        meter,
        features=design.features,
        categorical=design.categorical,
        outcome=design.outcome,
        products=products,
        confidence=options.confidence,
    )


def summarise(measurement: LinearFitDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> PrivateLinearFit:
    """The model of a draw; the same draw and seed give the same result.

    Args:
        measurement: the draw.
        seed: public seed of the simulations for intervals.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    effect = sampling.effect().value
    products, middle, half = measurement.products, measurement.outcome.middle, measurement.outcome.half
    stddev, step = products.stddev, 1 / products.layout.steps
    solution = solve(products.matrix, stddev=stddev, step=step)

    def line(solution: Solution) -> tuple[FloatArray, FloatArray]:
        intercept = solution.outcome - (solution.slopes * solution.means).sum(axis=-1)
        return middle + half * intercept, half * solution.slopes

    stddev_of_residuals, r_squared = None, Figure[float | None](value=None)
    copies = products.copies(copies_for(products.layout.size), noise=(noise := SeededNoise(seed)))
    if solution.total > 0 and solution.residual >= DEFINED_ABOVE * solution.blur:
        again = solve(products.matrix + copies, stddev=stddev, step=step, min_ridge=float(solution.ridge))
        stddev_of_residuals = digits(half * math.sqrt(solution.variance))
        moved = moved_r_squared(solution, products.layout)
        r_squared = _r_squared(solution, again, measurement.confidence, effect, moved).mapped(digits)
    noisy, sampled = least_squares_copies(
        products.matrix, copies, solution, stddev=stddev, step=step, line=line, noise=noise, effect=effect
    )
    rows, status = float(products.matrix[0, 0]), SHRUNK if solution.ridge > 0 else OK
    fitted = Fitted(
        line=as_line(line(solution)),
        noisy=noisy,
        sampled=sampled,
        moved=half * moved_coefficients(solution, products.layout, in_units(measurement, np.eye(noisy.shape[-1]))),
        rows=rows,
        ridge=float(solution.ridge),
        status=UNDEFINED if rows < max(1.0, DEFINED_ABOVE * stddev) else status,
        method=products.method,
    )
    return released_fit(PrivateLinearFit, measurement, fitted, residual_stddev=stddev_of_residuals, r_squared=r_squared)


def _r_squared(solution: Solution, copies: Solution, confidence: float, effect: float, moved: float) -> Figure[float]:
    """R^2 with its intervals, each wider by what rounding may have ``moved``.

    Its sampling variance is ``4 R^2 (1 - R^2)^2 / n`` (Olkin and Finn 1995, equation 1), plus ``2 p / n^2``, that of p
    features that explain nothing.
    """
    value, rows = 1.0 - float(solution.residual / solution.total), float(solution.rows)
    errors = 1.0 - copies.residual / np.maximum(copies.total, 1e-300) - value
    sampling = math.sqrt(effect * 4 * value * (1 - value) ** 2 / rows + 2 * solution.slopes.size * (effect / rows) ** 2)
    figure = with_intervals(value, errors, sampling=sampling, confidence=confidence, slack=moved)
    (low, high), (lowest, highest) = figure.ends(), figure.ends("population")
    low, high = min(low, value), max(high, value)
    return Figure(value=value, interval=Ends(low, high), population=Ends(min(lowest, low), max(highest, high)))


class Call(FitSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=LinearFitOptions,
    call=Call,
    measurement=Measurement[CrossProducts, LinearFitDraw](draw=LinearFitDraw, measure=measure_sums),
    summarise=summarise,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
