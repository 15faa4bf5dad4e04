"""DAWA's first stage as its public reference code has it: NOT differentially private at its epsilon. Tests only.

Three faults, each enough by itself: the noise has scale ``(2 - 1/|B| - 1/N) / epsilon``, half of what a bucket and its
rival need together; single cells have none; noisy costs are clipped from below.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from spark_jobs.papers.histograms.partition import candidates, change_in_steps, cheapest

FAULTS = ("bare", "half", "clipped")


def published_partition(
    counts: np.ndarray, *, epsilon: Any, penalty: float, noise: Any, steps: int, faults: Collection[str] = FAULTS
) -> np.ndarray:
    """The buckets' first cells, with the faults asked for and the rest as it should be."""
    noisy = []
    for level in candidates(counts, steps=steps):
        change = change_in_steps(level.length, steps) + change_in_steps(counts.size, steps)
        if "half" in faults:
            change = -(-change // 2)
        bare = level.length == 1 and "bare" in faults
        costs = level.costs if bare else noise.laplace(level.costs, epsilon=epsilon, l1_sensitivity=change)
        noisy.append(np.maximum(costs, 0) if "clipped" in faults else costs)
    return cheapest(noisy, penalty=round(penalty * steps), cells=counts.size)
