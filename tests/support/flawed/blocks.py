"""WARNING: not private at the epsilon it claims where a row is replaced. For tests alone.

Chen, *Applying differential privacy with sparse vector technique*, 2018: chapter 2 proves parallel composition for a
row that is added or removed; chapter 4 uses it where a row is replaced. Its (5.2) calls "in block 1" and "in block 2"
one step.
"""

from __future__ import annotations

import numpy as np


def blocks_in_parallel(counts, *, epsilon, noise):
    """Each block's count with noise for one row of its own, all of them for ``epsilon`` together."""
    return np.array([noise.laplace(np.array([count]), epsilon=epsilon, l1_sensitivity=1)[0] for count in counts])
