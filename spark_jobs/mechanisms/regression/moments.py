"""Lines of least squares from one release of noisy sums, instead of noisy gradients.

The gradients of a sum of squares are linear in ``sum x, sum y, sum x x, sum x y``; so T noisy gradients are T noisy
measurements of four numbers, and one measurement with T times the budget is better. The sums are relative to the middle
of the box: with ``a = 2 x - 1`` and ``b = 2 y - 1`` in [-1, 1], the mechanism measures ``sum (a, b, a a, a b)``, and
half the number of rows if this number is private.

Sensitivity of one row's ``(a, b, a a, a b)``:

* ``ADD_REMOVE``: each entry is at most 1 in size, and all of them are 1 in size at a corner: 1-norm 4, 2-norm 2. With
  half the number of rows: 4.5 and ``sqrt 4.25``.
* ``REPLACE_ONE``: 1-norm 5, 2-norm ``sqrt 8``, both attained. *Proof.* Both norms are convex in ``(b, b')``, so let
  these be -1 or 1; let ``d = |a - a'|``, ``s = |a + a'|``, so ``d + s <= 2`` and ``d s <= 1``. If ``b = b'`` the
  differences are ``d, 0, d s, d``: 1-norm at most ``4 d - d^2 <= 4``, squared 2-norm ``d^2 (2 + s^2)``, which rises in
  d along ``s = 2 - d`` to 8. If ``b = -b'`` they are ``d, 2, d s, s``: 1-norm at most ``4 + d s <= 5``, squared 2-norm
  ``4 + d^2 + s^2 + d^2 s^2 <= 8``, as ``d^2 + s^2 <= 4 - 2 d s``.

For sums relative to a corner of the box, with coordinates in [0, 1], these norms are 4 and 2 under both relations. A
sum of ``a a`` is four times the centred sum of squares of x, so that its noise, in terms of x, is 3.2 and 2.8 times
smaller. All sums are whole numbers of grid steps; nothing is rounded. Groups compose as in ``noisy_stats``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours, exact_decimal
from spark_jobs.mechanisms.noise import (
    Cost,
    Noise,
    gaussian_stddev,
    laplace_scale,
    laplace_variance,
)
from spark_jobs.mechanisms.regression.lines import NoisyLines
from spark_jobs.mechanisms.regression.sums import GroupSums, rounded, whole

_NAMES = ("rows", "x", "y", "xx", "xy")


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMoments:
    """Released sums over the rows of each group; arrays have shape (..., groups).

    Attributes:
        rows: the sizes of the groups: public, or noisy and then perhaps below 1.
        x, y, xx, xy: noisy sums of a, b, a a and a b, with ``a = 2 x - 1``, ``b = 2 y - 1``.
        cost: epsilon, or rho if ``gaussian``.
        gaussian: whether the noise is Gaussian, with a zCDP guarantee; otherwise it is Laplace noise with a pure one.
        neighbours: the neighbouring relation.
        steps: grid steps from 0 to 1; the noise is a multiple of ``steps^-2``.
    """

    rows: FloatArray
    x: FloatArray
    y: FloatArray
    xx: FloatArray
    xy: FloatArray
    cost: Decimal
    gaussian: bool
    neighbours: Neighbours
    steps: int

    @property
    def scale(self) -> float:
        """The scale, or Gaussian standard deviation, of the noise in each sum; private ``rows`` have twice as much."""
        lattice = self.steps**2
        if self.gaussian:
            return gaussian_stddev(self.cost, _l2(lattice, self.neighbours)) / lattice
        return laplace_scale(self.cost, _l1(lattice, self.neighbours)) / lattice

    @property
    def stddev(self) -> float:
        """The standard deviation of the noise in each sum."""
        lattice = self.steps**2
        return self.scale if self.gaussian else float(np.sqrt(laplace_variance(self.scale * lattice))) / lattice

    def lines(self) -> NoisyLines:
        """The least-squares line of each group, with slope 0 where the noisy variance is not above 0 (``failed``).

        The scales of the covariance and the variance are standard deviations, to first order in the noise.
        """
        rows = np.maximum(self.rows, 1.0)
        across = self.xx - self.x**2 / rows
        along = self.xy - self.x * self.y / rows
        failed = across <= 0
        slope = np.where(failed, 0.0, along / np.where(failed, 1.0, across))
        # sums of a a and of a b are four times those in units of x
        private = self.neighbours is Neighbours.ADD_REMOVE
        shares = self.x / rows, self.y / rows
        size = 2 * self.stddev if private else 0.0
        of_variance = np.hypot(self.stddev * np.sqrt(1 + 4 * shares[0] ** 2), size * shares[0] ** 2)
        of_covariance = self.stddev * np.sqrt(1 + shares[0] ** 2 + shares[1] ** 2)
        of_covariance = np.hypot(of_covariance, size * shares[0] * shares[1])
        return NoisyLines(
            slope=slope,
            centre=0.5 + (self.y - slope * self.x) / rows / 2,
            failed=failed,
            rows=self.rows,
            covariance=along / 4,
            variance=across / 4,
            covariance_scale=of_covariance / 4,
            variance_scale=of_variance / 4,
            rows_scale=np.full(rows.shape, size),
            centre_scale=self.stddev * np.sqrt(1 + slope**2) / 2,
            gaussian=True,
        )


def noisy_moments(sums: GroupSums, *, epsilon: Cost, neighbours: Neighbours, noise: Noise) -> NoisyMoments:
    """One noisy measurement of the sums of each group; ``epsilon``-DP (see the module's proof).

    Args:
        sums: exact; under ``REPLACE_ONE`` its ``rows`` must be public (``Moments.with_every_row``).
        epsilon: the cost of all groups together.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        InvalidRequest: epsilon is not a finite number above 0.
    """
    return _measured(sums, epsilon, neighbours, noise, gaussian=False)


def noisy_moments_zcdp(sums: GroupSums, *, rho: Cost, neighbours: Neighbours, noise: Noise) -> NoisyMoments:
    """``noisy_moments`` with Gaussian noise: ``rho``-zCDP under ``neighbours``.

    Raises:
        InvalidRequest: rho is not a finite number above 0.
    """
    return _measured(sums, rho, neighbours, noise, gaussian=True)


def _measured(sums: GroupSums, cost: Cost, neighbours: Neighbours, noise: Noise, *, gaussian: bool) -> NoisyMoments:
    along, up = sums.centred()
    squares, products = sums.centred_products()
    exact = [sums.steps * along, sums.steps * up, squares, products]
    if neighbours is Neighbours.ADD_REMOVE:
        exact.append(sums.rows * (sums.steps**2 // 2))
    nothing = np.zeros(sums.rows.size)
    empty = NoisyMoments(
        rows=sums.rows.astype(np.float64),
        x=nothing,
        y=nothing,
        xx=nothing,
        xy=nothing,
        cost=cost if isinstance(cost, Decimal) else exact_decimal(cost),
        gaussian=gaussian,
        neighbours=neighbours,
        steps=sums.steps,
    )
    ones = whole(np.ones(nothing.size, dtype=np.int64))
    noisy = _noisy(np.stack([rounded(numbers, ones) for numbers in exact]), empty, noise) / sums.steps**2
    return _with(empty, empty.rows if len(noisy) == 4 else 2 * noisy[4], *noisy[:4])


def _with(like: NoisyMoments, rows: FloatArray, *sums: FloatArray) -> NoisyMoments:
    x, y, xx, xy = sums
    return replace(like, rows=rows, x=x, y=y, xx=xx, xy=xy)


def _noisy(exact: Int64Array, like: NoisyMoments, noise: Noise) -> Int64Array:
    lattice = like.steps**2
    if like.gaussian:
        return noise.gaussian(exact, rho=like.cost, l2_sensitivity=_l2(lattice, like.neighbours))
    return noise.laplace(exact, epsilon=like.cost, l1_sensitivity=_l1(lattice, like.neighbours))


def _count(neighbours: Neighbours) -> int:
    return 5 if neighbours is Neighbours.ADD_REMOVE else 4


def _l1(lattice: int, neighbours: Neighbours) -> int:
    """The 1-norm sensitivity in lattice steps, of which ``lattice`` (even) are 1."""
    return 9 * lattice // 2 if neighbours is Neighbours.ADD_REMOVE else 5 * lattice


def _l2(lattice: int, neighbours: Neighbours) -> float:
    # slightly above the square root, to cover its rounding
    return lattice * float(np.sqrt(4.25 if neighbours is Neighbours.ADD_REMOVE else 8.0)) * (1 + 1e-15)
