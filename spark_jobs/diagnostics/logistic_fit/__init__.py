"""Private logistic models of several variables, by noisy Newton passes.

Guarantee: ``epsilon``-DP, or ``(epsilon, delta)``-DP by Gaussian noise, for one row added or removed, or replaced.
Every pass releases a gradient and a Hessian of the log likelihood (``mechanisms.newton_pass``, with the proof) at
coefficients that are computed from the passes before it. Passes compose adaptively, and none of them is published
before the last one. The model and all its intervals are made from this draw.

Without noise the model is the maximum likelihood fit of the clipped, rounded rows: at an epsilon of 10^6, it is within
1% of statsmodels'. Where the class sizes say that noise would hide a Newton step, there is one pass, at 0, and the
result is the maximum of a polynomial in place of the log likelihood (``surrogate``): its status is ``shrunk``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> from spark_jobs.statistics.labelled_rows import Bounded, LabelledRowCells
    >>> design = LabelledRowCells(features=(Bounded(name="x", lower=0, upper=1),))
    >>> x, y = [0.0, 0.0, 1.0, 1.0] * 5000, [0, 1, 1, 1] * 5000
    >>> result = release(LabelledRows.from_arrays({"x": x}, y, design=design), epsilon=1, noise=SeededNoise(1))
    >>> result.model["kind"], result.model["bounds"], round(result.positives, 2)
    ('logistic', {'x': [0.0, 1.0]}, 0.75)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, SHRUNK, UNDEFINED
from spark_jobs.contract.options import LogisticFitOptions, LogisticFitSettings
from spark_jobs.contract.options.fits import InterceptMethod
from spark_jobs.contract.results.fits import PrivateLogisticFit
from spark_jobs.diagnostics._fits.intervals import as_line, copies_for, least_squares_copies, normals
from spark_jobs.diagnostics._fits.measurement import FitDraw, layout_of
from spark_jobs.diagnostics._fits.solving import solve
from spark_jobs.diagnostics._fits.summary import Fitted, digits, released_fit
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.logistic_fit.newton import newton_step
from spark_jobs.diagnostics.logistic_fit.passes import step_of, take_passes
from spark_jobs.diagnostics.logistic_fit.surrogate import products_at_0, surrogate_line
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.mechanisms.moment_matrix import Layout
from spark_jobs.mechanisms.newton_pass import NewtonPass, rounding_stddev
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import LabelledRows

__all__ = ["DIAGNOSTIC", "LogisticFitDraw", "PrivateLogisticFit", "measure", "release", "summarise"]

LONG_STEP = 0.5
"""The longest last step after which the remainder is small enough to be described by intervals."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LogisticFitDraw(FitDraw):
    """The draw of a logistic fit.

    Attributes:
        radius, intercept: the settings of the polynomial where the passes start (``surrogate``).
        layout: the meaning of the passes' entries: intercept, ``features`` and ``categorical``.
        sizes: noisy numbers of rows with label 0 and 1.
        sizes_stddev: standard deviation of the noise in ``sizes``.
        passes: gradients and Hessians, in order; the first pass is at coefficients of 0. If it is the only pass, the
            model is the maximum of the polynomial.
    """

    radius: float
    intercept: InterceptMethod
    layout: Layout
    sizes: Int64Array
    sizes_stddev: float
    passes: tuple[NewtonPass, ...]


def measure_rows(statistic: LabelledRows, options: LogisticFitSettings, terms: Terms) -> LogisticFitDraw:
    """Draw the noise of a logistic fit, in passes over the rows; ``(epsilon, delta)``-DP, see the module.

    Args:
        statistic: rows with a label; private.
        options: the settings.
        terms: budget, relation and noise; delta is spent if the noise is Gaussian.

    Raises:
        InvalidRequest: the statistic is not of rows with a label, or the noise is Gaussian and there is no delta.
    """
    if not isinstance(statistic, LabelledRows):
        raise InvalidRequest("statistic", None, "must be LabelledRows", "use linear_fit for sums")
    design = statistic.design
    layout = layout_of(design)
    drawn = take_passes(statistic, layout, options, terms)
    return LogisticFitDraw(
        features=design.features,
        categorical=design.categorical,
        radius=options.radius,
        intercept=options.intercept,
        layout=layout,
        sizes=drawn.sizes,
        sizes_stddev=drawn.sizes_stddev,
        passes=drawn.passes,
        confidence=options.confidence,
        neighbours=terms.neighbours,
        guarantee=terms.noise.guarantee,
        spendings=drawn.spendings,
    )


