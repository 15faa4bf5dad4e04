"""Newton steps from noisy gradients and Hessians: the ridge, the longest step, and when the next pass is the last.

About the weighted means, a noisy Hessian has the block ``S`` of the slopes. The step d maximises the quadratic that
gradient and Hessian describe, less ``ridge |slopes + d|^2 / 2``: it is a step towards the maximum likelihood fit with
that ridge. The ridge is as in ``_fits.solving``: it raises the smallest eigenvalue of S to ``2 s sqrt(p)``, the size
that noise of standard deviation s can have. Everything is computed from released values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray

LONGEST = 1.0
"""The longest step, as the root mean square of the change of the linear predictor; a longer one is shortened."""
CONVERGED = 0.01
"""After a step of this length another one moves nothing that matters: errors are squared."""
NOISE_DOMINATED = 0.01
"""The ridge, as a part of the weights, from which another pass with a part of the budget would only be noise."""
REMAINDER = 0.4
"""The part of a step's square that a further step is taken to move, in the worst direction; measured."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """A Newton step, or several; features are in [-1, 1].

    Attributes:
        change: change of intercept and slopes; shape (..., p + 1).
        ridge: in units of the Hessian; shape (...).
        weight: the noisy sum of the weights ``p (1 - p)``, at least 1; shape (...).
        means: weighted means of the features; shape (..., p).
        spread: the block of the slopes in the noisy Hessian about the weighted means, plus the ridge; shape (..., p,
            p).
        length: root mean square of the change of the linear predictor; shape (...).
    """

    change: FloatArray
    ridge: FloatArray
    weight: FloatArray
    means: FloatArray
    spread: FloatArray
    length: FloatArray

    @property
    def shortened(self) -> BoolArray:
        """Whether the step is longer than ``LONGEST``."""
        return np.asarray(self.length > LONGEST)

    def taken(self) -> FloatArray:
        """The change, shortened to length ``LONGEST`` if it is longer."""
        factor = np.minimum(1.0, LONGEST / np.maximum(self.length, 1e-300))
        taken: FloatArray = self.change * np.asarray(factor)[..., None]
        return taken

    def deviations(self, gradient_stddev: float) -> float:
        """The root mean square, over rows, by which noise in the gradient moves the linear predictor; for one step."""
        return gradient_stddev * math.sqrt(float(np.trace(np.linalg.inv(self.spread))) / float(self.weight))

    def remainder(self) -> FloatArray:
        """Standard deviations of the movement that further steps would still make; for one step, shape (p + 1,)."""
        inverse = np.linalg.inv(self.spread)
        first = 1.0 / float(self.weight) + self.means @ inverse @ self.means
        variances = np.concatenate([[first], np.diag(inverse)])
        moved: FloatArray = REMAINDER * float(self.length) ** 2 * np.sqrt(variances * float(self.weight))
        return moved

    def sampling(self, normal: FloatArray) -> FloatArray:
        """Sampling errors of intercept and slopes, made from standard normal variables of shape (copies, p + 1).

        With the ridge the covariance of the slopes is ``(S + ridge)^-1 S (S + ridge)^-1``, as that of the gradient is
        S.
        """
        values, vectors = np.linalg.eigh(self.spread)
        roots = np.sqrt(np.maximum(values - float(self.ridge), 0.0)) / values
        slopes = (normal[:, 1:] * roots) @ vectors.T
        level = normal[:, 0] / math.sqrt(float(self.weight)) - slopes @ self.means
        return np.concatenate([level[:, None], slopes], axis=1)


def newton_step(
    slope: FloatArray, curvature: FloatArray, at: FloatArray, *, stddev: float, grid: float, min_ridge: float = 0.0
) -> Step:
    """The Newton step from the coefficients ``at``.

    Args:
        slope: noisy gradients; shape (..., p + 1).
        curvature: noisy Hessians; shape (..., p + 1, p + 1).
        at: the coefficients at which both were taken; shape (p + 1,).
        stddev: standard deviation of the noise in an entry of the Hessian.
        grid: step of the lattice that numbers were rounded to.
        min_ridge: smallest ridge.
    """
    weight = np.maximum(curvature[..., 0, 0], max(1.0, 3.0 * stddev))
    means = np.clip(curvature[..., 0, 1:] / weight[..., None], -1.0, 1.0)
    block = curvature[..., 1:, 1:] - weight[..., None, None] * means[..., :, None] * means[..., None, :]
    values, vectors = np.linalg.eigh(block)
    floor = np.maximum(2.0 * stddev * math.sqrt(means.shape[-1]), weight * grid**2)
    ridge = np.maximum(np.maximum(floor - values[..., 0], min_ridge), 0.0)
    pull = slope[..., 1:] - means * slope[..., :1] - ridge[..., None] * at[1:]
    turned = np.einsum("...ji,...j->...i", vectors, pull) / (values + ridge[..., None])
    slopes = np.einsum("...ij,...j->...i", vectors, turned)
    level = slope[..., 0] / weight - (means * slopes).sum(axis=-1)
    squares = np.maximum(np.einsum("...i,...ij,...j->...", slopes, block, slopes), 0.0) / weight
    return Step(
        change=np.concatenate([level[..., None], slopes], axis=-1),
        ridge=ridge,
        weight=weight,
        means=means,
        spread=block + ridge[..., None, None] * np.eye(means.shape[-1]),
        length=np.sqrt(squares + (slope[..., 0] / weight) ** 2),
    )


def is_near(step: Step, *, stddev: float, last_stddev: float) -> bool:
    """Whether the next pass may be the last: a further step would move less than the noise of a last pass does.

    Args:
        step: the step that was taken.
        stddev: standard deviation of the noise in its gradient.
        last_stddev: standard deviation of the noise in the gradient of a last pass, with all of the remaining budget.
    """
    if float(step.ridge) > NOISE_DOMINATED * float(step.weight):
        return True
    within = max(CONVERGED, 0.5 * math.sqrt(step.deviations(last_stddev)), 1.5 * step.deviations(stddev))
    return float(step.length) < within and not bool(step.shortened)
