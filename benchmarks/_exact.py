"""Exact figures of raw rows, by NumPy, SciPy, scikit-learn and statsmodels.

Nothing here knows the product: no grid, no cell, no rounding (an import contract holds this). So a figure that the
product's own rounding moved counts as wrong, as it does for whoever has the rows. Bounds are part of what is asked:
values beyond them count as the nearer bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import statsmodels.api as sm
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import expit, logit
from sklearn import metrics

Numbers = NDArray[np.float64]


def within(values: ArrayLike, bounds: Sequence[float]) -> Numbers:
    """Values, with those beyond public bounds at the nearer one."""
    return np.clip(np.asarray(values, dtype=np.float64), bounds[0], bounds[1])


def quantile(values: Numbers, level: float) -> float:
    """The least value that a share ``level`` of the rows do not exceed."""
    return float(np.quantile(values, level, method="inverted_cdf"))


def share_up_to(values: Numbers, places: ArrayLike) -> Numbers:
    """The share of rows with a value of at most each place."""
    return np.asarray(stats.ecdf(values).cdf.evaluate(np.asarray(places, dtype=np.float64)), dtype=np.float64)


def share_below(values: Numbers, places: ArrayLike) -> Numbers:
    """The share of rows with a value below each place."""
    return np.asarray(np.searchsorted(np.sort(values), np.asarray(places), side="left") / values.size)


def area(labels: Numbers, scores: Numbers) -> float:
    """The area under the ROC curve."""
    return float(metrics.roc_auc_score(labels, scores))


def average_precision(labels: Numbers, scores: Numbers) -> float:
    """The average precision, with rows of equal scores together."""
    return float(metrics.average_precision_score(labels, scores))


def curve(labels: Numbers, scores: Numbers) -> tuple[Numbers, Numbers]:
    """The ROC curve's false and true positive rates."""
    false, true, _ = metrics.roc_curve(labels, scores, drop_intermediate=False)
    return false, true


def separation(labels: Numbers, scores: Numbers) -> float:
    """The largest distance of the two classes' distribution functions (Kolmogorov and Smirnov)."""
    return float(stats.ks_2samp(scores[labels == 0], scores[labels == 1]).statistic)


def rates(labels: Numbers, scores: Numbers, threshold: float) -> Mapping[str, float]:
    """The rates of the confusion matrix of ``score >= threshold``; NaN where one divides by 0."""
    (tn, fp), (fn, tp) = metrics.confusion_matrix(labels, scores >= threshold, labels=[0, 1]).astype(np.float64)
    parts = {
        "accuracy": (tp + tn, labels.size),
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "specificity": (tn, tn + fp),
        "f1": (2 * tp, 2 * tp + fp + fn),
    }
    return {name: float(part / whole) if whole else float("nan") for name, (part, whole) in parts.items()}


def gain(labels: Numbers, scores: Numbers, depth: float) -> float:
    """The share of positives among the rows with the highest scores, equal scores in random order."""
    order = np.unique(scores)[::-1]
    rows = np.array([(scores >= one).sum() for one in order], dtype=np.float64)
    positives = np.array([labels[scores >= one].sum() for one in order], dtype=np.float64)
    return float(np.interp(depth * labels.size, np.append(0.0, rows), np.append(0.0, positives)) / labels.sum())


def cost(labels: Numbers, scores: Numbers, threshold: float | None, *, false: float, missed: float) -> float:
    """The mean cost of a row if those from a threshold on are taken; None: none is."""
    taken = np.zeros(labels.size, dtype=bool) if threshold is None else scores >= threshold
    return float((false * (taken & (labels == 0)) + missed * (~taken & (labels == 1))).mean())


def of_groups(labels: Numbers, scores: Numbers, starts: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Rows, positives, sums of scores, and variances of a calibrated model, of the scores from each start on."""
    place = np.searchsorted(starts, scores, side="right") - 1
    size = starts.size
    rows, positives, sums, variances = (
        np.bincount(place, weights, minlength=size).astype(np.float64)
        for weights in (np.ones(scores.size), labels, scores, np.zeros(scores.size))
    )
    means = sums / np.maximum(rows, 1.0)
    variances = rows * means * (1 - means)
    return rows, positives, sums, variances


def losses(labels: Numbers, scores: Numbers, *, clip: float) -> Mapping[str, float]:
    """Brier score and log loss, and the intercept and slope of the logistic regression on the scores' log-odds.

    Of scores that are all clipped to one value, intercept and slope are NaN.
    """
    inside = np.clip(scores, clip, 1 - clip)
    line = np.full(2, np.nan)
    if np.ptp(inside) > 0:
        fit = sm.Logit(labels, sm.add_constant(logit(inside), has_constant="add")).fit(disp=0, maxiter=100)
        line = np.asarray(fit.params)
    return {
        "brier": float(metrics.brier_score_loss(labels, scores)),
        "log_loss": float(metrics.log_loss(labels, inside, labels=[0, 1])),
        "intercept": float(line[0]),
        "slope": float(line[1]),
    }


def recalibrated(figures: Mapping[str, float], scores: Numbers) -> Numbers:
    """What the map of ``losses`` makes of scores."""
    return np.asarray(expit(figures["intercept"] + figures["slope"] * logit(scores)))


def line(x: Numbers, y: Numbers) -> tuple[float, float]:
    """Slope and intercept of the line of least squares; of rows with one x, NaN."""
    if x.size < 2 or np.ptp(x) == 0:
        return float("nan"), float("nan")
    fit = stats.linregress(x, y)
    return float(fit.slope), float(fit.intercept)


def fit(columns: Sequence[Numbers], outcome: Numbers) -> tuple[Numbers, float]:
    """Coefficients of least squares, the intercept first, and R^2."""
    fitted = sm.OLS(outcome, sm.add_constant(np.stack(columns, axis=1), has_constant="add")).fit()
    return np.asarray(fitted.params), float(fitted.rsquared)


def column(fitted: Numbers, residuals: Numbers, ends: tuple[float, float], bound: float) -> Numbers:
    """The residuals of the rows whose fitted value is in a column, those beyond the bound at its edge.

    A column is open towards 0 and closed at its outer ends, as the cells of a residual plot are.
    """
    low, high = ends
    above = fitted >= low if low <= 0 else fitted > low
    below = fitted <= high if high > 0 else fitted < high
    return np.clip(residuals[above & below], -bound, bound)


def spread(residuals: Numbers) -> float:
    """Half the distance of the 16% and 84% quantiles: the standard deviation of normal residuals."""
    low, high = (quantile(residuals, float(stats.norm.cdf(score))) for score in (-1.0, 1.0))
    return (high - low) / 2
