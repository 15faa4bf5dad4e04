"""The released lines of all groups, and the noise that regression mechanisms share."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours, exact_decimal, exact_difference, exact_sum, share_of
from spark_jobs.mechanisms.noise import Cost, Noise, gaussian_stddev, laplace_scale
from spark_jobs.mechanisms.regression.sums import GroupSums, rounded

LATTICE = 1 << 30
"""Lattice steps per sensitivity."""
_SCALES = ("covariance_scale", "variance_scale", "rows_scale", "centre_scale")


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyLines:
    """Released lines ``centre + slope (x - 1/2)`` through the unit box, one for each group; shape (groups,).

    Attributes:
        slope, centre: the parameters; always finite.
        failed: whether the slope is undefined because the noisy variance is not above 0 (the paper's bottom). The slope
            is then 0 and ``centre`` is a noisy mean of y.
        rows: the size of each group: public, or noisy and then perhaps below 1.
        covariance, variance: noisy ``sum (x - mean)(y - mean)`` and ``sum (x - mean)^2``; 0 if the method has none.
        covariance_scale, variance_scale, rows_scale, centre_scale: the scales of the noise in ``covariance``, in
            ``variance``, in ``rows``, and, given the slope, in ``centre * max(rows, 1)``. A scale is 0 if there is no
            noise or its scale is unknown.
        gaussian: whether the scales are standard deviations of normal noise, instead of scales of Laplace noise.
    """

    slope: FloatArray
    centre: FloatArray
    failed: BoolArray
    rows: FloatArray
    covariance: FloatArray
    variance: FloatArray
    covariance_scale: FloatArray
    variance_scale: FloatArray
    rows_scale: FloatArray
    centre_scale: FloatArray
    gaussian: bool = False

    def predict(self, at: ArrayLike) -> FloatArray:
        """The heights of the lines at these x, clipped to [0, 1]; shape (groups, len(at))."""
        steps = np.asarray(at, dtype=np.float64) - 0.5
        return np.clip(self.centre[:, None] + self.slope[:, None] * steps, 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """A total cost, its public shares, and the noise for each of them.

    Attributes:
        total: epsilon, or rho if ``gaussian``.
        shares: of the total, one for each measurement; their sum is 1.
        gaussian: whether the noise is Gaussian, at shares of rho; otherwise it is Laplace noise, at shares of epsilon.
        noise: the sampler of the noise.

    Raises:
        ValueError: the shares are not above 0, or their sum is not 1.
    """

    total: Cost
    shares: tuple[Cost, ...]
    gaussian: bool
    noise: Noise

    def __post_init__(self) -> None:
        shares = [exact_decimal(share, what="shares") for share in self.shares]
        if min(shares) <= 0 or exact_sum(*shares) != 1:
            raise ValueError(f"shares: got {[str(share) for share in shares]}; must be above 0 and add up to 1")

    def cost(self, part: int) -> Decimal:
        """The cost of the measurement with this index; all costs add up to the total exactly."""
        total = exact_decimal(self.total, what="rho" if self.gaussian else "epsilon")
        costs = [share_of(total, exact_decimal(share)) for share in self.shares[:-1]]
        return exact_difference(total, *costs) if part == len(costs) else costs[part]

    def add(self, part: int, values: Int64Array, *, moves: int, together: int = 1) -> Int64Array:
        """``values`` with noise, where one row changes ``together`` of them by at most ``moves`` each."""
        if self.gaussian:
            return self.noise.gaussian(values, rho=self.cost(part), l2_sensitivity=_l2(moves, together))
        return self.noise.laplace(values, epsilon=self.cost(part), l1_sensitivity=moves * together)

    def scale(self, part: int, *, moves: int, together: int = 1) -> float:
        """The scale of the noise of ``add`` if it is Laplace noise, or its standard deviation if it is Gaussian."""
        if self.gaussian:
            return gaussian_stddev(self.cost(part), _l2(moves, together))
        return laplace_scale(self.cost(part), moves * together)


def centred_lines(
    sums: GroupSums,
    covariance: NDArray[np.object_],
    variance: NDArray[np.object_],
    rows: FloatArray,
    draws: Draws,
    part: int,
    neighbours: Neighbours,
) -> tuple[FloatArray, FloatArray]:
    """The height of each line at the middle of the box, and the scale of its noise times ``max(rows, 1)``.

    With the slope ``s = covariance / variance`` known, ``sum (y - 1/2) - s (x - 1/2)`` changes by at most
    ``(1 + |s|) / 2`` if a row is added or removed and by ``1 + |s|`` if one is replaced.

    Args:
        sums: the exact sums; private.
        covariance: whole numbers, released.
        variance: whole numbers above 0, released.
        rows: the sizes of the groups, public or released.
        draws: the noise and its shares.
        part: the index of the share for this measurement.
        neighbours: the neighbouring relation.
    """
    along, up = sums.centred()
    reach = variance + np.abs(covariance)
    half = 2 if neighbours is Neighbours.REPLACE_ONE else 1
    exact = rounded((variance * up - covariance * along) * LATTICE, half * sums.steps * reach)
    noisy = draws.add(part, exact, moves=LATTICE)
    moved = (half / 2) * (reach / variance).astype(np.float64)
    centre = 0.5 + noisy / LATTICE * moved / np.maximum(rows, 1.0)
    return centre, draws.scale(part, moves=LATTICE) / LATTICE * moved


def _l2(moves: int, together: int) -> float:
    # slightly above the square root, to cover its rounding
    return moves if together == 1 else moves * together**0.5 * (1 + 1e-15)
