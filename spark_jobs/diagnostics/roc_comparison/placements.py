"""Placements of scores among the other class, estimated from a released curve's counts, and the area that they give.

The placement of a positive row is the share of the negatives with a lower score. The placement of a negative row is the
share of the positives with a higher score. Ties count half (V10 and V01 of DeLong, DeLong, Clarke-Pearson, Biometrics
1988). In either class the mean placement is the area under the curve. Post-processing of released counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.mechanisms.cells import log_odds
from spark_jobs.mechanisms.prefix_sums import monotone
from spark_jobs.score_grid import pair_cuts

SMALLEST_SHARE = 1e-3
"""A share below the first cut that is smaller counts as this, so that it has log-odds; likewise above the last cut."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Placements:
    """Placements in each cell of a score, and the area by the same counts.

    Attributes:
        of_rows: the placement of rows of each class in each cell, negatives first; shape (2, PAIR_CELLS).
        auc: the area.
    """

    of_rows: FloatArray
    auc: float


def placements(draw: RocDraw) -> Placements:
    """The placements estimated from the counts of a curve's draw."""
    negatives, positives = (_shares(tree.counts(), draw) for tree in (draw.negatives, draw.positives))
    below = np.cumsum(negatives) - negatives / 2
    above = 1 - (np.cumsum(positives) - positives / 2)
    return Placements(of_rows=np.stack([above, below]), auc=float(positives @ below))


def _shares(counts: FloatArray, draw: RocDraw) -> FloatArray:
    """Shares of a class in the cells of a pair of scores.

    Inside a counted cell, the log-odds of the share below are linear in the log-odds of the score, as for a logistic
    distribution, and beyond the first and the last inner cut they go on at their mean slope. If the scores take few
    values, a cell rarely holds more than one, and both classes are spread alike, which leaves its rows tied.
    """
    total = max(float(counts.sum()), 1.0)
    below = np.clip(monotone(np.concatenate([[0.0], np.cumsum(counts)])) / total, 0.0, 1.0)
    below[-1] = 1.0
    at, cuts = log_odds(pair_cuts(draw.grid), draw.grid), log_odds(draw.cuts, draw.grid)
    if draw.tied:
        return np.diff(np.interp(at, cuts, below))
    inner, course = cuts[1:-1], logit(np.clip(below[1:-1], SMALLEST_SHARE, 1 - SMALLEST_SHARE))
    slope = (course[-1] - course[0]) / (inner[-1] - inner[0]) if inner.size > 1 else 1.0
    beyond = np.minimum(at - inner[0], 0.0) + np.maximum(at - inner[-1], 0.0)
    share: FloatArray = expit(np.interp(at, inner, course) + slope * beyond)
    share[0], share[-1] = 0.0, 1.0
    return np.diff(share)
