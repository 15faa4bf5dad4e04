"""Least squares from a noisy matrix of sums, with a ridge that depends on public facts and released values alone.

Let ``z = (1, x, y)`` with every number in [-1, 1] and ``A`` the noisy ``sum z z^T``. With the noisy number n of rows
and the noisy means, ``S = A_xx - n m_x m_x^T`` and ``t = A_xy - n m_x m_y`` are the noisy sums about the means. The
slopes solve ``(S + ridge I) b = t``: least squares, with a ridge if the noise may make S singular.

The ridge: a symmetric p x p matrix of independent noise with standard deviation ``s`` has its eigenvalues within
``2 s sqrt(p)`` (Wigner's semicircle). If the smallest eigenvalue of S is below this bound, the ridge raises it to the
bound. Without noise the bound is the eigenvalue that rounding to the lattice may cause. Collinear features then share
their coefficient, as in a least squares solution of minimum norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """Least squares from one or several noisy matrices, in units where every number is in [-1, 1].

    Attributes:
        rows: noisy number of rows, at least 1; shape (...).
        means: noisy means of the features, within [-1, 1]; shape (..., p).
        outcome: noisy mean of the outcome, within [-1, 1]; shape (...).
        spread: noisy sums of squares and products of the features about their means, plus the ridge; shape (..., p, p).
        slopes: the slopes; shape (..., p).
        ridge: the ridge; shape (...).
        total, residual: noisy sums of squares of the outcome about its mean and about the fit, at least 0; shape (...).
        blur: a bound on the standard deviation of the noise in ``residual``; shape (...).
    """

    rows: FloatArray
    means: FloatArray
    outcome: FloatArray
    spread: FloatArray
    slopes: FloatArray
    ridge: FloatArray
    total: FloatArray
    residual: FloatArray
    blur: FloatArray

    @property
    def variance(self) -> FloatArray:
        """Variance of the residuals, at least what the noise may hide; in [0, 1], shape (...)."""
        free = np.maximum(self.rows - self.slopes.shape[-1] - 1.0, 1.0)
        variance: FloatArray = np.minimum(np.maximum(self.residual, self.blur) / free, 1.0)
        return variance


def solve(matrices: FloatArray, *, stddev: float, step: float, min_ridge: float = 0.0) -> Solution:
    """Solve least squares from noisy sums of products.

    Args:
        matrices: symmetric matrices, intercept first and outcome last; shape (..., p + 2, p + 2).
        stddev: standard deviation of the noise in each entry.
        step: step of the lattice that the entries were rounded to.
        min_ridge: smallest ridge.
    """
    rows = np.maximum(matrices[..., 0, 0], 1.0)
    means = np.clip(matrices[..., 0, 1:-1] / rows[..., None], -1.0, 1.0)
    outcome = np.clip(matrices[..., 0, -1] / rows, -1.0, 1.0)
    scaled = rows[..., None] * means
    spread = matrices[..., 1:-1, 1:-1] - scaled[..., :, None] * means[..., None, :]
    cross = matrices[..., 1:-1, -1] - scaled * outcome[..., None]
    total = np.clip(matrices[..., -1, -1] - rows * outcome**2, 0.0, rows)
    values, vectors = np.linalg.eigh(spread)
    floor = np.maximum(2.0 * stddev * math.sqrt(means.shape[-1]), rows * step**2)
    ridge = np.maximum(floor - values[..., 0], min_ridge)
    ridge = np.where(ridge <= 0.0, 0.0, ridge)
    turned = np.einsum("...ji,...j->...i", vectors, cross) / (values + ridge[..., None])
    slopes = np.einsum("...ij,...j->...i", vectors, turned)
    explained = 2.0 * (slopes * cross).sum(axis=-1) - np.einsum("...i,...ij,...j->...", slopes, spread, slopes)
    # a residual is w z with w = (-intercept, -slopes, 1), so the noise in the sum of squares is w E w^T
    start = outcome - (slopes * means).sum(axis=-1)
    blur = math.sqrt(2.0) * stddev * (1.0 + start**2 + (slopes**2).sum(axis=-1))
    return Solution(
        rows=rows,
        means=means,
        outcome=outcome,
        spread=spread + ridge[..., None, None] * np.eye(means.shape[-1]),
        slopes=slopes,
        ridge=ridge,
        total=total,
        residual=np.clip(total - explained, 0.0, total),
        blur=blur,
    )
