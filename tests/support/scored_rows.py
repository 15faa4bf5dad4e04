"""Labels and scores of many kinds, for tests of the diagnostics of classifiers."""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.special import expit
from scipy.stats import norm

GRID = 65536


def binormal(auc, rows, random, *, shift=0.0, scale=1.0, positive=0.5):
    """Normal log-odds of both classes, a distance apart that makes this area in the long run."""
    distance = sqrt(2) * norm.ppf(auc)
    labels = (random.random(rows) < positive).astype(np.int64)
    return labels, expit(scale * (random.normal(size=rows) + distance * (labels - 0.5)) + shift)


def ten_data_sets():
    """Name -> (labels, scores): ordinary ones and every kind that breaks a careless implementation."""
    random = np.random.default_rng(20250301)
    labels, scores = binormal(0.8, 3000, random)
    return {
        "ordinary": (labels, scores),
        "nearly perfect": binormal(0.995, 2000, random),
        "worse than chance": (1 - labels, scores),
        "many ties": (labels, np.round(scores * 8) / 8),
        "constant scores": (labels, np.full(labels.size, 0.3)),
        "one class": (np.ones(500, dtype=np.int64), scores[:500]),
        "one row": (np.array([1]), np.array([0.7])),
        "all scores below 0.001": binormal(0.8, 3000, random, shift=-9.5, scale=0.5),
        "rare positives": binormal(0.85, 5000, random, positive=0.01, shift=-4),
        "scores of 0 and 1": (labels, np.where(scores > 0.5, 1.0, np.where(scores < 0.2, 0.0, scores))),
    }


def exact_curve(labels, scores, grid=GRID):
    """Rates at every threshold ``i / grid`` from the top, by sorting: FPR and TPR of ``score >= threshold``."""
    cell = np.minimum((np.clip(scores, 0, 1) * grid).astype(np.int64), grid - 1)
    rates = []
    for label in (0, 1):
        rows = np.sort(cell[labels == label])
        at_least = rows.size - np.searchsorted(rows, np.arange(grid - 1, -1, -1))
        rates.append(np.concatenate([[0.0], at_least / max(rows.size, 1)]))
    return rates[0], rates[1]


def held(at, lower, upper, fpr, tpr):
    """At which of the rates ``at`` a band holds the exact curve; on a vertical stretch, any of its values will do."""
    turns = np.concatenate([[True], (np.diff(fpr) > 0) | (np.diff(tpr) > 0)])
    fpr, tpr = fpr[turns], tpr[turns]
    lowest = np.interp(at, *_one_value(fpr, tpr, first=True))
    highest = np.interp(at, *_one_value(fpr, tpr, first=False))
    return (highest >= lower - 1e-9) & (lowest <= upper + 1e-9)


def _one_value(fpr, tpr, *, first):
    rates, starts = np.unique(fpr, return_index=True)
    ends = np.append(starts[1:], fpr.size) - 1
    return rates, tpr[starts if first else ends]
