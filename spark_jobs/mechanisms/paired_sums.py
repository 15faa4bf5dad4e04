"""Noisy number, sum and sum of squares of values in [-1, 1] of the rows of two classes, at one cost.

A value is rounded to ``k / STEPS`` with a whole number ``k``. The row adds the quadratic Lagrange weights of the nodes
-1, 0 and 1, times ``2 STEPS^2``, to three sums of its class:

    T- : k (k - STEPS)      T0 : 2 (STEPS^2 - k^2)      T+ : k (k + STEPS)

``(T- + T0 + T+) / (2 STEPS^2)`` is the number of rows, ``(T+ - T-) / (2 STEPS^2)`` the sum of their values, and
``(T+ + T-) / (2 STEPS^2)`` the sum of the squares: exactly, whatever the values.

Privacy. A row changes the three sums of its class by ``|k| (STEPS - |k|) + 2 (STEPS^2 - k^2) + |k| (|k| + STEPS) = 2
STEPS^2 + 2 |k| STEPS - 2 k^2`` together, at most ``5/2 STEPS^2``, at ``|k| = STEPS / 2``. The 1-norm sensitivity of all
six sums is ``SENSITIVITY = 5/2 STEPS^2`` if a row is added or removed, and twice that if one is replaced, which may
change its class. Two-sided geometric noise of scale sensitivity / epsilon in each is epsilon-DP
(``spark_jobs.mechanisms.noise``). In sums of values and of squares the noise has standard deviation ``2.5 / epsilon``,
where two sums of numbers in [-1, 1] at half of epsilon each would have ``2.83 / epsilon``. If the values of cells
depend on earlier releases, the sums compose with these sequentially.

The sums are exact for any number of rows. They are clipped to int64 before noise is added; clipping does not add
sensitivity. A sum that wrapped around, which is possible from 2^34 rows on, would move from one end of int64 to the
other by a single row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Cost, Noise, SeededNoise, laplace_scale
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.regression.sums import rounded

STEPS = 2**14
"""Steps of a value from 0 to 1: rounding moves a value by at most a 32,768th."""
SENSITIVITY = 5 * STEPS**2 // 2
_LIMB = 11
"""Bits of a count that are weighted at once: the sums over 2^22 cells then fit int64."""
_READ = np.array([[1.0, 1.0, 1.0], [-1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]) / (2 * STEPS**2)


@dataclass(frozen=True, kw_only=True, eq=False)
class PairedSums:
    """The six noisy sums.

    Attributes:
        totals: T-, T0 and T+ of each class, negatives first; shape (2, 3).
        scale: of the two-sided geometric noise in each.
    """

    totals: Int64Array
    scale: float

    def moments(self) -> FloatArray:
        """Unbiased number of rows, sum of values and sum of squares of each class; shape (2, 3)."""
        return self.totals @ _READ.T

    def errors(self, copies: int, noise: SeededNoise) -> FloatArray:
        """Fresh copies of the noise in ``moments``; shape (copies, 2, 3)."""
        return noise.two_sided((copies, 2, 3), scale=self.scale) @ _READ.T


def on_lattice(values: FloatArray) -> Int64Array:
    """Values in [-1, 1] as multiples of ``1 / STEPS``."""
    return np.rint(np.clip(values, -1.0, 1.0) * STEPS).astype(np.int64)


def weights(k: Int64Array) -> Int64Array:
    """What a row of value ``k / STEPS`` adds to T-, T0 and T+ of its class; shape (..., 3)."""
    return np.stack([k * (k - STEPS), 2 * (STEPS**2 - k * k), k * (k + STEPS)], axis=-1)


def paired_sums(
    classes: Int64Array,
    values: FloatArray,
    counts: Int64Array,
    *,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
) -> PairedSums:
    """The noisy sums over rows that are counted in disjoint cells; ``epsilon``-DP (see the module's proof).

    Args:
        classes: class of each cell, 0 or 1; public.
        values: value of each cell; public, or computed from released numbers only.
        counts: exact number of rows of each cell; private.
        epsilon: the cost of the release.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    added = weights(on_lattice(values))
    exact = np.stack([_weighted(counts[classes == label], added[classes == label]) for label in (0, 1)])
    sensitivity = SENSITIVITY * rows_changed(neighbours)
    return PairedSums(
        totals=noise.laplace(exact, epsilon=epsilon, l1_sensitivity=sensitivity),
        scale=laplace_scale(epsilon, sensitivity),
    )


def _weighted(counts: Int64Array, added: Int64Array) -> Int64Array:
    """The exact sums of weights over rows, clipped to int64; shape (3,)."""
    limbs = [((counts >> place & (1 << _LIMB) - 1) @ added).astype(object) << place for place in range(0, 63, _LIMB)]
    return rounded(np.sum(limbs, axis=0), np.ones(3, dtype=np.int64))
