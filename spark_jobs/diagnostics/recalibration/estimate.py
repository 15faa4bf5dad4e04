"""Brier score, log loss, and the logistic regression of labels on log-odds of scores, from counts of groups.

The regression's equations are linear in the counts: the number of positives, and the sum of their log-odds, equal what
the fit expects over all rows. So noise that averages to 0 does not attenuate the slope, and counts are used as they
are, negative ones too. Inside a group, positives lie where the fit expects them, unless ``beyond`` moves them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics.recalibration.inside_groups import ScoresInside

STEPS, LONGEST_STEP = 60, 1.0
FURTHEST_INTERCEPT, FURTHEST_SLOPE = 60.0, 20.0
"""Bounds of the fit: a regression that separates the classes has none of its own."""
_CONVERGED, _TINY = 1e-9, 1e-300


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """The figures of each copy of the counts; arrays of shape (copies,).

    Attributes:
        brier: mean squared difference of score and label.
        log_loss: mean negative logarithm of the probability of the label, with clipped scores.
        intercept, slope: coefficients of the regression.
    """

    brier: FloatArray
    log_loss: FloatArray
    intercept: FloatArray
    slope: FloatArray

    @classmethod
    def joined(cls, parts: list[Estimates]) -> Estimates:
        """The copies of several parts, concatenated."""
        names = ("brier", "log_loss", "intercept", "slope")
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})

    def mapped(self, scores: FloatArray) -> FloatArray:
        """The recalibrated values of these scores, which are strictly between 0 and 1; shape (copies, scores)."""
        return np.asarray(expit(self.intercept[:, None] + self.slope[:, None] * logit(scores)), dtype=np.float64)


def estimate(
    positives: FloatArray, negatives: FloatArray, inside: ScoresInside, clip: float, beyond: FloatArray | float = 0.0
) -> Estimates:
    """The figures computed from counts, which may be noisy and have shape (copies, groups).

    Args:
        positives: positive rows of each group.
        negatives: negative rows of each group.
        inside: where the scores of the groups lie.
        clip: scores are clipped to [clip, 1 - clip], except for the Brier score.
        beyond: positives at each place in excess of those that the fit expects; shape (copies, groups, places).
    """
    scores, weights = inside.scores, inside.weights
    clipped = np.clip(scores, clip, 1 - clip)
    log_odds = logit(clipped)
    further = (beyond * log_odds * np.ones(weights.shape)).sum(axis=-1).sum(axis=-1)
    intercept, slope, fitted = _fit(positives, negatives, log_odds, weights, further)
    rows = (positives + negatives).sum(axis=1)

    def mean(of_positives: FloatArray, of_negatives: FloatArray) -> FloatArray:
        total = (beyond * (of_positives - of_negatives)).sum(axis=-1).sum(axis=-1) * np.ones(len(rows))
        for counts, share, of_class in ((positives, fitted, of_positives), (negatives, 1 - fitted, of_negatives)):
            part = weights * share
            total += (counts * (part * of_class).sum(axis=2) / np.maximum(part.sum(axis=2), _TINY)).sum(axis=1)
        return np.asarray(total / rows, dtype=np.float64)

    return Estimates(
        brier=np.clip(mean((1 - scores) ** 2, scores**2), 0.0, 1.0),
        log_loss=np.clip(mean(-np.log(clipped), -np.log1p(-clipped)), 0.0, -np.log(clip)),
        intercept=intercept,
        slope=slope,
    )


def _fit(
    positives: FloatArray, negatives: FloatArray, log_odds: FloatArray, weights: FloatArray, further: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Intercept and slope of each copy, and the fitted probabilities of shape (copies, groups, places).

    Newton's method; its matrix is that of counts without the negative ones, so that every step can be taken. That
    changes how fast it converges, and not where to.
    """
    intercept, slope = np.zeros(len(positives)), np.ones(len(positives))
    rows = positives + negatives
    curved = np.maximum(rows, 0.0)
    for _ in range(STEPS):
        fitted = expit(intercept[:, None, None] + slope[:, None, None] * log_odds)
        expected = weights * fitted
        share, moment = expected.sum(axis=2), (expected * log_odds).sum(axis=2)
        at = moment / np.maximum(share, _TINY)
        gradient = ((positives - rows * share).sum(axis=1), (positives * at - rows * moment).sum(axis=1) + further)
        spread = expected * (1 - fitted)
        h0, h1, h2 = ((curved * (spread * log_odds**power).sum(axis=2)).sum(axis=1) for power in range(3))
        h0, h2 = h0 + 1e-6, h2 + 1e-6
        determinant = np.maximum(h0 * h2 - h1**2, 1e-12 * h0 * h2)
        steps = (h2 * gradient[0] - h1 * gradient[1]) / determinant, (h0 * gradient[1] - h1 * gradient[0]) / determinant
        shorter = np.maximum(1.0, np.maximum(np.abs(steps[0]), np.abs(steps[1])) / LONGEST_STEP)
        intercept = np.clip(intercept + steps[0] / shorter, -FURTHEST_INTERCEPT, FURTHEST_INTERCEPT)
        slope = np.clip(slope + steps[1] / shorter, -FURTHEST_SLOPE, FURTHEST_SLOPE)
        if max(float(np.abs(step / shorter).max()) for step in steps) < _CONVERGED:
            break
    return intercept, slope, expit(intercept[:, None, None] + slope[:, None, None] * log_odds)
