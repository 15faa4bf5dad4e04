"""The influence of a row on the area under a released curve, by its label and score; post-processing."""

from __future__ import annotations

import numpy as np

from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.sampling import Influence


def influences(draw: RocDraw) -> dict[str, Influence]:
    """The influence of a row on the area.

    The area is the share of pairs of a positive and a negative in which the positive has the higher score, ties
    counting half. The influence of a row is this share among its own pairs, less the area (DeLong, DeLong,
    Clarke-Pearson 1988).
    """
    negatives, positives = (np.maximum(counts.counts(), 0.0) for counts in (draw.negatives, draw.positives))
    sizes = max(float(negatives.sum()), 1.0), max(float(positives.sum()), 1.0)
    rows = sizes[0] + sizes[1]
    below = (np.cumsum(negatives) - negatives / 2) / sizes[0]
    above = 1 - (np.cumsum(positives) - positives / 2) / sizes[1]
    area = float(positives @ below) / sizes[1]
    of_groups = np.stack([(above - area) * rows / sizes[0], (below - area) * rows / sizes[1]])
    return {"auc": Influence.of_groups(of_groups, np.stack([negatives, positives]), draw.cuts)}
