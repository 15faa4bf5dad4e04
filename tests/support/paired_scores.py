"""Rows with a label and the scores of two models, for tests and benchmarks of comparisons."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from spark_jobs.arrays import FloatArray, Int64Array


def two_models(
    rows: int,
    seed: int,
    *,
    areas: tuple[float, float] = (0.8, 0.8),
    alike: float = 0.6,
    positive: float = 0.3,
) -> tuple[Int64Array, FloatArray, FloatArray]:
    """Labels and both scores: normal log-odds, whose errors in both models have the correlation ``alike``."""
    random = np.random.default_rng(seed)
    labels = (random.random(rows) < positive).astype(np.int64)
    common = random.normal(size=rows)
    scores = []
    for area, scale in zip(areas, (1.0, 1.4), strict=True):
        errors = np.sqrt(alike) * common + np.sqrt(1 - alike) * random.normal(size=rows)
        scores.append(expit(scale * (errors + np.sqrt(2) * norm.ppf(area) * labels - 1)))
    return labels, scores[0], scores[1]


def delong(labels: Int64Array, first: FloatArray, second: FloatArray) -> tuple[float, float]:
    """Difference of the areas, and its variance by placements of every row: a reference that sees the rows."""
    value, variance = 0.0, 0.0
    for label, sign in ((1, 1), (0, -1)):
        placed = []
        for scores in (first, second):
            others = np.sort(scores[labels != label])
            own = scores[labels == label]
            below = (np.searchsorted(others, own) + np.searchsorted(others, own, side="right")) / (2 * others.size)
            placed.append(below if sign == 1 else 1 - below)
        apart = placed[0] - placed[1]
        value += float(apart.mean()) / 2
        variance += float(apart.var(ddof=1)) / apart.size
    return value, variance
