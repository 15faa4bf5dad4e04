"""Where the Newton passes start: the maximum of a polynomial in place of the logistic log likelihood.

The log likelihood ``-log(1 + exp(-u))`` is replaced by its best polynomial of degree two on ``[-radius, radius]``, in
Chebyshev's sense (Huggins, Adams, Broderick, "PASS-GLM", NeurIPS 2017). With labels y of -1 and 1 and the polynomial
``b0 + b1 u + b2 u^2`` its maximum is ``-b1 / (2 b2)`` times the least squares fit of y: it ranks rows as least squares
does, and the radius sets the scale. From the rows it needs only gradient and Hessian at coefficients of 0.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.options.fits import InterceptMethod
from spark_jobs.diagnostics._fits.intervals import Line
from spark_jobs.diagnostics._fits.solving import Solution

NODES = 61
HALVINGS = 60


def products_at_0(slope: FloatArray, curvature: FloatArray) -> FloatArray:
    """Sums of products of the features with labels of -1 and 1 as outcome, from gradient and Hessian at 0.

    The last two axes are one longer than those of the Hessian.
    """
    size = slope.shape[-1]
    products = np.zeros((*slope.shape[:-1], size + 1, size + 1))
    products[..., :-1, :-1] = 4.0 * curvature
    products[..., :-1, -1] = products[..., -1, :-1] = 2.0 * slope
    products[..., -1, -1] = products[..., 0, 0]
    return products


def surrogate_line(radius: float, intercept: InterceptMethod) -> Line:
    """A function from a least squares solution of ``products_at_0`` to the linear predictor of the polynomial.

    ``matched`` moves the intercept so that the mean probability is the noisy share of positives, if the linear
    predictor is normal with the mean and variance that the noisy sums give it; ``polynomial`` does not move the
    intercept.
    """
    stretch = stretched(radius)

    def line(solution: Solution) -> tuple[FloatArray, FloatArray]:
        slopes = stretch * solution.slopes
        at_means = (slopes * solution.means).sum(axis=-1)
        if intercept == "polynomial":
            return stretch * solution.outcome - at_means, slopes
        return _matching(solution, slopes) - at_means, slopes

    return line


def stretched(radius: float) -> float:
    """The factor ``-b1 / (2 b2)`` from the least squares fit of labels -1 and 1 to the maximum of the polynomial."""
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
