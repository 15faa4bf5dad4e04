"""Simulated copies of a least squares solution from released values: with fresh noise, without and with sampling."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._fits.solving import Solution, solve
from spark_jobs.mechanisms.noise import SeededNoise

COPIES = 1000
MAX_NUMBERS = 4 * 10**6
"""Largest number of entries in all copies; with very many features there are fewer copies."""
Line = Callable[[Solution], tuple[FloatArray, FloatArray]]
"""Maps solutions to intercept and slopes of the linear predictor on features in [-1, 1]; shapes (...) and (..., p)."""


def copies_for(size: int) -> int:
    """How many copies of a matrix of this size are simulated."""
    return max(min(COPIES, MAX_NUMBERS // size**2), 100)


def least_squares_copies(
    matrix: FloatArray,
    drawn: FloatArray,
    solution: Solution,
    *,
    stddev: float,
    step: float,
    line: Line,
    noise: SeededNoise,
    effect: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Simulated copies of the linear predictor: first for the same rows, then for other rows of the population.

    All copies keep the ridge of the release. The first have fresh noise alone. The second add to each of the first a
    normal sampling error with the covariance of ordinary least squares.

    Args:
        matrix: the released matrix.
        drawn: fresh noise; shape (copies, size, size).
        solution: the solution of the released matrix.
        stddev: standard deviation of the noise in each entry.
        step: step of the lattice.
        line: computes the linear predictor of a solution.
        noise: random source of the simulation, from a public seed.
        effect: the design effect of the sampling.

    Returns:
        Two arrays of shape (copies, p + 1), the intercept first.
    """
    copies = solve(matrix + drawn, stddev=stddev, step=step, min_ridge=float(solution.ridge))
    resampled = _resampled(solution, copies, noise=noise, effect=effect)
    return as_line(line(copies)), as_line(line(resampled))


def as_line(predictor: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Intercept and slopes in one array, the intercept first; shape (..., p + 1)."""
    intercept, slopes = predictor
    return np.concatenate([np.asarray(intercept)[..., None], slopes], axis=-1)


def normals(noise: SeededNoise, count: int, size: int) -> FloatArray:
    """Standard normal variables; shape (count, size)."""
    words = noise.words(count * size).reshape(count, size)
    drawn: FloatArray = ndtri((words.astype(np.float64) + 0.5) / 2.0**64)
    return drawn


def _resampled(solution: Solution, copies: Solution, *, noise: SeededNoise, effect: float) -> Solution:
    """The copies with the sampling error of ordinary least squares, as if each had other rows of the population."""
    count, p = copies.slopes.shape
    normal = normals(noise, count, p + 1)
    deviation = np.sqrt(effect * solution.variance)
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