def summarise(measurement: LogisticFitDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> PrivateLogisticFit:
    """The model of a draw; the same draw and seed give the same model.

    Args:
        measurement: the draw.
        seed: public seed of the simulations behind intervals.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    noise = SeededNoise(seed)
    newton = len(measurement.passes) > 1
    parts = (_newton_fit if newton else _surrogate_fit)(measurement, noise, sampling.effect().value)
    line, noisy, sampled, ridge, status = parts
    rows, positives, stddev = _sizes(measurement)
    if rows < max(1.0, DEFINED_ABOVE * stddev):
        status = UNDEFINED
    fitted = Fitted(
        line=line,
        noisy=noisy,
        sampled=sampled,
        rows=rows,
        ridge=ridge,
        status=status,
        method=measurement.passes[-1].method,
    )
    share = digits(min(max(positives / max(rows, 1.0), 0.0), 1.0))
    return released_fit(PrivateLogisticFit, measurement, fitted, positives=share)


def _sizes(measurement: LogisticFitDraw) -> tuple[float, float, float]:
    """Rows, those with label 1, and the standard deviation of the rows' noise; by class sizes, or by the pass at 0."""
    first, layout = measurement.passes[0], measurement.layout
    by_pass = 4.0 * first.stddevs(layout)[1]
    if by_pass < math.sqrt(2.0) * measurement.sizes_stddev:
        rows = 4.0 * float(first.curvature(layout)[0, 0])
        return rows, rows / 2 + float(first.slope(layout)[0]), by_pass
    negatives, positives = (float(size) for size in measurement.sizes)
    return negatives + positives, positives, math.sqrt(2.0) * measurement.sizes_stddev


Parts = tuple[FloatArray, FloatArray, FloatArray, float, str]
"""The linear predictor, its copies with noise, those with noise and sampling, the ridge and the status."""


def _newton_fit(measurement: LogisticFitDraw, noise: SeededNoise, effect: float) -> Parts:
    """The step of the last pass; its copies have other noise in gradient and Hessian, and what a further step moves.

    They also have an error for the rounding of the gradient, which at a very large epsilon exceeds the noise. That of
    the Hessian is not simulated: it moves a coefficient by as small a part of the last step.
    """
    last, layout = measurement.passes[-1], measurement.layout
    step, stddev = step_of(last, layout), last.stddevs(layout)[1]
    count = copies_for(layout.size + 1)
    gradients, hessians = last.copies(count, layout, noise=noise)
    rounding = rounding_stddev(max(_sizes(measurement)[0], 0.0), layout) * normals(noise, count, layout.size)
    copies = newton_step(
        last.slope(layout) + gradients + rounding,
        last.curvature(layout) + hessians,
        last.coefficients,
        stddev=stddev,
        grid=1 / layout.steps,
        min_ridge=float(step.ridge),
    )
    line = last.coefficients + step.taken()
    noisy = last.coefficients + copies.taken() + normals(noise, count, layout.size) * step.remainder()
    sampled = noisy + math.sqrt(effect) * step.sampling(normals(noise, count, layout.size))
    # a ridge that only the lattice asks for shrinks what the rows do not tell
    shrunk = float(step.ridge) > 2.0 * float(step.weight) / layout.steps**2
    long = bool(step.shortened) or float(step.length) > LONG_STEP
    return line, noisy, sampled, float(step.ridge), SHRUNK if shrunk or long else OK


def _surrogate_fit(measurement: LogisticFitDraw, noise: SeededNoise, effect: float) -> Parts:
    """The fit of the polynomial, from the pass at 0 alone."""
    [only], layout = measurement.passes, measurement.layout
    stddev, step = 4.0 * only.stddevs(layout)[1], 1 / layout.steps
    products = products_at_0(only.slope(layout), only.curvature(layout))
    solution = solve(products, stddev=stddev, step=step)
    line = surrogate_line(measurement.radius, measurement.intercept)
    drawn = products_at_0(*only.copies(copies_for(layout.size + 1), layout, noise=noise))
    noisy, sampled = least_squares_copies(
        products, drawn, solution, stddev=stddev, step=step, line=line, noise=noise, effect=effect
    )
    return np.asarray(as_line(line(solution))), noisy, sampled, float(solution.ridge), SHRUNK


class Call(LogisticFitSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=LogisticFitOptions,
    call=Call,
    measurement=Measurement[LabelledRows, LogisticFitDraw](draw=LogisticFitDraw, measure=measure_rows),
    summarise=summarise,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
