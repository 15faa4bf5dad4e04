"""The four sums of a group that a published calibration test pays for one by one. For tests alone.

Barczewski, Mawass, Ramon, *Differentially private empirical cumulative distribution functions*, algorithm 2.
"""

from __future__ import annotations

import numpy as np

CHARGED = 8
"""Parts of the budget that are paid."""


def four_sums(labels, scores, *, as_printed=False):
    """Observed and expected rows of both classes: O1, E1, O0, E0; line 8 as printed has E1 twice."""
    labels, scores = np.asarray(labels), np.asarray(scores)
    negative = scores.sum() if as_printed else (1 - scores).sum()
    return np.array([labels.sum(), scores.sum(), (1 - labels).sum(), negative])
