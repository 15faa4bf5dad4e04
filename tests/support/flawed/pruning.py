"""WARNING: not private at the epsilon it claims. For tests and warnings alone.

Chen, *Applying differential privacy with sparse vector technique*, 2018, algorithm 18 (PRUNE): each node's count is
compared with a threshold whose noise is drawn anew for that node. Theorem 20 charges all of them as one sparse vector
test, whose proof needs one threshold for all.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np


def fresh_threshold_tests(counts: Any, *, threshold: int, epsilon: Any, noise: Any) -> Any:
    """Which nodes pass, each against a threshold of its own; claims ``epsilon`` for all of them."""
    exact = np.asarray(counts, dtype=np.int64)
    half = Decimal(epsilon) / 2
    levels = noise.laplace(np.full(exact.shape, threshold), epsilon=half, l1_sensitivity=1)
    return noise.laplace(exact, epsilon=half, l1_sensitivity=1) >= levels
