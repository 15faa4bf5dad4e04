"""WARNING: a loop without a bound. For tests alone.

Chen, *Applying differential privacy with sparse vector technique*, 2018, algorithm 10: doubles an interval until its
noisy count reaches a noisy threshold, ``while True``.
"""

from __future__ import annotations

import numpy as np


def doubled_until_it_holds_enough(values, *, threshold, epsilon, noise):
    """The half width found: a power of two."""
    wanted = noise.laplace(np.array([threshold]), epsilon=epsilon, l1_sensitivity=1)[0]
    doublings = 0
    while True:
        width = 2.0**doublings
        inside = np.array([np.count_nonzero(np.abs(values) <= width)])
        if noise.laplace(inside, epsilon=epsilon, l1_sensitivity=1)[0] >= wanted:
            return width
        doublings += 1
