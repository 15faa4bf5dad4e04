"""Prefix counts under zero-concentrated differential privacy: the square root of summation.

Let ``A`` be the lower triangular matrix of ones, which maps counts to prefix counts, and ``B`` a lower triangular
Toeplitz matrix. The mechanism measures ``B x`` plus Gaussian noise, and estimates the prefix counts by ``A B^-1`` times
the measurements. With ``B = A^(1/2)``, whose first column is ``f(k) = binomial(2 k, k) / 4^k``, the mean variance is
within a lower-order term of the smallest that any such factorisation has (Fichtenberger, Henzinger, Upadhyay, ICML
2023; Henzinger, Upadhyay, Upadhyay, SODA 2023).

Whole numbers. Here the first column is ``round(2^16 f(k))``: ``B x`` is then a vector of whole numbers, which is
computed exactly and gets discrete Gaussian noise (``noise``) without any rounding. Any column would be private, and the
estimates are exactly unbiased; the rounding of the column increases the variance by less than a thousandth.

Privacy. ``rho``-zCDP (Canonne, Kamath, Steinke, NeurIPS 2020, theorem 4) for the 2-norm sensitivity of ``B x``:

* ``ADD_REMOVE``: the longest column of ``B``, its first.
* ``REPLACE_ONE``: the longest difference of two columns. Of all pairs of columns at distance ``d``, the first column
  and the one ``d`` after it differ most, as later columns are truncated: ``sum (f(k) - f(k - d))^2``; the sensitivity
  is the maximum over ``d``. A replaced row may also become one that is not counted, which has the sensitivity of the
  first case. If it cannot, the number of rows is public (``public_total``), and the estimates are conditioned on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import fftconvolve

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Cost, Noise, gaussian_stddev

MAX_CELLS = 1 << 20
MAX_COUNT = (1 << 36) - 1
"""Counts are clipped to this, so that all sums fit int64; clipping does not increase the sensitivity."""
_BITS = 16
_LIMB = 12
_MARGIN = 1 + 1e-9
"""Covers the rounding of floating-point sums, which is below 1e-12."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SquareRootPrefixes:
    """Noisy measurements of the square root of summation, and the prefix counts that follow from them.

    Attributes:
        measured: ``2^16 B x`` plus noise; shape (N,).
        stddev: of the discrete Gaussian noise in each measurement.
        total: the number of rows if it is public, else None.
    """

    measured: Int64Array
    stddev: float
    total: int | None = None

    def prefix_counts(self) -> FloatArray:
        """Unbiased estimates of the counts of the first 1, 2, ..., N cells, not necessarily monotone."""
        size = self.measured.size
        scaled = self.measured / float(1 << _BITS)
        estimates: FloatArray = fftconvolve(scaled, _decoder(size))[:size]
        if self.total is not None:
            along = _covariance_with_last(size)
            estimates = estimates + along / along[-1] * (self.total - estimates[-1])
        return estimates

    def variances(self) -> FloatArray:
        """Variances of ``prefix_counts``, where ``stddev^2`` bounds the variance of the discrete Gaussian noise."""
        size = self.measured.size
        variances = np.cumsum(_decoder(size) ** 2)
        if self.total is not None:
            along = _covariance_with_last(size)
            variances = np.maximum(variances - along**2 / along[-1], 0.0)
        return variances * (self.stddev / (1 << _BITS)) ** 2


def square_root_prefixes(
    counts: Int64Array, *, rho: Cost, neighbours: Neighbours, noise: Noise, public_total: bool = False
) -> SquareRootPrefixes:
    """Noisy prefix counts of a line of disjoint cells; ``rho``-zCDP (see the module's proof). O(N log N).

    Args:
        counts: exact counts of the cells; shape (N,), N at most 2^20.
        rho: the cost of the release.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        public_total: whether the number of counted rows is public and used exactly; only under ``REPLACE_ONE``, and
            only if a replaced row cannot become one that is not counted.

    Raises:
        InvalidRequest: rho is not a finite number above 0.
        ValueError: the counts are not one line of at most 2^20 cells, or the total is public under ``ADD_REMOVE``.
    """
    if counts.ndim != 1 or not 1 <= counts.size <= MAX_CELLS:
        raise ValueError(f"counts: got shape {counts.shape}; must be one line of 1 to {MAX_CELLS} cells")
    if public_total and neighbours is not Neighbours.REPLACE_ONE:
        raise ValueError(f"public_total: got True under {neighbours}; a total is public only under REPLACE_ONE")
    sensitivity = square_root_sensitivity(counts.size, neighbours)
    total = int(counts.sum()) if public_total else None  # before clipping, which may drop a replaced row
    counts = np.clip(counts, 0, MAX_COUNT)
    exact = whole_convolution(counts, square_root_column(counts.size))
    return SquareRootPrefixes(
        measured=noise.gaussian(exact, rho=rho, l2_sensitivity=sensitivity),
        stddev=gaussian_stddev(rho, sensitivity),
        total=total,
    )


