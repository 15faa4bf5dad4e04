"""Noise scaled by a smooth bound: the release of statistics whose local sensitivity is small.

A bound S of a statistic f is smooth with rate g if ``|f(D) - f(D')| <= S(D)`` and ``S(D) <= e^g S(D')`` for all
neighbours (Nissim, Raskhodnikova, Smith, STOC 2007). ``f + S X`` is then private for the densities of X below. The
neighbouring relation enters only through S.

Samples are computed from 256 random bits with 60 decimal digits, rounded to a public grid and clipped to its ends, so
no value off the grid can appear. The effect of the finite precision is charged for: each draw costs ``RESIDUAL_DELTA``
in addition. Proof: an error of a factor ``1 +- 1e-54`` in X moves an output over one of the at most 2^40 boundaries
with probability at most ``1e-54 sup |x| h(x)`` each, below 1e-40 in all; 256 bits add 2^-215; ``(1 + e^epsilon)`` times
their sum is below 1e-30 for epsilon at most 10, which is required.

If doubles already determine, with a margin of a hundred times their error, to which value of the grid the 60 digits
would round, the digits are not computed. The result is the same, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import exact_decimal, exact_sum
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Cost, Noise

RESIDUAL_DELTA = Decimal("1e-30")
INFLATION = 1 + 1e-9
MAX_GRID_STEPS = 1 << 40
_BITS = 256
_PRECISION = 60
_POLYNOMIAL_WORDS = 2 * _BITS // 64 + 1
_ROUGH_ERROR = 1e-11
_SMALLEST_RATE = 1e-9


class Density(StrEnum):
    """The densities of noise; ``POLYNOMIAL`` is the default, the others are for comparison."""

    POLYNOMIAL = "polynomial"
    CAUCHY = "cauchy"
    STUDENT_T = "student_t"
    LAPLACE = "laplace"


@dataclass(frozen=True, kw_only=True)
class PublicGrid:
    """The values a release can take: ``lower + i (upper - lower) / steps`` for i from 0 to steps.

    Raises:
        InvalidRequest: the ends are not finite and ascending, or steps is not from 1 to 2^40.
    """

    lower: float
    upper: float
    steps: int = 1 << 30

    def __post_init__(self) -> None:
        ordered = math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper
        if not ordered or not 1 <= self.steps <= MAX_GRID_STEPS:
            raise InvalidRequest(
                "grid", f"{self.lower} to {self.upper} in {self.steps}",
                "must have finite ascending ends and 1 to 2^40 steps", "give public bounds of the statistic",
            )  # fmt: skip

    def nearest(self, value: Decimal) -> float:
        """The grid value nearest to ``value``; beyond the grid, its nearer end."""
        with localcontext(prec=_PRECISION):
            low, high = Decimal(self.lower), Decimal(self.upper)
            place = (min(max(value, low), high) - low) * self.steps / (high - low)
            return self.value(int(place.to_integral_value()))

    def nearest_if_clear(self, values: FloatArray, errors: FloatArray) -> FloatArray:
        """``nearest`` of each value; NaN where numbers within its error bound may be rounded differently."""
        step = (self.upper - self.lower) / self.steps
        with np.errstate(over="ignore", invalid="ignore"):
            place = (np.clip(values, self.lower - step, self.upper + step) - self.lower) / step
            doubt = (errors + 1e-12 * (abs(self.lower) + abs(self.upper))) / step
            clear = np.abs(place - np.floor(place) - 0.5) > doubt
        result = np.full(values.shape, np.nan)
        result[clear] = self._values(np.clip(np.rint(place[clear]), 0, self.steps))
        return result

    def value(self, index: int) -> float:
        """The grid value with this index, from 0 to ``steps``."""
        with localcontext(prec=_PRECISION):
            low, high = Decimal(self.lower), Decimal(self.upper)
            return float(low + (high - low) * index / self.steps)

    def _values(self, indices: FloatArray) -> FloatArray:
        if self.lower == 0 and self.upper == self.steps:
            return indices
        return np.array([self.value(int(index)) for index in indices])


@dataclass(frozen=True, kw_only=True)
class SmoothNoise:
    """A noise density; its constants depend on public numbers only.

    Attributes:
        density: the family.
        epsilon: the privacy loss, at most 10.
        delta: 0 except for ``LAPLACE``; each draw costs ``RESIDUAL_DELTA`` in addition.
        rate: g, the largest change of log S between neighbours.
        scale: the noise is ``scale * S * X`` for a standard variate X.
        degrees: degrees of freedom of ``STUDENT_T``.
    """

    density: Density
    epsilon: Decimal
    delta: Decimal = Decimal(0)
    rate: float
    scale: float
    degrees: int = field(default=1)

    @property
    def smoothness(self) -> float:
        """The rate to compute S with: slightly below ``rate``, which covers the rounding of S to a float."""
        return max(self.rate - max(self.rate * 1e-9, 1e-13), 0.0)

    def sample(self, count: int, noise: Noise) -> list[Decimal]:
        """``count`` independent standard variates X with 60 digits each."""
        draw = {
            Density.POLYNOMIAL: self._polynomial,
            Density.CAUCHY: _cauchy,
            Density.STUDENT_T: self._student_t,
            Density.LAPLACE: _laplace,
        }[self.density]
        with localcontext(prec=_PRECISION):
            return [draw(noise) for _ in range(count)]

    def release(
        self,
        values: list[Decimal] | Decimal,
        bounds: list[float] | float,
        *,
        grid: PublicGrid,
        noise: Noise,
        meter: BudgetMeter | None = None,
        label: str = "smooth sensitivity",
    ) -> FloatArray:
        """``values + scale * bounds * X``, each rounded to the grid; shape (k,).

        Each value costs ``(epsilon, delta + RESIDUAL_DELTA)``; the meter is charged with the sum.

        Args:
            values: the exact statistics; private.
            bounds: their smooth bounds at rate ``smoothness``; the noise covers the relative error of floats.
            grid: the public grid of possible results.
            noise: source of the random bits (``SecureNoise`` in production).
            meter: charged with the cost; None if the caller has already charged it.
            label: the purpose, for the meter.
        """
        centres = [values] if isinstance(values, Decimal) else values
        smooth = [bounds] if isinstance(bounds, (int, float)) else bounds
        if meter is not None:
            value_delta = exact_sum(self.delta, RESIDUAL_DELTA)
            meter.spend(self.epsilon * len(centres), delta=value_delta * len(centres), label=label)
        if len(centres) != len(smooth):
            raise ValueError(f"bounds: got {len(smooth)}; must be one for each of {len(centres)} values")
        if self.density is Density.POLYNOMIAL:
            return self._polynomial_released(centres, smooth, grid, noise)
        return np.array(
            [
                self._scaled(centre, bound, self.sample(1, noise)[0], grid)
                for centre, bound in zip(centres, smooth, strict=True)
            ]
        )

    def _scaled(self, centre: Decimal, bound: float, variate: Decimal, grid: PublicGrid) -> float:
        with localcontext(prec=_PRECISION):
            return grid.nearest(centre + Decimal(self.scale * INFLATION) * Decimal(bound) * variate)

    def _polynomial_released(
        self, centres: list[Decimal], bounds: list[float], grid: PublicGrid, noise: Noise
    ) -> FloatArray:
        words = noise.words(_POLYNOMIAL_WORDS * len(centres)).reshape(len(centres), _POLYNOMIAL_WORDS)
        rough, middle = self._rough_polynomial(words), np.array(centres, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            spread = self.scale * INFLATION * np.array(bounds, dtype=np.float64)
            error = _ROUGH_ERROR * (np.abs(middle) + spread + np.abs(rough) * spread)
            released = grid.nearest_if_clear(middle + rough * spread, error)
        for at in np.flatnonzero(np.isnan(released)).tolist():
            released[at] = self._scaled(centres[at], bounds[at], self._polynomial_of(words[at]), grid)
        return released

    def _polynomial(self, noise: Noise) -> Decimal:
        return self._polynomial_of(noise.words(_POLYNOMIAL_WORDS))

    def _polynomial_of(self, words: NDArray[np.uint64]) -> Decimal:
        uniform, coin, sign = _split_words(words)
        with localcontext(prec=_PRECISION):
            alpha = Decimal(self.epsilon) / Decimal(self.rate)
            centre, tail = _polynomial_masses(alpha)
            if _in_unit(coin) * (centre + tail) < centre:
                size = 1 - (1 - _in_unit(uniform) * centre) ** (1 / alpha)
            else:
                size = (1 + 1 / alpha) * _in_unit(uniform) ** (-1 / alpha) - 1
            return size if sign else -size

    def _rough_polynomial(self, words: NDArray[np.uint64]) -> FloatArray:
        """``_polynomial_of`` each row, in doubles; NaN where the error may exceed ``_ROUGH_ERROR (1 + |X|)``."""
        alpha = float(self.epsilon) / self.rate
        if not 2 <= alpha <= 1000:
            return np.full(words.shape[0], np.nan)
        # the highest words of the two uniforms and the bit of the sign, as in _split_words
        first, second = (np.ldexp(words[:, at].astype(np.float64), -64) for at in (_BITS // 64 - 1, _BITS // 32 - 1))
        centre, share = _rough_masses(alpha)
        unclear = (first < 2**-20) | (np.abs(second - share) < _ROUGH_ERROR)
        first[unclear] = 1.0
        power = 1 / alpha
        near, far = 1 - (1 - first * centre) ** power, (1 + power) * first**-power - 1
        size = np.where(second < share, near, far)
        size[unclear] = np.nan
        return np.where(words[:, -1] & np.uint64(1), size, -size)

    def _student_t(self, noise: Noise) -> Decimal:
        # Bailey, Mathematics of Computation 62 (1994): polar generation
        one, _, square = _in_disc(noise)
        return one * (self.degrees * (square ** (Decimal(-2) / self.degrees) - 1) / square).sqrt()


def polynomial_noise(epsilon: Cost, *, rate_share: float = 0.2) -> SmoothNoise:
    """The default noise: a density with polynomial tails whose privacy loss is exactly epsilon.

    With ``g = rate_share * epsilon``, ``alpha = 1 / rate_share``, ``s = S / g``: ``h(x)`` is proportional to
    ``(1 - |x|/s)^(alpha - 1)`` for ``|x| <= s / alpha`` and, continuously, to ``(1 + |x|/s)^-(alpha + 1)`` beyond.

    Formal guarantee: ``epsilon``-DP (plus ``RESIDUAL_DELTA``) for bounds that are smooth with rate g.
    Proof. Join the two parameters by a path with ``|d mu| <= S dt`` and ``|d log S| <= g dt``, and let
    ``y = |x - mu| / s``. At a centre point the loss rate is at most
    ``g ((alpha - 1) / (1 - y) + |(alpha - 1) y / (1 - y) - 1|)``: for one sign in the absolute value this bound is
    ``g alpha``, for the other it rises to ``g alpha`` at ``y = 1 / alpha``. At a tail point it is at most
    ``g ((alpha + 1) / (1 + y) + |(alpha + 1) y / (1 + y) - 1|)``: for one sign this bound is ``g alpha``, for the other
    it falls from ``g alpha``. And ``g alpha = epsilon``. The shape follows Hladik and Tetek (2025); the mean of ``|X|``
    is 1.27 S / epsilon at the default share, and the variance is finite below a share of one half.

    Raises:
        InvalidRequest: epsilon is not above 0 and at most 10.
        ValueError: the share is not in (0, 1).
    """
    total, rate = _budget(epsilon, rate_share)
    return SmoothNoise(density=Density.POLYNOMIAL, epsilon=total, rate=rate, scale=1 / rate)


def cauchy_noise(epsilon: Cost, *, rate_share: float = 0.7) -> SmoothNoise:
    """Cauchy noise with the smallest scale that is ``epsilon``-DP (plus ``RESIDUAL_DELTA``).

    The loss between Cauchy(m, s) and Cauchy(m', s') is the hyperbolic distance of (m, s) and (m', s') in the upper half
    plane, ``arcosh(1 + ((m - m')^2 + (s - s')^2) / (2 s s'))`` (Harnack's inequality for Poisson kernels), so the
    condition is exact: ``scale >= max((2 (cosh e - 1))^(-1/2), (e^-g / (2 (cosh e - cosh g)))^(1/2))``.

    Raises:
        InvalidRequest: epsilon is not above 0 and at most 10.
        ValueError: the share is not in (0, 1).
    """
    total, rate = _budget(epsilon, rate_share)
    loss = float(total)
    # cosh a - cosh b = 2 sinh((a + b) / 2) sinh((a - b) / 2), without cancellation
    still = 0.5 / math.sinh(loss / 2)
    moving = math.sqrt(math.exp(-rate) / (4 * math.sinh((loss + rate) / 2) * math.sinh((loss - rate) / 2)))
    return SmoothNoise(density=Density.CAUCHY, epsilon=total, rate=rate, scale=max(still, moving))


def student_t_noise(epsilon: Cost, *, degrees: int = 3) -> SmoothNoise:
    """Student's t noise: ``g = epsilon / (2 (d + 1))``, scale ``(d + 1) / (epsilon sqrt d)``.

    Formal guarantee: ``epsilon``-DP (plus ``RESIDUAL_DELTA``); half of epsilon covers the shift, half the change of
    scale (Bun, Steinke, NeurIPS 2019; Alabi et al., PoPETs 2022, lemma 8). The bound is loose: the actual loss is 0.66
    epsilon at d = 3.

    Raises:
        InvalidRequest: epsilon is not above 0 and at most 10.
        ValueError: ``degrees`` is below 1.
    """
    if degrees < 1:
        raise ValueError(f"degrees: got {degrees}; must be at least 1")
    total, rate = _budget(epsilon, 1 / (2 * (degrees + 1)))
    scale = (degrees + 1) / (float(total) * math.sqrt(degrees))
    return SmoothNoise(density=Density.STUDENT_T, epsilon=total, rate=rate, scale=scale, degrees=degrees)


def laplace_noise(epsilon: Cost, delta: Cost) -> SmoothNoise:
    """Laplace noise of scale ``2 S / epsilon`` with ``g = epsilon / (2 ln(2 / delta))``: ``(epsilon, delta)``-DP.

    Nissim, Raskhodnikova, Smith 2007, lemma 2.6 and example 3. ``polynomial_noise`` is better and pure.

    Raises:
        InvalidRequest: epsilon is not above 0 and at most 10, or delta is not above 0 and below 1.
    """
    small = exact_decimal(delta, what="delta")
    if not 0 < small < 1:
        raise InvalidRequest("delta", small, "must be above 0 and below 1", "use polynomial noise for pure privacy")
    total, rate = _budget(epsilon, 1 / (2 * math.log(2 / float(small))))
    return SmoothNoise(density=Density.LAPLACE, epsilon=total, delta=small, rate=rate, scale=2 / float(total))


def _budget(epsilon: Cost, rate_share: float) -> tuple[Decimal, float]:
    total = exact_decimal(epsilon, what="epsilon")
    if not 0 < rate_share < 1:
        raise ValueError(f"rate_share: got {rate_share}; must be above 0 and below 1")
    rate = float(total) * rate_share
    if not total <= 10 or rate < _SMALLEST_RATE:
        raise InvalidRequest("epsilon", total, "must be above 0 and at most 10", "choose an epsilon of about 1")
    return total, rate


@lru_cache(maxsize=64)
def _polynomial_masses(alpha: Decimal) -> tuple[Decimal, Decimal]:
    """The masses of centre and tails, up to a common factor."""
    with localcontext(prec=_PRECISION):
        foot = 1 - 1 / alpha
        return 1 - foot**alpha, foot ** (alpha - 1) * (1 + 1 / alpha)


@lru_cache(maxsize=64)
def _rough_masses(alpha: float) -> tuple[float, float]:
    """The mass of the centre as in ``_polynomial_masses``, and its share of the total mass."""
    foot = 1 - 1 / alpha
    centre = 1 - foot**alpha
    return centre, centre / (centre + foot ** (alpha - 1) * (1 + 1 / alpha))


def _word(noise: Noise) -> int:
    return int.from_bytes(noise.words(_BITS // 64).tobytes(), "little")


def _split_words(words: NDArray[np.uint64]) -> tuple[int, int, int]:
    bits = words.tobytes()
    uniform, coin = (int.from_bytes(bits[at : at + _BITS // 8], "little") for at in (0, _BITS // 8))
    return uniform, coin, bits[-8] & 1


def _in_unit(word: int) -> Decimal:
    return (2 * word + 1) / Decimal(2 << _BITS)


def _uniform(noise: Noise) -> Decimal:
    return _in_unit(_word(noise))


def _signed(size: Decimal, noise: Noise) -> Decimal:
    return size if int(noise.words(1)[0]) & 1 else -size


def _in_disc(noise: Noise) -> tuple[Decimal, Decimal, Decimal]:
    while True:
        one, other = (_signed(_uniform(noise), noise) for _ in range(2))
        square = one * one + other * other
        if square <= 1:
            return one, other, square


def _cauchy(noise: Noise) -> Decimal:
    one, other, _ = _in_disc(noise)
    return one / other


def _laplace(noise: Noise) -> Decimal:
    return _signed(-_uniform(noise).ln(), noise)
