"""Lines by noisy gradient descent: DPGradDescent of Alabi, McMillan, Sarathy, Smith, Vadhan (PoPETs 2022).

For comparison only: ``moments`` measures the same sums once that T gradients measure T times, so that the noise of
``moments`` is smaller, by a factor of about ``sqrt T`` under zCDP and of T under pure privacy. The parameters are the
heights ``p, q`` of the line at x = 1/4 and 3/4; a row's gradient of ``(2 p (3/4 - x) + 2 q (x - 1/4) - y)^2`` is
clipped to [-clip, clip] in each coordinate, rounded to a lattice with ``2^20`` steps in ``clip``, and summed.

Each of T steps releases one noisy sum, a vector of two entries. A row that is added or removed changes each entry by at
most ``clip``: 1-norm ``2 clip``, 2-norm ``sqrt 2 clip``. A row that is replaced changes each entry by at most
``2 clip``: 1-norm ``4 clip``, 2-norm ``2 sqrt 2 clip``. If each step costs ``epsilon / T`` or ``rho / T``, all steps
together cost epsilon or rho, by adaptive composition (Dwork, Roth 2014, theorem 3.16; Bun, Steinke, TCC 2016, lemma
2.3). *All* rows of a group are summed, each point once with its count: if only some were kept (``row_selection``), an
added row could displace another, and a sum would have to be charged as a replacement under both relations. Step sizes
depend only on the noisy gradients (AdaGrad), and the result is the average of the second half of the path. Groups
compose as in ``noisy_stats``.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours, exact_decimal, share
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.regression.lines import NoisyLines

LATTICE = 1 << 20
ITERATIONS = 20
CLIP = 0.25
STEP = 0.25
"""Chosen on synthetic data; public, like the other constants."""


def gradient_descent(
    group: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    counts: ArrayLike,
    *,
    groups: int,
    steps: int,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    iterations: int = ITERATIONS,
    clip: float = CLIP,
) -> NoisyLines:
    """A line for each group by ``iterations`` noisy gradients; ``epsilon``-DP under ``neighbours``.

    Args:
        group: the group of each distinct point, 0 to ``groups - 1``; shape (k,).
        x: the x of each point, a whole number from 0 to ``steps``.
        y: the y of each point, likewise.
        counts: the number of rows at each point. Under ``REPLACE_ONE``, rows with missing values must be placed in the
            middle of the box.
        groups: the number of groups.
        steps: the number of grid steps from 0 to 1; public.
        epsilon: the cost of all groups together.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        iterations: T, public.
        clip: the bound on each coordinate of a row's gradient; public.

    Returns:
        Lines without noisy moments: ``rows``, ``covariance``, ``variance`` and the scales are 0.

    Raises:
        InvalidRequest: epsilon is not a finite number above 0.
        ValueError: ``iterations`` is below 1, or ``clip`` is not finite and above 0.
    """
    step_epsilon = share(exact_decimal(epsilon, what="epsilon"), max(iterations, 1))
    rows = _Rows(group, x, y, counts, groups=groups, steps=steps, clip=clip)

    def noisy(sums: Int64Array) -> Int64Array:
        return noise.laplace(sums, epsilon=step_epsilon, l1_sensitivity=2 * rows_changed(neighbours) * LATTICE)

    return _descended(rows, noisy, iterations)


def gradient_descent_zcdp(
    group: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    counts: ArrayLike,
    *,
    groups: int,
    steps: int,
    rho: Cost,
    neighbours: Neighbours,
    noise: Noise,
    iterations: int = ITERATIONS,
    clip: float = CLIP,
) -> NoisyLines:
    """``gradient_descent`` with Gaussian noise: ``rho``-zCDP under ``neighbours``.

    For (epsilon, delta)-DP use ``zcdp.rho_within(epsilon, delta)``.

    Raises:
        InvalidRequest: rho is not a finite number above 0.
        ValueError: as in ``gradient_descent``.
    """
    step_rho: Decimal = share(exact_decimal(rho, what="rho"), max(iterations, 1))
    rows = _Rows(group, x, y, counts, groups=groups, steps=steps, clip=clip)
    # slightly above the square root of two, to cover its rounding
    sensitivity = rows_changed(neighbours) * LATTICE * 2**0.5 * (1 + 1e-15)

    def noisy(sums: Int64Array) -> Int64Array:
        return noise.gaussian(sums, rho=step_rho, l2_sensitivity=sensitivity)

    return _descended(rows, noisy, iterations)


class _Rows:
    """The counted points, ordered by group; private."""

    def __init__(
        self,
        group: ArrayLike,
        x: ArrayLike,
        y: ArrayLike,
        counts: ArrayLike,
        *,
        groups: int,
        steps: int,
        clip: float,
    ) -> None:
        if not 0 < clip < np.inf:
            raise ValueError(f"clip: got {clip}; must be above 0 and finite")
        where = np.asarray(group, dtype=np.int64)
        order = np.argsort(where, kind="stable")
        self.group, self.counts = where[order], np.asarray(counts, dtype=np.int64)[order]
        self.y = np.clip(np.asarray(y, dtype=np.int64)[order], 0, steps) / steps
        along = np.clip(np.asarray(x, dtype=np.int64)[order], 0, steps) / steps
        self.weights = np.stack([2 * (0.75 - along), 2 * (along - 0.25)])
        self.ends = np.searchsorted(self.group, np.arange(groups + 1))
        self.clip = clip

    def gradients(self, heights: FloatArray) -> Int64Array:
        """The exact sums of clipped gradients at ``heights``, in lattice steps; both have shape (2, groups)."""
        own = heights[:, self.group]
        slack = (own * self.weights).sum(axis=0) - self.y
        clipped = np.clip(2 * slack * self.weights, -self.clip, self.clip)
        steps = np.rint(clipped / self.clip * LATTICE).astype(np.int64) * self.counts
        upto = np.concatenate([np.zeros((2, 1), dtype=np.int64), np.cumsum(steps, axis=1)], axis=1)
        sums: Int64Array = upto[:, self.ends[1:]] - upto[:, self.ends[:-1]]
        return sums


def _descended(rows: _Rows, noisy: Callable[[Int64Array], Int64Array], iterations: int) -> NoisyLines:
    if iterations < 1:
        raise ValueError(f"iterations: got {iterations}; must be at least 1")
    heights = np.full((2, rows.ends.size - 1), 0.5)
    squares, total, kept = np.zeros_like(heights), np.zeros_like(heights), 0
    for step in range(iterations):
        gradient = noisy(rows.gradients(heights)) / LATTICE
        squares += gradient**2
        heights = np.clip(heights - STEP * gradient / np.sqrt(np.maximum(squares, 1e-12)), -1.0, 2.0)
        if 2 * step >= iterations - 1:
            total, kept = total + heights, kept + 1
    low, high = total / kept
    nothing = np.zeros(low.size)
    return NoisyLines(
        slope=2 * (high - low),
        centre=(low + high) / 2,
        failed=np.zeros(low.size, dtype=bool),
        rows=nothing,
        covariance=nothing,
        variance=nothing,
        covariance_scale=nothing,
        variance_scale=nothing,
        rows_scale=nothing,
        centre_scale=nothing,
    )
