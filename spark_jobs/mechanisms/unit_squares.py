"""Noisy sums of units' squares, and the design effects that follow from them.

Units are sampled with all their rows. So a figure of the n rows, as an estimate of the same figure of a population, has
the variance ``V = sum phi_i^2 / n^2``, summed over units, where ``phi_i`` is the influence of unit i: the sum of its
rows' influences (linearisation, as in survey sampling). If rows were sampled one by one, the variance would be
``V_rows = sum phi^2 / n^2``, summed over rows. ``D = V / V_rows`` is the design effect. D is at most the largest number
of rows of a unit, by Cauchy and Schwarz.

*Neighbours, sensitivity, guarantee.* Let M be the largest number of rows of a unit and b the largest influence of a
row. ``t_i = phi_i^2 / (M b)^2`` is in [0, 1] and depends only on numbers that are released already and on the unit's
own rows. One unit added or removed changes the vector of the sums of K figures by an element of [0, 1]^K, one replaced
by an element of [-1, 1]^K. Both are in the cube, so that noise of ``k_norm`` on the cube is ``epsilon``-DP under either
relation, and for K = 1 it is two-sided geometric noise of this sensitivity. The mechanism composes adaptively with what
was released before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import UNIT_STEPS
from spark_jobs.mechanisms.k_norm import Body
from spark_jobs.mechanisms.noise import Noise

UNSURE = 2.0
"""A variance is said to be an upper limit if the noise in it has more than this part of it as standard deviation."""
_FOR_SKEW = 0.5
"""Standard deviations that are added: too small a variance costs more coverage than one that is too large."""


def noisy_squares(exact: Int64Array, *, epsilon: Decimal, noise: Noise) -> Int64Array:
    """The sums over units of squared influences, with noise; ``epsilon``-DP for one unit added, removed or replaced.

    Args:
        exact: ``unit_squares``, one number for each figure; private.
        epsilon: the cost of all figures together, for one unit.
        noise: sampler.
    """
    if exact.size == 1:
        return noise.laplace(exact, epsilon=epsilon, l1_sensitivity=UNIT_STEPS)
    return noise.k_norm(exact, epsilon=epsilon, body=Body(unit=UNIT_STEPS, widths=(1,) * exact.size))


def stddev_of(figures: int, epsilon: Decimal) -> float:
    """The standard deviation of the noise in each of ``figures`` sums, where a unit adds at most 1 to a sum."""
    return math.sqrt((figures + 1) * (figures + 2) / 3) / float(epsilon)


@dataclass(frozen=True, kw_only=True)
class DesignEffect:
    """The design effect: the variance of a figure over its variance if rows were sampled one by one.

    Attributes:
        value: from 1 to the largest number of rows of a unit.
        at_most: whether ``value`` is only an upper limit, because noise hides how far below the effect is.
    """

    value: float
    at_most: bool


def design_effect(noisy: float, *, stddev: float, largest: float, rows_square: float, max_rows: int) -> DesignEffect:
    """The design effect of a figure, from the noisy sum of its units' squares; deterministic.

    Args:
        noisy: the noisy sum, where 1 is the most that a unit adds.
        stddev: the standard deviation of its noise.
        largest: the largest influence of a row.
        rows_square: the sum over rows of squared influences, from released counts.
        max_rows: the largest number of rows of a unit.
    """
    if rows_square <= 0:
        return DesignEffect(value=float(max_rows), at_most=True)
    share = (noisy + _FOR_SKEW * stddev) * (max_rows * largest) ** 2 / rows_square
    value = min(max(share, 1.0), float(max_rows))
    return DesignEffect(value=value, at_most=value >= max_rows or UNSURE * stddev > noisy)
