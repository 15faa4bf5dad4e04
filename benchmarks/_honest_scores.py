"""One release of a table of scores, and the intervals that it shows: areas, groups of scores, matrices, comparisons.

Each function draws a table with a stated number of positives (or of rows of the smaller class times epsilon), and
releases it. Where a release has several intervals of a kind, one is chosen at random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit

from benchmarks._score_law import POSITIVES, SHAPES, SIGNALS, ScoreTable, drawn_table
from benchmarks._shown import LEVEL, Intervals, Shown, noise_of, shown_at, shown_of
from benchmarks.auc_accuracy import exact_figures
from benchmarks.choices import Errors, raced
from benchmarks.recalibration import CLIP, FIGURES
from benchmarks.recalibration import drawn_table as drawn_miscalibrated
from benchmarks.recalibration import exact_figures as exact_recalibration
from benchmarks.roc_comparison import GAP, drawn
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.results.score_figures import RATES
from spark_jobs.diagnostics import (
    auc,
    average_precision,
    binned_residuals,
    binormal_roc,
    calibration,
    confusion_matrix,
    recalibration,
    roc_comparison,
    roc_curve,
)
from spark_jobs.diagnostics.roc_area import with_one_area
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction
from spark_jobs.score_grid import cells_of, edges_of, middles_of
from spark_jobs.statistics import PairedScoreCounts, ScoreCounts
from tests.support.paired_scores import delong

AREA_METHODS = ("auto", "polynomial", "cauchy", "counts")
PRECISION_METHODS = (*AREA_METHODS, "weighted_counts")


def scored_table(random: np.random.Generator, positives: float) -> tuple[ScoreTable, dict[str, Any]]:
    """A table of the law with so many positives, and the terms of its release."""
    shape, signal = str(random.choice(SHAPES)), float(random.choice(SIGNALS))
    table = drawn_table(random, positives=int(positives), auc=signal, shape=shape)
    return table, {"epsilon": table.epsilon, "confidence": LEVEL}


def of_areas(random: np.random.Generator, positives: float) -> Intervals:
    """The areas under both curves."""
    table, terms = scored_table(random, positives)
    statistic = table.counts
    curve = roc_curve.release(statistic, noise=noise_of(random), **terms)
    single = auc.release(statistic, noise=noise_of(random), **terms)
    binormal = binormal_roc.release(statistic, noise=noise_of(random), **terms)
    precision = average_precision.release(statistic, noise=noise_of(random), **terms)
    exact, exact_precision = _exact(statistic)
    both = with_one_area({"roc_curve": curve, "auc": single}, sharing=())["auc"]
    return {
        "AUC of two measurements": shown_of(both.value, both.interval, exact),
        "AUC of two measurements, population": shown_of(both.value, both.population, table.population_auc),
        "roc_curve: AUC": shown_of(curve.auc.value, curve.auc.interval, exact),
        "roc_curve: AUC, population": shown_of(curve.auc.value, curve.auc.population, table.population_auc),
        "auc": shown_of(single.value, single.interval, exact),
        "auc, population": shown_of(single.value, single.population, table.population_auc),
        "binormal_roc: AUC": shown_of(binormal.auc.value, binormal.auc.interval, exact),
        "average_precision": shown_of(precision.value, precision.interval, exact_precision),
    }


def _exact(statistic: ScoreCounts) -> tuple[float, float]:
    """The exact AUC and average precision."""
    area = float(auc_fraction(statistic.negatives, statistic.positives))
    return area, float(exact_figures(statistic)[1])


def of_groups(random: np.random.Generator, positives: float) -> Intervals:
    """Binned residuals, and calibration with its error and the Hosmer-Lemeshow statistic."""
    table, terms = scored_table(random, positives)
    statistic = table.counts
    names = (
        "binned_residuals: a residual", "calibration: an observed share", "calibration: error",
        "calibration: Hosmer-Lemeshow",
    )  # fmt: skip
    shown: Intervals = dict.fromkeys(names)
    bins = binned_residuals.release(statistic, noise=noise_of(random), **terms)
    if bins.status == "ok":
        first, rows, of_class, scores, _ = exact_pools(statistic, bins.pool, bins.lower)
        one = int(random.choice(np.flatnonzero(rows)))
        ends = (bins.residual.value[first], bins.residual.lower[first], bins.residual.upper[first])
        shown[names[0]] = shown_at(one, ends, (of_class - scores) / np.maximum(rows, 1))
    groups = calibration.release(statistic, noise=noise_of(random), **terms)
    if groups.status == "ok":
        first, rows, of_class, scores, variance = exact_pools(statistic, groups.pool, groups.lower)
        one = int(random.choice(np.flatnonzero(rows)))
        ends = (groups.observed.value[first], groups.observed.lower[first], groups.observed.upper[first])
        shown[names[1]] = shown_at(one, ends, of_class / np.maximum(rows, 1))
        error = float(np.abs(of_class - scores).sum() / rows.sum())
        shown[names[2]] = shown_of(groups.ece.value, groups.ece.interval, error)
        chi_squared = float(((of_class - scores) ** 2 / np.maximum(variance, 1e-9)).sum())
        shown[names[3]] = shown_of(groups.statistic.value, groups.statistic.interval, chi_squared)
    return shown


def exact_pools(statistic: ScoreCounts, pool: Any, lower: FloatArray) -> tuple[Any, *tuple[FloatArray, ...]]:
    """The first bin of each pool, and its exact rows, positives, sum of scores, and variance if calibrated."""
    first = np.flatnonzero(np.diff(pool, prepend=-1))
    starts = cells_of(lower[first], statistic.cells)
    every = statistic.negatives + statistic.positives
    middles = middles_of(statistic.cells)
    rows, positives, scores = (
        np.add.reduceat(one, starts).astype(np.float64) for one in (every, statistic.positives, every * middles)
    )
    return first, rows, positives, scores, scores * (1 - scores / np.maximum(rows, 1))


def of_matrices(random: np.random.Generator, positives: float) -> Intervals:
    """The rates at a threshold that a random share of the rows exceeds."""
    table, terms = scored_table(random, positives)
    statistic = table.counts
    every = np.cumsum(statistic.negatives + statistic.positives)
    share = float(np.exp(random.uniform(np.log(0.005), np.log(0.7))))
    cut = int(np.searchsorted(every, (1 - share) * every[-1]))
    threshold = float(edges_of(statistic.cells)[min(max(cut, 1), statistic.cells - 1)])
    matrix = confusion_matrix.release(statistic, thresholds=[threshold], noise=noise_of(random), **terms)
    (cut,) = cells_of(matrix.thresholds, statistic.cells)
    tp, fp = float(statistic.positives[cut:].sum()), float(statistic.negatives[cut:].sum())
    fn, tn = float(statistic.positives[:cut].sum()), float(statistic.negatives[:cut].sum())
    exact = {
        "accuracy": (tp + tn) / (tp + fp + fn + tn),
        "precision": tp / max(tp + fp, 1),
        "recall": tp / (tp + fn),
        "specificity": tn / (tn + fp),
        "f1": 2 * tp / max(2 * tp + fp + fn, 1),
    }
    shown: Intervals = {}
    for rate in RATES:
        value, low, high = (float(ends[0]) for ends in (getattr(matrix, rate).value, *getattr(matrix, rate).ends()))
        known = np.isfinite(value)
        shown[f"confusion_matrix: {rate}"] = (
            Shown(value=value, low=low, high=high, exact=exact[rate]) if known else None
        )
    return shown


def of_recalibrations(random: np.random.Generator, positives: float) -> Intervals:
    """Brier score, log loss, and slope, intercept and a point of the map that recalibrates, for rows and population."""
    table = drawn_miscalibrated(random, positives=int(positives))
    outcome = recalibration.release(
        table.counts, epsilon=table.epsilon, noise=noise_of(random), confidence=LEVEL, clip=CLIP
    )
    place = int(random.integers(outcome.score.size))
    shown: Intervals = {}
    for of, suffix, counts in (("interval", "", table.counts), ("population", ", population", table.population)):
        exact = exact_recalibration(counts)
        for name in FIGURES:
            figure = getattr(outcome, name)
            shown[f"recalibration: {name}{suffix}"] = shown_of(figure.value, getattr(figure, of), exact[name])
        mapped = expit(exact["intercept"] + exact["slope"] * logit(outcome.score))
        shown[f"recalibration: the map{suffix}"] = (
            shown_at(place, (outcome.recalibrated.value, *outcome.recalibrated.ends(of)), mapped)
            if outcome.status == "ok"
            else None
        )
    return shown


def of_comparisons(random: np.random.Generator, signal: float) -> Intervals:
    """The difference of the AUCs of two models, which are equally good in the population, or not."""
    gap = float(random.choice([0.0, GAP]))
    rows, _, _ = drawn(random, gap)
    positives = int(rows[0].sum())
    smaller = max(min(positives, rows[0].size - positives), 1)
    noise = noise_of(random)
    outcome = roc_comparison.release(
        PairedScoreCounts.from_arrays(*rows), epsilon=signal / smaller, confidence=LEVEL, noise=noise
    )
    value, exact = outcome.auc_difference.value, delong(*rows)[0]
    return {
        "roc_comparison: difference": shown_of(value, outcome.auc_difference.interval, exact),
        "roc_comparison: difference, population": shown_of(value, outcome.auc_difference.population, gap),
    }


def area_choices(random: np.random.Generator, *, releases: int) -> dict[str, Errors]:
    """The mean absolute errors of every method for an AUC and an average precision, on one table."""
    table, _ = scored_table(random, float(random.choice(POSITIVES)))
    figures = ("AUC", auc, AREA_METHODS), ("average precision", average_precision, PRECISION_METHODS)
    first, errors = int(random.integers(1 << 32)), {}
    for (name, kind, methods), exact in zip(figures, _exact(table.counts), strict=True):

        def error_of(method: str, seed: int, kind: Any = kind, exact: float = exact) -> FloatArray:
            noise = SeededNoise(seed)
            value = kind.release(table.counts, epsilon=table.epsilon, method=method, noise=noise).value
            # a figure that is not released is as wrong as one drawn at random
            return np.array([0.5 if value is None else abs(value - exact)])

        means = raced(error_of, methods, releases=releases, first=first)
        errors[name] = {method: float(mean) for method, (mean,) in means.items()}
    return errors
