"""Noise that several contributors add together, so that no one of them knows it.

Two-sided geometric noise of ratio ``a = exp(-1 / scale)`` is ``X - Y`` with ``X`` and ``Y`` geometric, and a geometric
variable is the sum of ``k`` independent negative binomial variables ``NB(1/k, a)``, whose probabilities are

    P(x) = (1 - a)^r (r)_x / x! a^x,   r = 1/k,   (r)_x = r (r + 1) ... (r + x - 1),

since their generating function is ``((1 - a) / (1 - a z))^r``. Each contributor draws ``NB(1/k) - NB(1/k)``.

Guarantee: if at least ``k`` contributors are honest and present, the sum holds the whole two-sided geometric noise of
``scale``, unknown to everybody else. What other contributors add, or know, is independent of this noise, and adding it
is post-processing. So the sum of vectors whose neighbours differ by at most ``l1_sensitivity`` in 1-norm is
``epsilon``-DP for ``scale >= l1_sensitivity / epsilon``, against all who see it and up to ``contributors - k`` of the
contributors together.

A contributor that adds the whole noise may add noise of any scale: the digits of a geometric variable in base ``m`` are
independent, since ``a^(d_0 + d_1 m + ...) = a^d_0 (a^m)^d_1 ...``, and each is geometric below ``m``.

Sampling is exact, by inversion: a variable is the number of distribution values at or below a uniform number ``U``. The
first 64 bits of ``U`` decide, except with a probability of about 2^-64 per distribution value; in that case more bits
of ``U`` and more digits of the distribution are computed until they decide.
"""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np

from spark_jobs.arrays import BoolArray, Int64Array, UInt64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.federation.additive import Words
from spark_jobs.mechanisms.noise import Cost, laplace_scale

MAX_SCALE = 10_000.0
"""The table of a distribution has about ``45 * scale`` values."""
MAX_WHOLE_SCALE = 1e12
"""The largest scale of noise that each contributor adds whole."""
_BASE = 1 << 12
_WORD = 1 << 64
_DIGITS = 50


@dataclass(frozen=True, kw_only=True)
class NoiseShare:
    """The law of one contributor's share of two-sided geometric noise.

    Attributes:
        epsilon: the cost of the sum.
        l1_sensitivity: the 1-norm sensitivity of the summed vector.
        contributors: how many contributors add a share.
        colluding: how many of them may be absent, or may tell others their shares, without harm to the guarantee.

    Raises:
        InvalidRequest: epsilon is not a finite number above 0, or so small that the scale exceeds ``MAX_SCALE``, or
            ``MAX_WHOLE_SCALE`` if each contributor adds the whole noise; or ``colluding`` leaves no honest contributor.
    """

    epsilon: Cost
    l1_sensitivity: int
    contributors: int
    colluding: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.colluding < self.contributors:
            raise InvalidRequest(
                "colluding", self.colluding,
                f"must be from 0 to {self.contributors - 1} for {self.contributors} contributors of noise",
                "name fewer, or let more contribute",
            )  # fmt: skip
        limit = MAX_WHOLE_SCALE if self.honest == 1 else MAX_SCALE
        if self.scale > limit:
            raise InvalidRequest(
                "epsilon", self.epsilon, f"must be at least {self.l1_sensitivity}/{limit:.0f} for shared noise",
                "spend more, or let each contributor add the whole noise (colluding: all but one)",
            )  # fmt: skip

    @property
    def scale(self) -> float:
        """The scale of the noise that the honest shares add up to."""
        return laplace_scale(self.epsilon, self.l1_sensitivity)

    @property
    def honest(self) -> int:
        """The number of shares that add up to the whole noise."""
        return self.contributors - self.colluding

    def draw(self, shape: tuple[int, ...], *, noise: Words) -> Int64Array:
        """One contributor's share for each coordinate of a vector.

        Args:
            shape: shape of the vector.
            noise: source of uniform bits (``SecureNoise`` in production).
        """
        both = negative_binomials(2 * int(np.prod(shape)), parts=self.honest, scale=self.scale, noise=noise)
        return (both[::2] - both[1::2]).reshape(shape)