@lru_cache(maxsize=16)
def square_root_column(cells: int) -> Int64Array:
    """The first column of ``2^16 B``: ``round(2^16 binomial(2 k, k) / 4^k)``."""
    k = np.arange(1, cells)
    column = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    whole: Int64Array = np.rint(column * (1 << _BITS)).astype(np.int64)
    return whole


@lru_cache(maxsize=32)
def square_root_sensitivity(cells: int, neighbours: Neighbours) -> float:
    """The 2-norm sensitivity of ``2^16 B x``, rounded up; at least 1, also where a single cell cannot change."""
    column = square_root_column(cells).astype(np.float64)
    # a replaced row may become one that is not counted, which is like removing it
    relations = {Neighbours.ADD_REMOVE, neighbours}
    return max(1.0, *(column_sensitivity(column, relation) for relation in relations))


def column_sensitivity(column: FloatArray, neighbours: Neighbours) -> float:
    """The 2-norm sensitivity of a lower Toeplitz matrix with this first column, applied to counts; rounded up."""
    squares = float((column**2).sum())
    if neighbours is Neighbours.ADD_REMOVE:
        return math.sqrt(squares) * _MARGIN
    if column.size == 1:
        return 0.0
    kept = np.cumsum(column**2)[-2::-1]  # of the column at distance d: the squares of its N - d entries
    products = fftconvolve(column, column[::-1])[column.size :]
    # rounding of the products is relative to all squares, not to the difference
    return math.sqrt(float((squares + kept - 2 * products).max()) + 1e-9 * squares) * _MARGIN


def whole_convolution(counts: Int64Array, column: Int64Array) -> Int64Array:
    """The exact first N entries of the convolution of two lines of N whole numbers.

    The counts are split into three limbs of 12 bits. The convolution of a limb with a column of at most 2^16, by fast
    Fourier transforms in double precision, has an error below 2^-53 * 3 log2(2 N) * 2^16 * 2^12 * N^(1/2) * (2-norm of
    f, below 3), which at N = 2^20 is 0.006: rounding gives the exact whole number.

    Args:
        counts: 0 to 2^36 - 1 each.
        column: 0 to 2^16 each.
    """
    size, length = counts.size, next_fast_len(2 * counts.size, real=True)
    limbs = np.stack([(counts >> shift) & ((1 << _LIMB) - 1) for shift in range(0, 3 * _LIMB, _LIMB)])
    spectrum = rfft(column.astype(np.float64), length)
    products = irfft(rfft(limbs.astype(np.float64), length, axis=-1) * spectrum, length, axis=-1)[:, :size]
    whole: Int64Array = np.rint(products).astype(np.int64)
    result: Int64Array = whole[0] + (whole[1] << _LIMB) + (whole[2] << 2 * _LIMB)
    return result


def series_inverse(column: FloatArray) -> FloatArray:
    """The first column of the inverse of a lower triangular Toeplitz matrix, by Newton's iteration on power series."""
    inverse = np.array([1.0 / column[0]])
    while inverse.size < column.size:
        size = min(2 * inverse.size, column.size)
        rest = -fftconvolve(column[:size], inverse)[:size]
        rest[0] += 2.0
        inverse = fftconvolve(inverse, rest)[:size]
    return inverse


@lru_cache(maxsize=8)
def _decoder(cells: int) -> FloatArray:
    """The first column of ``A B^-1``."""
    return np.cumsum(series_inverse(square_root_column(cells) / float(1 << _BITS)))


@lru_cache(maxsize=8)
def _covariance_with_last(cells: int) -> FloatArray:
    """Covariances of the estimates with the last of them, in units of the noise's variance."""
    decoder = _decoder(cells)
    covariances: FloatArray = fftconvolve(decoder, decoder[::-1])[:cells]
    return covariances
