"""Cells between recursive medians of the scores: the thresholds of PriROC, with the noise that their privacy needs."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, plain, share
from spark_jobs.mechanisms.continuous_noise import RESIDUAL_DELTA
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.quantiles import recursive_medians

MEDIANS_SHARE = 5
"""Inverse of the medians' share of the budget (Chen 2018)."""
MAX_EPSILON_PER_LEVEL = Decimal(10)
"""Largest epsilon of a level for which the noise of the medians is proven; the counts get the rest."""


def cells_by_medians(
    scores: Int64Array, cells: int, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> Int64Array:
    """Cuts of ``cells`` cells at private medians of the scores, of their halves, and so on.

    Privacy: ``recursive_medians`` of the rows of both classes together, ``(epsilon / 5, 1e-30 per level and row)``-DP.
    Medians that coincide are moved to the nearest distinct cuts, which is post-processing.

    Args:
        scores: exact counts of the fine cells, both classes together; private.
        cells: number of cells: a power of two, at most the number of fine cells.
        meter: pays epsilon and delta.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        InvalidRequest: the meter has too little delta for the medians.
    """
    levels = cells.bit_length() - 1
    needed = levels * rows_changed(neighbours) * RESIDUAL_DELTA
    if meter.remaining_delta < needed:
        raise InvalidRequest(
            "delta", plain(meter.remaining_delta), f"must be at least {needed} for recursive_medians",
            "give a delta such as '1e-9', or choose another method",
        )  # fmt: skip
    cost = min(share(meter.granted.epsilon, MEDIANS_SHARE), levels * MAX_EPSILON_PER_LEVEL)
    medians = recursive_medians(scores, levels=levels, epsilon=cost, neighbours=neighbours, noise=noise, meter=meter)
    return distinct(np.concatenate([[0], medians.thresholds, [scores.size]]))


def distinct(cuts: Int64Array) -> Int64Array:
    """Distinct cuts near the given ones, which ascend from 0 to the number of fine cells."""
    order = np.arange(cuts.size)
    apart = np.maximum.accumulate(cuts - order) + order
    apart = np.clip(apart, order, cuts[-1] - order[::-1])
    return np.asarray(apart, dtype=np.int64)
