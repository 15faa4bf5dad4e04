"""Lines of least squares from one release of noisy sums, instead of noisy gradients.

The gradients of a sum of squares are linear in ``sum x, sum y, sum x x, sum x y``; so T noisy gradients are T noisy
measurements of four numbers, and one measurement with T times the budget is better. The sums are relative to the middle
of the box: with ``a = 2 x - 1`` and ``b = 2 y - 1`` in [-1, 1], a row has the features ``a, b, c, a b`` with
``c = 2 a a - 1``, all in [-1, 1]. If the number of rows is private, it is measured too, as the sum of a further feature
that is always 1.

**Pure noise is drawn for all sums of a group together** (``k_norm``). Its body has ``|feature| <= 1`` and, with signs
s and t, three kinds of forms that the features of no row exceed:

* ``|s a + t b + s t a b - 1| <= 2``, since ``(1 + s a)(1 + t b)`` is from 0 to 4;
* ``|4 c + 8 s a - 3| <= 9``, since ``a a + s a`` is from -1/4 to 2, and ``4 c + 8 s a - 3 = 8 (a a + s a) - 7``;
* ``|4 c + 8 s a b - 3| <= 9``, since ``a a + s a b`` is between ``a a - |a|`` and ``a a + |a|``.

``ADD_REMOVE``: the sums change by the features of one row, or by minus these, and the forms apply with 1 as a feature.
``REPLACE_ONE``: they change by the difference of the features of two rows, in which the feature 1 cancels, and the
bounds are twice as large. Compared with Laplace noise (below), the standard deviations of the noise in the sums of a,
b, a a, a b are 0.48, 0.54, 0.42, 0.48 times as large under ``ADD_REMOVE``, and 0.75, 0.84, 0.40, 0.75 times under
``REPLACE_ONE``.

**Gaussian noise**, and Laplace noise if noise cannot be drawn together (``Noise.joint`` is false), is added to the sums
of ``a, b, a a, a b``, and to half the number of rows if this number is private. Sensitivity of one row:

* ``ADD_REMOVE``: each of the four sums changes by at most 1 in size, and at a corner of the box each changes by 1:
  1-norm 4, 2-norm 2. With half the number of rows they are 4.5 and ``sqrt 4.25``.
* ``REPLACE_ONE``: 1-norm 5, 2-norm ``sqrt 8``, both attained. *Proof.* Both norms are convex in ``(b, b')``, so let
  these be -1 or 1; let ``d = |a - a'|``, ``s = |a + a'|``, so ``d + s <= 2`` and ``d s <= 1``. If ``b = b'`` the
  differences are ``d, 0, d s, d``: 1-norm at most ``4 d - d^2 <= 4``, squared 2-norm ``d^2 (2 + s^2)``, which rises in
  d along ``s = 2 - d`` to 8. If ``b = -b'`` they are ``d, 2, d s, s``: 1-norm at most ``4 + d s <= 5``, squared 2-norm
  ``4 + d^2 + s^2 + d^2 s^2 <= 8``, as ``d^2 + s^2 <= 4 - 2 d s``.

All sums are whole numbers of grid steps; nothing is rounded. Groups compose as in ``noisy_stats``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours, exact_decimal
from spark_jobs.mechanisms.k_norm import Body
from spark_jobs.mechanisms.noise import (
    Cost,
    Noise,
    SeededNoise,
    gaussian_stddev,
    k_norm_scale,
    laplace_scale,
    laplace_variance,
)
from spark_jobs.mechanisms.regression.lines import NoisyLines
from spark_jobs.mechanisms.regression.sums import GroupSums, rounded, whole

SUMS = ("rows", "x", "y", "xx", "xy")
FINEST = 1 << 26
"""Lattice steps of joint noise, at least: a coarser grid of points gets a finer lattice."""
_SIGNS = (1, -1)
_FORMS = (
    *((-1, s, t, 0, s * t) for s in _SIGNS for t in _SIGNS),
    *((-3, 8 * s, 0, 4, 0) for s in _SIGNS),
    *((-3, 0, 0, 4, 8 * s) for s in _SIGNS),
)
"""Coefficients of the features 1, a, b, c, a b in linear forms that ``_BOUNDS`` limits."""
_BOUNDS = (2, 2, 2, 2, 9, 9, 9, 9)
_SPREAD = {
    Neighbours.ADD_REMOVE: (0.2582, 0.2199, 0.2770, 0.2825, 0.2199),
    Neighbours.REPLACE_ONE: (0.0, 0.2348, 0.2962, 0.2684, 0.2348),
}
"""Variances of uniform points of the body whose features are at most 1, by numerical integration."""
_TOGETHER = 0.0671
"""Their covariance of 1 and c under ``ADD_REMOVE``; all others are 0, as a and b may change their signs."""
_OF_FEATURES = np.array(
    [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0.5, 0, 0, 0.5, 0], [0, 0, 0, 0, 1]], dtype=np.float64
)
"""``SUMS`` of features: ``a a = (1 + c) / 2``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMoments:
    """Released sums over the rows of each group; arrays have shape (..., groups).

    Attributes:
        rows: the sizes of the groups: public, or noisy and then perhaps below 1.
        x, y, xx, xy: noisy sums of a, b, a a and a b, with ``a = 2 x - 1``, ``b = 2 y - 1``.
        cost: epsilon, or rho if ``gaussian``.
        gaussian: whether the noise is Gaussian, with a zCDP guarantee; otherwise the guarantee is a pure one.
        neighbours: the neighbouring relation.
        steps: grid steps from 0 to 1; the noise is a multiple of ``steps^-2``, or of a fraction of that.
        joint: whether the noise of a group's sums was drawn together; otherwise it is independent.
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
    joint: bool = False

    @property
    def scale(self) -> float:
        """The scale of the radius if the noise is joint, otherwise of the noise in each sum.

        Independent noise in private ``rows`` has twice this scale.
        """
        lattice = self.steps**2
        if self.joint:
            body = body_of(self.steps, self.neighbours)
            return k_norm_scale(self.cost, body) / body.unit
        if self.gaussian:
            return gaussian_stddev(self.cost, _l2(lattice, self.neighbours)) / lattice
        return laplace_scale(self.cost, _l1(lattice, self.neighbours)) / lattice

    @property
    def covariance(self) -> FloatArray:
        """The covariances of the noise in the sums of a group, in the order of ``SUMS``; shape (5, 5)."""
        private = self.neighbours is Neighbours.ADD_REMOVE
        if self.joint:
            reach = 1 if private else 2
            features = np.diag(_SPREAD[self.neighbours])
            features[0, 3] = features[3, 0] = _TOGETHER if private else 0.0
            size = _count(self.neighbours)
            radius = (size + 1) * (size + 2) * (reach * self.scale) ** 2  # of a gamma law with so many parts
            return radius * (_OF_FEATURES @ features @ _OF_FEATURES.T)
        lattice = self.steps**2
        of_one = self.scale**2 if self.gaussian else laplace_variance(self.scale * lattice) / lattice**2
        return of_one * np.diag([4.0 if private else 0.0, 1.0, 1.0, 1.0, 1.0])

    def copies(self, count: int, *, noise: SeededNoise) -> FloatArray:
        """Noise of one group alone, for simulations, in the order of ``SUMS``; shape (5, count)."""
        zeros = dict.fromkeys(SUMS, whole(np.zeros(count, dtype=np.int64)))
        nothing = GroupSums(steps=self.steps, **zeros)
        drawn = _measured(nothing, self, noise)
        return np.stack([getattr(drawn, name) for name in SUMS])

    def lines(self) -> NoisyLines:
        """The least-squares line of each group, with slope 0 where the noisy variance is not above 0 (``failed``).

        The scales of the covariance and the variance are standard deviations, to first order in the noise.
        """
        rows = np.maximum(self.rows, 1.0)
        across = self.xx - self.x**2 / rows
        along = self.xy - self.x * self.y / rows
        failed = across <= 0
        slope = np.where(failed, 0.0, along / np.where(failed, 1.0, across))
        share_x, share_y = self.x / rows, self.y / rows
        one, nothing = np.ones_like(rows), np.zeros_like(rows)
        # sums of a a and of a b are four times those in units of x
        of_variance = self._stddev(share_x**2, -2 * share_x, nothing, one, nothing)
        of_covariance = self._stddev(share_x * share_y, -share_y, -share_x, nothing, one)
        return NoisyLines(
            slope=slope,
            centre=0.5 + (self.y - slope * self.x) / rows / 2,
            failed=failed,
            rows=self.rows,
            covariance=along / 4,
            variance=across / 4,
            covariance_scale=of_covariance / 4,
            variance_scale=of_variance / 4,
            rows_scale=np.full(rows.shape, np.sqrt(self.covariance[0, 0])),
            centre_scale=self._stddev(nothing, -slope, one, nothing, nothing) / 2,
            gaussian=True,
        )

    def _stddev(self, *weights: FloatArray) -> FloatArray:
        """The standard deviation of the noise in a sum of ``SUMS`` with these weights."""
        of_sums = np.stack(weights, axis=-1)
        return np.asarray(np.sqrt(np.einsum("...i,ij,...j->...", of_sums, self.covariance, of_sums)))


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
    small = exact_decimal(epsilon) < body_of(sums.steps, neighbours).smallest_epsilon
    return _measured(sums, _unmeasured(sums, epsilon, neighbours, joint=noise.joint and not small), noise)


def noisy_moments_zcdp(sums: GroupSums, *, rho: Cost, neighbours: Neighbours, noise: Noise) -> NoisyMoments:
    """``noisy_moments`` with Gaussian noise: ``rho``-zCDP under ``neighbours``.

    Raises:
        InvalidRequest: rho is not a finite number above 0.
    """
    return _measured(sums, _unmeasured(sums, rho, neighbours, gaussian=True), noise)


def body_of(steps: int, neighbours: Neighbours) -> Body:
    """The K-norm body of a row's changes of its group's sums, with at least ``FINEST`` lattice steps from 0 to 1."""
    first = 0 if neighbours is Neighbours.ADD_REMOVE else 1
    reach = first + 1
    return Body(
        unit=steps**2 * max(1, FINEST // steps**2),
        widths=(reach,) * _count(neighbours),
        forms=tuple(form[first:] for form in _FORMS),
        bounds=tuple(reach * bound for bound in _BOUNDS),
    )


def _unmeasured(
    sums: GroupSums, cost: Cost, neighbours: Neighbours, *, gaussian: bool = False, joint: bool = False
) -> NoisyMoments:
    nothing = np.zeros(sums.rows.size)
    return NoisyMoments(
        rows=sums.rows.astype(np.float64),
        x=nothing,
        y=nothing,
        xx=nothing,
        xy=nothing,
        cost=cost if isinstance(cost, Decimal) else exact_decimal(cost),
        gaussian=gaussian,
        joint=joint,
        neighbours=neighbours,
        steps=sums.steps,
    )


def _measured(sums: GroupSums, like: NoisyMoments, noise: Noise) -> NoisyMoments:
    along, up = sums.centred()
    squares, products = sums.centred_products()
    lattice, private = sums.steps**2, like.neighbours is Neighbours.ADD_REMOVE
    exact, rows = [sums.steps * along, sums.steps * up, squares, products], sums.rows * lattice
    if like.joint:
        body = body_of(sums.steps, like.neighbours)
        exact[2] = 2 * squares - rows
        finer = body.unit // lattice
        vectors = np.stack([finer * one for one in ([rows, *exact] if private else exact)])
        drawn = noise.k_norm(vectors.T, epsilon=like.cost, body=body).T / body.unit
        features = drawn if private else np.stack([sums.rows.astype(np.float64), *drawn])
        return replace(like, **dict(zip(SUMS, _OF_FEATURES @ features, strict=True)))
    if private:
        exact.append(rows // 2)
    noisy = _independent(_int64(exact), like, noise) / lattice
    rows_released = 2 * noisy[4] if private else sums.rows.astype(np.float64)
    return replace(like, rows=rows_released, **dict(zip(SUMS[1:], noisy[:4], strict=True)))


def _int64(exact: list[NDArray[np.object_]]) -> Int64Array:
    ones = whole(np.ones(exact[0].size, dtype=np.int64))
    return np.stack([rounded(numbers, ones) for numbers in exact])


def _independent(exact: Int64Array, like: NoisyMoments, noise: Noise) -> Int64Array:
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
