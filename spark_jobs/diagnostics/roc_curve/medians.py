"""Cells between recursive medians of the scores: PriROC's thresholds, with the noise that their privacy needs."""

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
"""One part in so many of the budget goes to the medians (Chen 2018)."""
MAX_EPSILON_PER_LEVEL = Decimal(10)
"""The noise of the medians is proven up to this epsilon; what is beyond is left to the counts."""


def cells_by_medians(
    scores: Int64Array, cells: int, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> Int64Array:
    """Cuts of ``cells`` cells at private medians of the scores, of their halves, and so on.

    Privacy: ``recursive_medians`` of the rows of both classes together, ``(epsilon / 5, 1e-30 per level and row)``-DP.
    Medians that coincide are moved to the nearest cuts that do not, which looks at nothing but the medians.

    Args:
        scores: exact counts of the fine cells; private.
        cells: a power of two, at most as many as there are fine cells.
        meter: pays, with the delta too.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        InvalidRequest: the meter has no delta for the medians.
    """
    levels = cells.bit_length() - 1
    needed = levels * rows_changed(neighbours) * RESIDUAL_DELTA
    if meter.remaining_delta < needed:
        raise InvalidRequest(
            "delta",
            value=plain(meter.remaining_delta),
            requirement=f"must be at least {needed} for recursive_medians",
            remedy="give a delta such as '1e-9', or choose another method",
        )
    cost = min(share(meter.granted.epsilon, MEDIANS_SHARE), levels * MAX_EPSILON_PER_LEVEL)
    medians = recursive_medians(scores, levels=levels, epsilon=cost, neighbours=neighbours, noise=noise, meter=meter)
    return distinct(np.concatenate([[0], medians.thresholds, [scores.size]]))


def distinct(cuts: Int64Array) -> Int64Array:
    """Cuts near the given ones, which ascend from 0 to the number of fine cells, without two that coincide."""
    order = np.arange(cuts.size)
    apart = np.maximum.accumulate(cuts - order) + order
    apart = np.clip(apart, order, cuts[-1] - order[::-1])
    return np.asarray(apart, dtype=np.int64)
