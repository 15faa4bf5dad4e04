"""The baseline methods: noise in every cell, or one noisy total spread evenly; and a noisy total for other methods."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.interface import PublicFacts
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed

LATTICE = 1 << 10
"""Steps per count of the lattice of the Laplace method."""
TOTAL_SHARE = Decimal("0.01")


def geometric(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """Two-sided geometric noise in every cell; epsilon-DP for the meter's remaining epsilon.

    Sensitivity: the vector of disjoint counts changes by 1 in 1-norm when a row is added or removed, by 2 when one is
    replaced (Ghosh, Roughgarden, Sundararajan, STOC 2009).
    """
    epsilon = meter.spend_rest(label="noise in every cell")
    return noise.laplace(counts, epsilon=epsilon, l1_sensitivity=rows_changed(neighbours)).astype(np.float64)


def laplace(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """Laplace noise in every cell, on a lattice of 1/1024; epsilon-DP for the meter's remaining epsilon.

    The counts are multiplied by 1024, and so is their sensitivity (1 or 2 rows); integer noise is exact there, and
    dividing afterwards is post-processing. For comparison with papers only: ``geometric`` is never worse.
    """
    epsilon = meter.spend_rest(label="noise in every cell")
    reach = np.iinfo(np.int64).max // LATTICE
    steps = np.clip(counts, -reach, reach) * LATTICE
    noisy = noise.laplace(steps, epsilon=epsilon, l1_sensitivity=LATTICE * rows_changed(neighbours))
    return noisy / LATTICE


def uniform(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """A noisy total spread evenly over the cells; epsilon-DP for the meter's remaining epsilon.

    Sensitivity of the total: 1 when a row is added or removed, and taken as 2 (it is 1) when one is replaced. If the
    total is public, no noise is drawn and nothing is spent.
    """
    if facts.total is not None:
        return np.full(counts.shape, facts.total / counts.size)
    epsilon = meter.spend_rest(label="noisy total")
    total = noise.laplace(counts.sum(keepdims=True), epsilon=epsilon, l1_sensitivity=rows_changed(neighbours))
    return np.full(counts.shape, float(total.reshape(-1)[0]) / counts.size)


def noisy_total(counts: Int64Array, *, meter: BudgetMeter, noise: Noise) -> int:
    """The sum of the counts with noise, at a share ``TOTAL_SHARE`` of the budget; possibly negative.

    Its sensitivity is 1 under either relation: a replaced row may enter or leave these cells.
    """
    cost = meter.spend_share(TOTAL_SHARE, label="noisy total")
    return int(noise.laplace(counts.sum(keepdims=True), epsilon=cost, l1_sensitivity=1).reshape(-1)[0])
