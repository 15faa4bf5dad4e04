"""The distribution of the noise in a cell's numbers, in closed form: public, and the same for every cell.

The formulas are for ``p z + q w``, where z is the noise in a cell's number of rows and w the noise in one of the cell's
sums of values in [-1, 1] (``cell_sums``). Let s be the inverse of the cost of one row. The noise is one of three kinds:

* Laplace noise in each, with scale ``b`` of ``p z`` and ``c`` of ``q w``: ``P(|X| > x) = (b^2 exp(-x / b) - c^2 exp(-x
  / c)) / (b^2 - c^2)``, and ``exp(-x / b) (1 + x / 2 b)`` at ``b = c``. The two halves of ``cell_sums``, whose sum
  gives the rows and whose difference gives the sum of values, are of this kind, with ``b = |p + q| s`` and ``c = |p -
  q| s``: their noises are independent, and ``z + w`` and ``z - w`` are twice these noises.
* Gaussian noise of each number, independent, of standard deviation s: normal, of standard deviation
  ``s sqrt(p^2 + q^2)``.
* Noise drawn together for D numbers, from a cube: a radius R of the gamma law of shape D + 1 and scale s, times
  independent numbers that are uniform in [-1, 1]. With ``h`` the larger of ``|p|`` and ``|q|``, ``m`` the smaller
  divided by h, and u and v two of the uniform numbers, ``|p u + q v| / h`` is above y with probability ``1 - y`` for y
  up to ``1 - m`` and with probability ``(1 + m - y)^2 / 4 m`` from there to ``1 + m``; the mean of that over R is a sum
  of incomplete gamma functions.

The formulas hold for a fine lattice. If the lattice of the halves has few steps and epsilon is large, the actual noise
is narrower than these laws, so that intervals are too wide rather than too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erfc, gammaincc, gammaln

from spark_jobs.arrays import FloatArray

_NEAR = 1e-7
"""Two scales this close are taken to be equal."""
_HALVINGS = 200


@dataclass(frozen=True, kw_only=True)
class CellNoise:
    """The law of the noise z in a cell's rows and w in one of its sums (of places in [-1, 1]).

    Attributes:
        measures: the number of measures.
        scale: the inverse of the cost of an added or removed row; for Gaussian noise the standard deviation.
        joint: whether the noise of a cell's numbers is drawn together if there are several measures.
        gaussian: whether the noise is Gaussian.
    """

    measures: int
    scale: float
    joint: bool
    gaussian: bool = False

    def beyond(self, x: FloatArray, of_rows: FloatArray, of_sum: FloatArray) -> FloatArray:
        """The probability that ``|of_rows z + of_sum w|`` exceeds x; the arguments are at least 0 and broadcast."""
        if self.gaussian:
            tail: FloatArray = erfc(x / (np.sqrt(2.0) * self.scale * self._length(of_rows, of_sum)))
            return tail
        if self.measures == 0:
            return _two_scales(x, np.abs(of_rows) * self.scale, np.zeros_like(of_rows))
        if self.measures == 1:
            return _two_scales(x, np.abs(of_rows + of_sum) * self.scale, np.abs(of_rows - of_sum) * self.scale)
        numbers = 1 + self.measures
        if not self.joint:
            scale = numbers * self.scale
            return _two_scales(x, np.abs(of_rows) * scale, np.abs(of_sum) * scale)
        return _in_a_cube(x / self.scale, np.abs(of_rows), np.abs(of_sum), numbers)

    def quantile(self, level: float, of_rows: FloatArray, of_sum: FloatArray) -> FloatArray:
        """The quantile of ``|of_rows z + of_sum w|`` at this level, by bisection."""
        high = np.full(np.broadcast_shapes(of_rows.shape, of_sum.shape), self.scale)
        while (open_ := self.beyond(high, of_rows, of_sum) > 1 - level).any():
            high = np.where(open_, 2 * high, high)
        low = np.zeros_like(high)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            inside = self.beyond(middle, of_rows, of_sum) > 1 - level
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
            if (high - low <= 1e-12 * high).all():
                break
        return high

    def quantile_of_difference(self, level: float, ratios: FloatArray) -> FloatArray:
        """The quantile of ``|w - ratio z|`` at this level; by symmetry that of ``|w + ratio z|``."""
        return self.quantile(level, ratios, np.ones(ratios.size))

    def stddev(self, of_rows: float, of_sum: float) -> float:
        """The standard deviation of ``of_rows z + of_sum w``."""
        if self.gaussian:
            return float(self.scale * self._length(np.array(of_rows), np.array(of_sum)))
        if self.measures == 0:
            return float(np.sqrt(2) * abs(of_rows) * self.scale)
        numbers = 1 + self.measures
        variance = 4.0 if self.measures == 1 else (numbers + 1) * (numbers + 2) / 3 if self.joint else 2 * numbers**2
        return float(np.sqrt(variance * (of_rows**2 + of_sum**2)) * self.scale)

    def count_above(self, chance: float) -> float:
        """The number that the noise in the rows of a cell exceeds with probability ``chance``."""
        return float(self.quantile(1 - 2 * chance, np.ones(1), np.zeros(1))[0])

    def _length(self, of_rows: FloatArray, of_sum: FloatArray) -> FloatArray:
        length: FloatArray = np.hypot(of_rows, of_sum if self.measures else np.zeros_like(of_sum))
        return length


def _two_scales(x: FloatArray, one: FloatArray, other: FloatArray) -> FloatArray:
    """The chance that the sum of two independent Laplace variables exceeds x in size; one scale at least is above 0."""
    large, small = np.maximum(one, other), np.minimum(one, other)
    equal = large - small <= _NEAR * large
    with np.errstate(under="ignore"):
        tail = np.exp(-x / large)
        same = tail * (1 + x / (2 * large))
        ratio = np.where(equal, 0.5, small / large)
        smaller = np.where(ratio > 0, np.exp(-x / np.where(ratio > 0, ratio * large, 1.0)), 0.0)
        apart = (tail - ratio**2 * smaller) / (1 - ratio**2)
    chances: FloatArray = np.where(equal, same, apart)
    return chances


def _in_a_cube(x: FloatArray, p: FloatArray, q: FloatArray, numbers: int) -> FloatArray:
    """The chance that ``R |p u + q v|`` exceeds x, for R of the gamma law of shape ``numbers + 1`` and uniform u, v."""
    large, ratio = np.maximum(p, q), np.minimum(p, q) / np.maximum(p, q)
    ratio = np.maximum(ratio, _NEAR)
    y = x / large
    ends = y / (1 + ratio), y / np.maximum(1 - ratio, 1e-300)
    inverse = [_inverse_moments(end, numbers) for end in ends]
    flat = inverse[1][0] - y * inverse[1][1]  # 1 - y / R, where R is above the second end
    between = [first - second for first, second in zip(*inverse, strict=True)]
    slope = (1 + ratio) ** 2 * between[0] - 2 * (1 + ratio) * y * between[1] + y**2 * between[2]
    chances: FloatArray = np.clip(flat + slope / (4 * ratio), 0.0, 1.0)
    return chances


def _inverse_moments(from_radius: FloatArray, numbers: int) -> list[FloatArray]:
    """The means of ``R^-k`` over ``R > from_radius``, for k of 0, 1 and 2, of the gamma law of shape numbers + 1."""
    shape = numbers + 1
    ratios = [float(np.exp(gammaln(shape - k) - gammaln(shape))) for k in range(3)]
    return [ratio * gammaincc(shape - k, from_radius) for k, ratio in enumerate(ratios)]
