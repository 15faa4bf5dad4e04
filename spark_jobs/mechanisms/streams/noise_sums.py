"""Sums of noisy counts over windows of a stream, with bands for the exact sums; post-processing, free.

The noise of a sum is a sum of independent Laplace variables (their discrete form, which is a little narrower). Its tail
is computed by the saddlepoint formula of Lugannani and Rice (1980) from the cumulant generating function of W equal
scales b, ``K(s) = -W log(1 - b^2 s^2)``; if the scales differ, W and b are chosen to give the sum's variance and fourth
cumulant. The formula overestimates the tail, by 5% at most for one variable and less for more, so bands are a little
wide. They contain the exact sums with the stated probability whatever the counts are. Sums of filtered counts have no
such bands, because the errors of filtered counts do not cancel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array

_HALVINGS = 80


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowSums:
    """Sums of noisy counts.

    Attributes:
        ends: the index of the step after each window, shape (m,).
        sums: noisy sums, shape (m, names); they may be negative.
        squares, fourths: sums of the squares and fourth powers of the scales, of the same shape.
        complete: whether all counts of the window were measured.
    """

    ends: Int64Array
    sums: Int64Array
    squares: FloatArray
    fourths: FloatArray
    complete: BoolArray

    def half_widths(self, tail: float) -> FloatArray:
        """The half widths of bands for the exact sums; noise exceeds each end with probability ``tail`` at most."""
        return noise_quantiles(self.squares, self.fourths, tail=tail)

    def changes(self, entries: int) -> WindowSums:
        """Each sum minus the one ``entries`` before; their windows must not overlap, so that noise is independent.

        Raises:
            ValueError: ``entries`` is below 1.
        """
        if entries < 1:
            raise ValueError(f"entries: got {entries}; must be at least 1")
        return WindowSums(
            ends=self.ends[entries:],
            sums=self.sums[entries:] - self.sums[:-entries],
            squares=self.squares[entries:] + self.squares[:-entries],
            fourths=self.fourths[entries:] + self.fourths[:-entries],
            complete=self.complete[entries:] & self.complete[:-entries],
        )


def windows(
    noisy: Int64Array, scales: FloatArray, measured: BoolArray, terms: Int64Array, *, width: int, every: int = 1
) -> WindowSums:
    """The sums over windows of ``width`` steps, the first from step 0 on, the others ``every`` steps apart.

    Args:
        noisy: noisy counts, shape (n, names).
        scales: the scale of each noisy count's noise, of the same shape.
        terms: how many independent variables of this scale add up to the noise of a count; shape (names,).
        measured: whether each count was measured, of the same shape.
        width: the number of steps of a window, at least 1.
        every: the number of steps between two windows.

    Raises:
        ValueError: the width or the distance is below 1.
    """
    if width < 1 or every < 1:
        raise ValueError(f"width, every: got {width}, {every}; must be at least 1")
    ends = np.arange(width, noisy.shape[0] + 1, every, dtype=np.int64)

    def added(values: Int64Array) -> Int64Array:
        total = np.concatenate([np.zeros((1, values.shape[1]), dtype=np.int64), np.cumsum(values, axis=0)])
        sums: Int64Array = total[ends] - total[ends - width]
        return sums

    return WindowSums(
        ends=ends,
        sums=added(noisy),
        squares=_added_exactly(terms * scales**2, ends, width),
        fourths=_added_exactly(terms * scales**4, ends, width),
        complete=added(measured.astype(np.int64)) == width,
    )


def noise_quantiles(squares: ArrayLike, fourths: ArrayLike, *, tail: float) -> FloatArray:
    """The numbers that sums of Laplace variables exceed with probability ``tail``, rounded up to whole numbers.

    Args:
        squares: for each sum, the sum of the squares of the variables' scales; 0 where there is no noise.
        fourths: for each sum, the sum of the fourth powers of these scales.
        tail: a probability below 0.5.

    Raises:
        ValueError: the probability is not between 0 and 0.5.
    """
    if not 0 < tail < 0.5:
        raise ValueError(f"tail: got {tail}; must be above 0 and below 0.5")
    second, fourth = np.asarray(squares, dtype=np.float64), np.asarray(fourths, dtype=np.float64)
    pairs, place = np.unique(np.stack([second.ravel(), fourth.ravel()]), axis=1, return_inverse=True)
    noisy = pairs[1] > 0
    number = np.ones(pairs.shape[1])
    number[noisy] = pairs[0, noisy] ** 2 / pairs[1, noisy]
    low, high = np.zeros(number.size), 40.0 + 40.0 * np.sqrt(number)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = _tail(middle, number) > tail
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    quantiles: FloatArray = np.ceil(np.where(noisy, high * np.sqrt(pairs[0] / number), 0.0))
    return quantiles[place].reshape(second.shape)


def _tail(x: FloatArray, number: FloatArray) -> FloatArray:
    """The probability that ``number`` Laplace variables of scale 1 have a sum above ``x > 0``."""
    saddle = x / (number + np.sqrt(number**2 + x**2))
    generating = -number * np.log1p(-(saddle**2))
    curvature = 2 * number * (1 + saddle**2) / (1 - saddle**2) ** 2
    root, other = np.sqrt(np.maximum(2 * (saddle * x - generating), 1e-300)), saddle * np.sqrt(curvature)
    tail: FloatArray = ndtr(-root) + np.exp(-(root**2) / 2) / np.sqrt(2 * np.pi) * (1 / other - 1 / root)
    return tail


def _added_exactly(values: FloatArray, ends: Int64Array, width: int) -> FloatArray:
    """Sums over windows; exact for equal values, of which differences of running sums would differ in the last bits."""
    if ends.size and (values == values[:1]).all():
        return np.repeat(values[:1] * width, ends.size, axis=0)
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    added: FloatArray = total[ends] - total[ends - width]
    return added
