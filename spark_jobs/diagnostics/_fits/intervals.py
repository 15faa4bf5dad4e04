"""Intervals of coefficients for the noise, and for noise and sampling, by simulation from released values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._fits.solving import Solution, solve
from spark_jobs.mechanisms.moment_matrix import NoisyProducts
from spark_jobs.mechanisms.noise import SeededNoise

COPIES = 1000
MAX_NUMBERS = 4 * 10**6
"""Largest number of entries in all copies; with very many features there are fewer copies."""
Finish = Callable[[Solution], FloatArray]
"""Maps solutions of shape (...) to published numbers of shape (..., k)."""


def spreads(
    products: NoisyProducts, solution: Solution, *, finish: Finish, confidence: float, seed: int
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Ends of two intervals for each published number: for the noise alone, and for noise and sampling together.

    Basic bootstrap: the released matrix stands for the exact one, and copies of it get fresh noise. The deviations of
    the copies' numbers from the released ones stand for the deviations of the released ones from the exact ones. The
    ridge of the release is kept, so the first interval is for the same rows with that ridge and without noise. For the
    second interval each copy's solution gets a normal error with the covariance of ordinary least squares.

    Args:
        products: the released matrix.
        solution: its solution.
        finish: computes the published numbers.
        confidence: nominal level.
        seed: public seed of the simulation.

    Returns:
        Lower and upper ends of the first interval, and of the second; each of shape (k,).
    """
    noise = SeededNoise(seed)
    size = products.layout.size
    count = max(min(COPIES, MAX_NUMBERS // size**2), 100)
    drawn = products.copies(count, noise=noise)
    copies = solve(
        products.matrix + drawn,
        stddev=products.stddev,
        step=1 / products.layout.steps,
        min_ridge=float(solution.ridge),
    )
    centre = finish(solution)
    noisy = finish(copies) - centre
    sampled = finish(_resampled(solution, copies, noise=noise)) - centre
    tail = (1 - confidence) / 2
    ends = []
    for errors in (noisy, sampled):
        low, high = np.quantile(errors, [tail, 1 - tail], axis=0)
        ends.append((np.minimum(centre - high, centre), np.maximum(centre - low, centre)))
    return ends[0], ends[1]


def _resampled(solution: Solution, copies: Solution, *, noise: SeededNoise) -> Solution:
    """The copies with the sampling error of ordinary least squares, as if each had other rows of the population."""
    count, p = copies.slopes.shape
    words = noise.words(count * (p + 1)).reshape(count, p + 1)
    normal = ndtri((words.astype(np.float64) + 0.5) / 2.0**64)
    deviation = np.sqrt(solution.variance)
    # with L L^T the spread, L^-T times standard normals has the spread's inverse as its covariance
    factor = np.linalg.cholesky(solution.spread)
    moved = deviation * np.linalg.solve(factor.T, normal[:, :p].T).T
    level = deviation * normal[:, p] / np.sqrt(solution.rows)
    return Solution(
        rows=copies.rows,
        means=copies.means,
        outcome=copies.outcome + level,
        spread=copies.spread,
        slopes=copies.slopes + moved,
        ridge=copies.ridge,
        total=copies.total,
        residual=copies.residual,
        blur=copies.blur,
    )
