"""Noise for several numbers that a row changes together: the K-norm mechanism on the integers.

Laplace noise is made for a row that could put its whole change into one number. Sums of several features of a row all
change at once, each by at most its own bound, so that their noise needs to be large only in directions, and by amounts,
that a row can reach. Let K be a symmetric convex body that holds every change that a row can make. On real vectors the
mechanism of Hardt and Talwar (STOC 2010, section 4) adds noise with a density proportional to ``exp(-epsilon ||z||)``,
where ``||z||`` is the smallest r with z in ``r K``. Awan and Slavkovic (JASA 2021) compare bodies for regression.

Here ``K = {z: |w . z| <= s_w unit for every form w}``, with whole numbers w and s_w; a form ``w . z`` is a coordinate
or a weighted sum of coordinates. Let N(z) be the smallest whole R with ``|w . z| <= s_w R`` for every form. Noise on
the integers has the law

    P(z) = exp(-N(z) / scale) / C,   scale >= unit / epsilon.

*Guarantee.* ``epsilon``-DP for vectors whose neighbours differ by an element d of K: ``|w . d| <= s_w unit``, so that
``|w . (z + d)| <= s_w (N(z) + unit)`` and hence ``N(z + d) <= N(z) + unit``, and the ratio of the probabilities of one
output is at most ``exp(unit / scale)``. C is the same for all vectors, as they are integers. The neighbouring relation
enters only through the body.

*Sampler.* ``exp(-N / scale)`` is proportional to the sum of ``exp(-R / scale)`` over the R of at least N. So R and z
are drawn together, with weight ``exp(-R / scale)`` if z is in the body of radius R and weight 0 otherwise; R is then
discarded. First, R is drawn with the weights ``exp(-R / scale) prod (2 u_i R + 1)``, where u_i is the bound s_w of
coordinate i, and the product counts the integer points of the box ``|z_i| <= u_i R``. Then z is drawn uniformly in this
box. If a form of z exceeds ``s_w R``, both are drawn again. To draw R for k numbers, the sum of k + 1 geometric
variables, which has the weights ``exp(-R / scale) (R + 1) ... (R + k)``, is accepted with probability
``prod (2 u_i R + 1) / (2 u_i (R + i))``, a fraction of whole numbers. Comparisons are exact; doubles decide only where
they are far from a tie. A geometric variable is made from a two-sided one, z, of OpenDP's sampler: z itself if z >= 0,
otherwise ``-z - 1``.

*Small epsilons.* Radii must fit int64. If they would not, K is described in fewer and longer steps, rounded up, so that
K still holds every change (``Body.within``). A radius beyond twice the reserved range has a probability below
exp(-1000).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import BoolArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest

RADII = 1000
"""Radii up to this many scales, and one more for each number, are reserved; half of int64 is."""
COARSEST = 1 << 12
"""The fewest steps of a radius from 0 to what one row can change."""
_LIMIT = 1 << 62
_DOUBT = 1e-9
"""Above the rounding error of a product of doubles, by far."""
Geometric: TypeAlias = Callable[[int], Int64Array]
"""So many independent variables k >= 0 with probabilities proportional to ``exp(-k / scale)``."""
Words: TypeAlias = Callable[[int], NDArray[np.uint64]]
"""So many uniform 64-bit words."""


@dataclass(frozen=True, kw_only=True)
class Body:
    """All vectors with ``|z_i| <= widths[i] * unit`` and ``|forms[j] . z| <= bounds[j] * unit``.

    Attributes:
        unit: the number of lattice steps in a width or bound of 1; the larger, the finer is the noise.
        widths: one whole number of at least 1 for each coordinate.
        forms: whole coefficients, one for each coordinate.
        bounds: one whole number of at least 1 for each form.

    Raises:
        ValueError: a number is out of range, or a form does not have one coefficient for each coordinate.
    """

    unit: int
    widths: tuple[int, ...]
    forms: tuple[tuple[int, ...], ...] = ()
    bounds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if min(self.unit, *self.widths, *self.bounds) < 1:
            raise ValueError("unit, widths, bounds: must be at least 1")
        if len(self.forms) != len(self.bounds) or any(len(form) != len(self.widths) for form in self.forms):
            raise ValueError("forms: must have one coefficient for each width, and one bound for each form")

    @property
    def largest_epsilon(self) -> Decimal:
        """The largest epsilon that determines the noise: any larger epsilon gets the noise of this one.

        If the scale were smaller than the number of coordinates, most radii would be rejected.
        """
        return Decimal(self.unit) / (len(self.widths) + 1)

    def contains(self, vectors: NDArray[Any], radii: Int64Array) -> BoolArray:
        """Whether each vector satisfies all forms: ``|form . z| <= bound * radius``; shape (k,)."""
        within = np.ones(len(vectors), dtype=np.bool_)
        if not self.forms or not within.size:
            return within
        largest = max(
            sum(abs(weight) * width for weight, width in zip(form, self.widths, strict=True)) for form in self.forms
        )
        small = vectors.dtype != object and int(radii.max()) * max(largest, *self.bounds) < _LIMIT
        z, radius = (vectors, radii) if small else (vectors.astype(object), radii.astype(object))
        for form, bound in zip(self.forms, self.bounds, strict=True):
            within &= (np.abs(z @ np.array(form, dtype=z.dtype)) <= bound * radius).astype(np.bool_)
        return within

    @property
    def smallest_epsilon(self) -> Decimal:
        """The smallest epsilon for which ``within`` can represent the body."""
        return Decimal(2 * COARSEST * self._reserved) / _LIMIT

    @property
    def _reserved(self) -> int:
        return RADII + len(self.widths)

    def within(self, epsilon: Decimal) -> tuple[Body, int]:
        """The body in steps so long that radii fit int64, and how many steps of this body one of them is.

        Raises:
            InvalidRequest: epsilon is below ``smallest_epsilon``.
        """
        longest = math.floor(epsilon * _LIMIT / self._reserved)
        if longest >= self.unit:
            return self, 1
        if epsilon < self.smallest_epsilon:
            raise InvalidRequest(
                "epsilon", epsilon, f"must be at least {self.smallest_epsilon:.1e} for the noise of k_norm",
                "give more, or use another method",
            )  # fmt: skip
        factor = -(-self.unit // (longest - 1))
        longer = replace(
            self,
            unit=-(-self.unit // factor),
            widths=tuple(factor * width for width in self.widths),
            bounds=tuple(factor * bound for bound in self.bounds),
        )
        return longer, factor


def drawn(body: Body, count: int, *, geometric: Geometric, words: Words) -> NDArray[Any]:
    """Independent vectors of noise; shape (count, numbers), int64 or, if that may be too small, Python's integers.

    Args:
        body: K.
        count: how many vectors.
        geometric: draws so many geometric variables of the scale of the noise.
        words: draws so many uniform 64-bit words.
    """
    size = len(body.widths)
    result, missing = np.zeros((count, size), dtype=np.int64), np.arange(count)
    while missing.size:
        radii = geometric(missing.size * (size + 1)).reshape(missing.size, size + 1).sum(axis=1)
        places = np.flatnonzero(_kept(radii, body.widths, words))
        radii = radii[places]
        vectors = _within_box(body, radii, words)
        within = body.contains(vectors, radii)
        if vectors.dtype == object:
            result = result.astype(object)
        result[missing[places[within]]] = vectors[within]
        missing = np.delete(missing, places[within])
    return result


def _kept(radii: Int64Array, widths: tuple[int, ...], words: Words) -> BoolArray:
    """True with probabilities ``prod (2 u_i R + 1) / (2 u_i (R + i))``, exactly; shape (k,)."""
    uniform, real = words(radii.size), radii.astype(np.float64)
    share = np.ones(radii.size)
    for place, width in enumerate(widths, start=1):
        share *= (real + 0.5 / width) / (real + place)
    apart = share - uniform / 2.0**64
    kept: BoolArray = apart > 0
    for one in np.flatnonzero(np.abs(apart) < _DOUBT).tolist():
        kept[one] = _kept_exactly(int(radii[one]), int(uniform[one]), widths, words)
    return kept


def _kept_exactly(radius: int, uniform: int, widths: tuple[int, ...], words: Words) -> bool:
    share = math.prod(2 * width * radius + 1 for width in widths)
    whole = math.prod(2 * width * (radius + place) for place, width in enumerate(widths, start=1))
    bits = 64
    while True:  # the uniform number lies between uniform / 2^bits and (uniform + 1) / 2^bits
        if (uniform + 1) * whole <= share << bits:
            return True
        if uniform * whole >= share << bits:
            return False
        uniform, bits = uniform << 64 | int(words(1)[0]), bits + 64


def _within_box(body: Body, radii: Int64Array, words: Words) -> NDArray[Any]:
    """Uniform points of the boxes ``|z_i| <= u_i R``."""
    if not radii.size or int(radii.max()) * max(body.widths) < _LIMIT:
        return _uniform(radii[:, None] * np.array(body.widths), words)
    points = [[_uniform_large(radius * width, words) for width in body.widths] for radius in radii.tolist()]
    return np.array(points, dtype=object)


def _uniform_large(reach: int, words: Words) -> int:
    bits = (2 * reach).bit_length()
    count = -(-bits // 64)
    while (number := int.from_bytes(words(count).tobytes(), "little") >> (64 * count - bits)) > 2 * reach:
        pass
    return number - reach


def _uniform(reach: Int64Array, words: Words) -> Int64Array:
    """Uniform whole numbers from ``-reach`` to ``reach``, by rejection from random bits."""
    last = (2 * reach).astype(np.uint64)
    mask = last.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> np.uint64(shift)
    result = np.empty(reach.shape, dtype=np.uint64)
    missing = np.ones(reach.shape, dtype=np.bool_)
    while missing.any():
        candidates = words(int(missing.sum())) & mask[missing]
        places = np.flatnonzero(missing)[candidates <= last[missing]]
        result.reshape(-1)[places] = candidates[candidates <= last[missing]]
        missing.reshape(-1)[places] = False
    return result.astype(np.int64) - reach
