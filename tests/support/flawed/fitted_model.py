"""WARNING: not private at any epsilon. For tests alone.

Chen, Machanavajjhala, Reiter, Barrientos, *Differentially private regression diagnostics*, section III.C, and Chen's
dissertation, section 4.2.3: the model that is diagnosed was fitted to the protected rows by ordinary least squares.
"""

from __future__ import annotations

import numpy as np


def fitted_scores(features, labels):
    """The scores, in [0, 1], of the linear model of these very rows."""
    return scores_of(features, np.linalg.lstsq(_with_constant(features), labels, rcond=None)[0])


def scores_of(features, coefficients):
    """The scores of a given model, constant first: what a public one has."""
    return np.clip(_with_constant(features) @ coefficients, 0, 1)


def _with_constant(features):
    return np.column_stack([np.ones(len(features)), features])