def negative_binomials(count: int, *, parts: int, scale: float, noise: Words) -> Int64Array:
    """``count`` exact, independent draws of ``NB(1/parts, exp(-1/scale))``; ``parts`` draws sum to a geometric one.

    Args:
        count: how many.
        parts: at least 1.
        scale: at most ``MAX_SCALE``, or ``MAX_WHOLE_SCALE`` for one part.
        noise: source of uniform bits.
    """
    if scale <= MAX_SCALE:
        return _inverted(count, _Law(parts=parts, scale=scale), noise)
    digit = _inverted(count, _Law(parts=parts, scale=scale, below=_BASE), noise)
    return digit + _BASE * negative_binomials(count, parts=parts, scale=scale / _BASE, noise=noise)


@dataclass(frozen=True, kw_only=True)
class _Law:
    """``NB(1/parts, exp(-1/scale))``; given that it is below a bound, if there is one (then ``parts`` is 1)."""

    parts: int
    scale: float
    below: int | None = None


def _inverted(count: int, law: _Law, noise: Words) -> Int64Array:
    table = _table(law)
    words = noise.words(count)
    drawn = np.searchsorted(table, words, side="right").astype(np.int64)
    for place in np.flatnonzero(_undecided(table, words)):
        drawn[place] = _refined(int(words[place]), law, noise)
    return drawn


def _undecided(table: UInt64Array, words: UInt64Array) -> BoolArray:
    # an entry may be one off; a word that differs by more from all of them is on the right side of each
    place = np.searchsorted(table, words)
    after = table[np.minimum(place, table.size - 1)]
    before = table[np.maximum(place, 1) - 1]
    one = np.uint64(1)
    near: BoolArray = (
        (np.maximum(after, words) - np.minimum(after, words) <= one)
        | (np.maximum(before, words) - np.minimum(before, words) <= one)
        | (words >= table[-1])
    )
    return near


@lru_cache(maxsize=16)
def _table(law: _Law) -> UInt64Array:
    """``floor(2^64 P(X <= x))`` for ``x = 0, 1, ...``, each at most one off, until it is ``2^64 - 2`` or more."""
    entries: list[int] = []
    with decimal.localcontext(prec=_DIGITS):
        total = Decimal(0)
        for probability in _probabilities(law):
            total += probability
            entries.append(min(int(total * _WORD), _WORD - 1))
            if entries[-1] >= _WORD - 2:
                break
    return np.array(entries, dtype=np.uint64)


def _probabilities(law: _Law) -> Iterator[Decimal]:
    """The probabilities of 0, 1, ... in the present precision; ``_error`` bounds their sums' errors."""
    ratio, parts = (-1 / Decimal(law.scale)).exp(), law.parts
    probability = ((1 - ratio).ln() / parts).exp()
    if law.below is not None:
        probability /= 1 - (-law.below / Decimal(law.scale)).exp()
    for value in itertools.count(1) if law.below is None else range(1, law.below + 1):
        yield probability
        # (r + value - 1) / value with r = 1 / parts
        probability *= ratio * (1 + parts * (value - 1)) / (parts * value)


def _error(value: int, digits: int) -> Decimal:
    """A bound on the error of ``P(X <= value)``: ``1 - ratio`` loses up to 12 digits, each of the steps 4 units."""
    return (value + 2) * Decimal(10) ** (14 - digits)


def _refined(word: int, law: _Law, noise: Words) -> int:
    """The draw whose uniform number begins with the bits of ``word``; more bits are drawn until they decide."""
    bits, result = 64, None
    while result is None:
        word, bits = (word << 64) | int(noise.words(1)[0]), bits + 64
        result = _decided(word, bits, law)
    return result


def _decided(word: int, bits: int, law: _Law) -> int | None:
    """The draw for every uniform number that begins with these bits, or None if they differ."""
    with decimal.localcontext(prec=_DIGITS + bits) as context:
        low, high = Decimal(word) / (1 << bits), Decimal(word + 1) / (1 << bits)
        total = Decimal(0)
        for value, probability in enumerate(_probabilities(law)):
            total += probability
            error = _error(value, context.prec)
            if law.below is not None and value == law.below - 1:
                return value
            if total + error > low:
                return value if total - error >= high else None
    return None
