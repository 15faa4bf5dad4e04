"""Private logistic models of several variables, from noisy sums of products.

Guarantee: ``epsilon``-DP, or ``(epsilon, delta)``-DP by Gaussian noise, for one row added or removed, or replaced.
The model and its intervals are all made from one noisy matrix (``mechanisms.moment_matrix``,
with the proof).

The logistic log likelihood ``-log(1 + exp(-u))`` is replaced by its best polynomial of degree two on
``[-radius, radius]``, in Chebyshev's sense, so that sums of products are all that it needs of the rows: polynomial
approximate sufficient statistics (Huggins, Adams, Broderick, "PASS-GLM", NeurIPS 2017). With labels y of -1 and 1 and
the polynomial ``b0 + b1 u + b2 u^2`` its maximum is ``-b1 / (2 b2)`` times the least squares fit of y: the same
direction at any radius, and so the same ROC curve; the radius stretches it.

``intercept="matched"`` moves the intercept so that the mean probability is the noisy share of positives, if the linear
predictor is normal with the mean and variance that the noisy sums give it; ``"polynomial"`` keeps the polynomial's own.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> from spark_jobs.statistics.cross_products import Bounded
    >>> design = LabelProductCells(features=(Bounded(name="x", lower=0, upper=1),))
    >>> x, y = [0.0, 0.0, 1.0, 1.0] * 5000, [0, 0, 0, 1] * 5000
    >>> result = release(CrossProducts.from_arrays({"x": x}, y, design=design), epsilon=1, noise=SeededNoise(1))
    >>> result.model["kind"], result.model["bounds"], round(result.fit["positives"], 2)
    ('logistic', {'x': [0.0, 1.0]}, 0.25)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import LabelProductCells, LogisticFitOptions, LogisticFitSettings
from spark_jobs.diagnostics._fits.measurement import FitDraw, measured
from spark_jobs.diagnostics._fits.result import PrivateFit
from spark_jobs.diagnostics._fits.solving import Solution
from spark_jobs.diagnostics._fits.summary import summarise_fit
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.statistics import CrossProducts

__all__ = ["DIAGNOSTIC", "LogisticFitDraw", "PrivateFit", "measure", "release", "summarise"]

NODES = 61
HALVINGS = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class LogisticFitDraw(FitDraw):
    """The draw of a logistic fit.

    Attributes:
        radius: the polynomial's.
        intercept: ``matched`` or ``polynomial``.
    """

    radius: float
    intercept: str


def measure_sums(statistic: CrossProducts, options: LogisticFitSettings, terms: Terms) -> LogisticFitDraw:
    """Draw the noise of a logistic fit; ``(epsilon, delta)``-DP for one row added, removed or replaced.

    Args:
        statistic: exact sums of a design with a label; private.
        options: the settings.
        terms: budget, relation and noise; delta is spent if the noise is Gaussian.

    Raises:
        InvalidRequest: the sums are not of a label.
    """
    if not isinstance(statistic.design, LabelProductCells):
        raise InvalidRequest("statistic", requirement="must have a label", remedy="use linear_fit for other outcomes")
    return LogisticFitDraw(**measured(statistic, options, terms), radius=options.radius, intercept=options.intercept)


def summarise(measurement: LogisticFitDraw, *, seed: int) -> PrivateFit:
    """The model that a measurement makes; the same measurement and seed give the same one.

    Args:
        measurement: the draw.
        seed: of the simulations behind intervals; public.
    """
    stretch = stretched(measurement.radius)

    def line(solution: Solution) -> tuple[FloatArray, FloatArray]:
        slopes = stretch * solution.slopes
        at_means = (slopes * solution.means).sum(axis=-1)
        if measurement.intercept == "polynomial":
            return stretch * solution.outcome - at_means, slopes
        return _matching(solution, slopes) - at_means, slopes

    def fit(solution: Solution) -> dict[str, float]:
        return {"positives": float((1.0 + solution.outcome) / 2.0)}

    return summarise_fit(measurement, kind="logistic", line=line, fit=fit, seed=seed)


def stretched(radius: float) -> float:
    """``-b1 / (2 b2)`` of the polynomial: so many times a least squares fit of labels -1 and 1 is its maximum."""
    # coefficients of T1(u) = u and T2(u) = 2 u^2 - 1, by values where T3 is 0
    nodes = np.cos((2 * np.arange(3) + 1) * np.pi / 6)
    values = -np.logaddexp(0.0, -radius * nodes)
    first, second = (2.0 / 3.0 * (values @ of) for of in (nodes, 2.0 * nodes**2 - 1.0))
    return float(-first * radius / (4.0 * second))


def _matching(solution: Solution, slopes: FloatArray) -> FloatArray:
    """The mean linear predictor at which the mean probability is the share of positives; shape (...)."""
    at, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    smallest = 0.5 / (solution.rows + 1.0)
    share = np.clip((1.0 + solution.outcome) / 2.0, smallest, 1.0 - smallest)
    ridged = np.einsum("...i,...ij,...j->...", slopes, solution.spread, slopes) - solution.ridge * (slopes**2).sum(
        axis=-1
    )
    deviation = np.sqrt(np.maximum(ridged, 0.0) / solution.rows)
    steps = deviation[..., None] * at
    # normal spread pulls means towards a half, so the place is beyond the share's own log odds
    reach = np.abs(logit(share)) + 10.0 * deviation + 1.0
    low, high = -reach, reach
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        above = (expit(middle[..., None] + steps) * weights).sum(axis=-1) > share
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    matched: FloatArray = (low + high) / 2.0
    return matched


class Call(LogisticFitSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=LogisticFitOptions,
    call=Call,
    measurement=Measurement[CrossProducts, LogisticFitDraw](draw=LogisticFitDraw, measure=measure_sums),
    summarise=summarise,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
