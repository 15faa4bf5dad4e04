"""Random choices with exact integer probabilities: the basis of private selection.

A weight ``exp(-rate d)`` is represented by a whole number of units of ``2^-320``, to which ``2^128`` units are added.
Hence rounding never makes a possible outcome impossible, and the privacy loss that it adds has one bound for all
choices:

Lemma (rounding). Let ``u_i`` be the scores, ``x_i = exp(-rate (max u - u_i))`` the ideal weights and ``a_i`` the
integers used, so that ``|a_i - 2^320 x_i - 2^128| <= 2^24`` for at most ``2^32`` candidates of total length ``2^64``.
If ``a`` and ``a'`` are the integers of neighbouring tables, ``a_i / a'_i <= max(1, x_i / x'_i) (1 + 2^-102)``, and a
sum of lengths times weights changes by a factor of at most ``1 + 2^-102`` from its ideal (the best candidate
contributes at least ``2^320``, the additions at most ``2^(128 + 64)``). The total loss by rounding is less than
``SLACK``, which every ``rate`` here leaves unspent.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from decimal import ROUND_FLOOR, Decimal, localcontext
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import BoolArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import exact_decimal
from spark_jobs.mechanisms.noise import Cost, Noise

WEIGHT_BITS = 320
UNIT = 1 << WEIGHT_BITS
FLOOR = 1 << 128
SLACK = Decimal(2) ** -90
SMALLEST_EPSILON = Decimal("1e-20")
MAX_CANDIDATES = 1 << 22
MAX_POINTS = 1 << 24
_LATER_BITS = WEIGHT_BITS - 64
_PRECISION = 120
_ROUGH_BITS = 36


def uniform_below(bound: int, noise: Noise) -> int:
    """An exactly uniform whole number in ``[0, bound)``, by rejection from random bits.

    Raises:
        ValueError: the bound is below 1.
    """
    if bound < 1:
        raise ValueError(f"bound: got {bound}; must be at least 1")
    bits = (bound - 1).bit_length()
    words = max(1, -(-bits // 64))
    while True:
        drawn = int.from_bytes(noise.words(words).tobytes(), "little") >> (64 * words - bits)
        if drawn < bound:
            return drawn


def exponential_rate(epsilon: Cost, sensitivity: float, *, monotone: bool) -> Decimal:
    """The ``rate`` of ``exp(rate * score)``: ``epsilon / (2 sensitivity)``, or twice that if monotone, minus the slack.

    Raises:
        InvalidRequest: epsilon is below ``SMALLEST_EPSILON``.
        ValueError: the sensitivity is not a finite number above 0.
    """
    if not 0 < sensitivity < math.inf:
        raise ValueError(f"sensitivity: got {sensitivity}; must be finite and above 0")
    total = exact_decimal(epsilon, what="epsilon")
    if total < SMALLEST_EPSILON:
        raise InvalidRequest("epsilon", total, "must be at least 1e-20", "give the cost of this selection")
    with localcontext(prec=60, rounding=ROUND_FLOOR):
        return (total - SLACK) / (Decimal(sensitivity) * (1 if monotone else 2))


def integer_weights(scores: ArrayLike, rate: Decimal) -> tuple[NDArray[np.intp], list[int]]:
    """The level of equal scores that each candidate belongs to, and the integer weight of each level.

    Args:
        scores: shape (k,), integers or floats, read exactly. NaN counts as the lowest float, infinities count as the
            extreme floats; a caller that bounds the sensitivity of its scores produces neither.
        rate: the result of ``exponential_rate``.

    Returns:
        For each candidate the index of its level, shape (k,); for each level, best first, ``2^320 exp(-rate d)``
        rounded, without the ``FLOOR`` that is added by a choice.
    """
    values = _finite(np.asarray(scores))
    distinct, inverse = np.unique(values, return_inverse=True)
    descending = distinct[::-1].tolist()
    factors: dict[Decimal, int] = {}
    weights = [UNIT]
    with localcontext(prec=_PRECISION):
        for better, worse in pairwise(descending):
            gap = Decimal(better) - Decimal(worse)
            if gap not in factors:
                factors[gap] = int((-rate * gap).exp() * UNIT)
            weights.append(weights[-1] * factors[gap] >> WEIGHT_BITS)
    return len(descending) - 1 - inverse.reshape(-1), weights


def coins(levels: NDArray[np.intp], weights: list[int], noise: Noise) -> BoolArray:
    """Independent coins of exact probability ``min((weight + FLOOR) / UNIT, 1)``, one for each candidate.

    A uniform number of ``WEIGHT_BITS`` bits is compared with ``weight + FLOOR``. Its first 64 bits nearly always
    decide; the others are drawn only where they do not.

    Args:
        levels: from ``integer_weights``.
        weights: from ``integer_weights``.
        noise: source of the random bits (``SecureNoise`` in production).
    """
    limits = [min(weight + FLOOR, UNIT) for weight in weights]
    first = np.array([min(limit >> _LATER_BITS, 2**64 - 1) for limit in limits], dtype=np.uint64)[levels]
    drawn = noise.words(levels.size)
    heads = drawn < first
    for at in np.flatnonzero(drawn == first).tolist():
        later = int.from_bytes(noise.words(_LATER_BITS // 64).tobytes(), "little")
        heads[at] = (int(drawn[at]) << _LATER_BITS) + later < limits[levels[at]]
    return heads


def choose(levels: NDArray[np.intp], weights: list[int], lengths: Int64Array, noise: Noise) -> tuple[int, int]:
    """A candidate with probability proportional to ``length * (weight + FLOOR)``, and a uniform offset within it.

    Args:
        levels: from ``integer_weights``.
        weights: from ``integer_weights``.
        lengths: at least 0, shape (k,), at least one above 0, their sum below 2^62.
        noise: source of the random bits (``SecureNoise`` in production).

    Returns:
        Index and offset: ``0 <= offset < lengths[index]``.
    """
    per_level = np.zeros(len(weights), dtype=np.int64)
    np.add.at(per_level, levels, lengths)
    ends_of_mass = list(accumulate(choice_masses(weights, per_level)))
    level = bisect_right(ends_of_mass, uniform_below(ends_of_mass[-1], noise))
    members = np.flatnonzero(levels == level)
    ends = np.cumsum(lengths[members])
    place = uniform_below(int(ends[-1]), noise)
    at = int(np.searchsorted(ends, place, side="right"))
    start = int(ends[at - 1]) if at else 0
    return int(members[at]), place - start


def choose_point(scores: Int64Array, lengths: Int64Array, rate: Decimal, noise: Noise) -> tuple[int, int]:
    """``choose`` on ``integer_weights(scores, rate)`` for very many candidates, without computing all the weights.

    A candidate is proposed in proportion to ``length * rough``, where ``rough`` is a whole number above the candidate's
    weight in units of ``2^-36``, computed in doubles. The proposal is accepted with probability ``(weight + FLOOR) /
    rough``, which is computed exactly, for this candidate only. So the accepted candidate has a probability
    proportional to ``length * (weight + FLOOR)``, whatever the doubles were; they decide only how often a proposal is
    rejected, which happens less than once in a thousand times.

    Args:
        scores: shape (k,).
        lengths: at least 0, shape (k,), their sum from 1 to 2^24.
        rate: the result of ``exponential_rate``.
        noise: source of the random bits (``SecureNoise`` in production).

    Returns:
        Index and offset, as in ``choose``.

    Raises:
        ValueError: the sum of the lengths is below 1 or above 2^24.
    """
    if lengths.min(initial=0) < 0 or not 1 <= int(lengths.sum()) <= MAX_POINTS:
        raise ValueError(f"lengths: must be whole numbers of at least 0 that sum to 1 to {MAX_POINTS}")
    kept = np.flatnonzero(lengths)
    gaps = scores[kept].max() - scores[kept]
    rough = np.exp(-float(rate) * gaps) * (1 + 1e-9)
    masses = np.floor(np.ldexp(rough, _ROUGH_BITS)).astype(np.int64) + 2
    ends = np.cumsum(lengths[kept] * masses)
    while True:
        drawn = uniform_below(int(ends[-1]), noise)
        at = int(np.searchsorted(ends, drawn, side="right"))
        mass = int(masses[at])
        offset = (drawn - (int(ends[at - 1]) if at else 0)) // mass
        if uniform_below(mass << (WEIGHT_BITS - _ROUGH_BITS), noise) < point_weight(int(gaps[at]), rate) + FLOOR:
            return int(kept[at]), offset


def point_weight(gap: int, rate: Decimal) -> int:
    """``2^320 exp(-rate gap)``, rounded down."""
    with localcontext(prec=_PRECISION):
        return int((-rate * gap).exp() * UNIT)


def choice_masses(weights: list[int], lengths: Int64Array) -> list[int]:
    """The integer masses ``length * (weight + FLOOR)`` that ``choose`` draws from, one for each level."""
    return [length * (weight + FLOOR) for length, weight in zip(lengths.tolist(), weights, strict=True)]


def _finite(values: NDArray[np.generic]) -> NDArray[np.generic]:
    if values.ndim != 1 or not 1 <= values.size <= MAX_CANDIDATES:
        raise ValueError(f"scores: got shape {values.shape}; must be one row of 1 to {MAX_CANDIDATES}")
    if np.can_cast(values.dtype, np.int64):
        return values.astype(np.int64)
    return np.nan_to_num(values.astype(np.float64), nan=-np.finfo(np.float64).max)
