"""The difference of two areas under ROC curves, with the error of its noise and of the sampling of the rows.

**The same rows.** Each row has a value: its placement by the first model less its placement by the second
(``placements``), computed from the released curves. The estimate is the mean value of the positives, plus the mean
value of the negatives, less the difference of the areas of the released curves. Its error is of second order, because
an area is linear in the distribution of each class: for each model, the error of one class's distribution times the
error of the other's. Wide cells do no harm, as a row's value uses its place inside the cell. Errors:

* the noise of the sums, whose distribution is public;
* the second-order term, simulated by the noise of the curves' counts, and bounded inside their cells (``_unresolved``);
* for a population, the sampling of the rows: the variances of the values in each class over the class sizes (DeLong,
  DeLong, Clarke-Pearson, Biometrics 1988, for paired areas). Each simulated error draws the noise of a variance anew
  and lifts negative variances to 0, so that uncertainty about the variance widens the interval.

**An earlier release.** The rows of both releases are taken as independent samples. The error of the noise combines the
intervals of both areas (MOVER: Zou and Donner, Statistics in Medicine 2008); the sampling variance is the sum of
DeLong's variances of both curves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figures import DEFINED_ABOVE
from spark_jobs.contract.results.curves import RocCurve
from spark_jobs.diagnostics._simulation import normal, tree_errors
from spark_jobs.diagnostics.roc_comparison.placements import placements
from spark_jobs.diagnostics.roc_curve import RocDraw
from spark_jobs.diagnostics.roc_curve.measurement import ClassCounts
from spark_jobs.diagnostics.roc_curve.shape import area
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.paired_sums import PairedSums
from spark_jobs.mechanisms.prefix_sums import NoisyTree
from spark_jobs.score_grid import pair_cuts

COPIES = 4000
CURVE_COPIES = 200
MANY_CELLS = 2_000
IN_CELL = 0.04


@dataclass(frozen=True, kw_only=True)
class AreaDifference:
    """A difference of two areas.

    Attributes:
        value: the first area less the second.
        of_rows: interval for these rows, which covers the noise alone.
        of_population: interval for the populations that the rows are samples of.
        p_value: of the hypothesis that the difference is 0 in the population.
        p_value_floor: the smallest possible p-value; 0 if p-values are not simulated.
        sizes: noisy sizes of the classes, negatives first.
        defined: whether both sizes clearly exceed their noise.
    """

    value: float
    of_rows: tuple[float, float]
    of_population: tuple[float, float]
    p_value: float
    p_value_floor: float
    sizes: tuple[float, float]
    defined: bool = True


def same_rows(
    first: RocDraw, second: RocDraw, sums: PairedSums, *, confidence: float, seed: int, effect: float = 1.0
) -> AreaDifference:
    """The difference for two models on the same rows; a function of released values and the seed.

    ``effect`` is the design effect of sampling units with all their rows.
    """
    noise = SeededNoise(seed)
    rows, total, squares = sums.moments().T
    sizes = np.maximum(rows, 1.0)
    drawn = sums.errors(COPIES, noise)
    stddev = drawn[:, :, 0].std(axis=0)
    defined = bool((rows >= np.maximum(1.0, DEFINED_ABOVE * stddev)).all())
    means = np.clip(total / sizes, -1.0, 1.0)
    value = float(means.sum()) - (placements(first).auc - placements(second).auc)
    of_noise = ((drawn[:, :, 1] - means * drawn[:, :, 0]) / sizes).sum(axis=1)
    of_noise += sum(
        _second_order(draw, noise) + _unresolved(draw) * normal(noise, (COPIES,)) for draw in (first, second)
    )
    variances = np.maximum((squares + drawn[:, :, 2]) / sizes - means**2, 0.0) * effect / sizes
    sampled = of_noise + (np.sqrt(variances) * normal(noise, variances.shape)).sum(axis=1)
    return AreaDifference(
        value=float(np.clip(value, -1.0, 1.0)),
        of_rows=_interval(value, of_noise, confidence),
        of_population=_interval(value, sampled, confidence),
        p_value=float((1 + (np.abs(sampled) >= abs(value)).sum()) / (1 + COPIES)),
        p_value_floor=1 / (1 + COPIES),
        sizes=(float(rows[0]), float(rows[1])),
        defined=defined,
    )


def _interval(value: float, errors: FloatArray, confidence: float) -> tuple[float, float]:
    low, high = np.quantile(errors, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(np.clip(value - max(high, 0.0), -1.0, 1.0)), float(np.clip(value - min(low, 0.0), -1.0, 1.0))


def _second_order(draw: RocDraw, noise: SeededNoise) -> FloatArray:
    """Copies of the product of the errors of both classes' distributions, by the noise of a curve's counts."""
    if draw.cuts.size > MANY_CELLS:
        return np.zeros(COPIES)  # so many cells are counted if the signal is large; the product is negligible then
    negatives, positives = (_errors(tree, draw, noise) for tree in (draw.negatives, draw.positives))
    below = np.cumsum(negatives, axis=1) - negatives / 2
    copies: FloatArray = np.tile((positives * below).sum(axis=1), COPIES // CURVE_COPIES)
    return copies


def _unresolved(draw: RocDraw) -> float:
    """Standard deviation of the product of the errors of both classes' distributions inside the counted cells.

    A twenty-fifth of the area of each cell's box in the ROC plot: about what two or three values in a cell, which the
    interpolation takes for many, were seen to make. With very few values, each cell has one (``placements``), and a
    cell of one place has no inside.
    """
    if draw.tied:
        return 0.0
    several = np.diff(np.searchsorted(pair_cuts(draw.grid), draw.cuts)) > 1
    shares = [
        np.where(several, np.maximum(counts, 0.0), 0.0) / max(float(counts.sum()), 1.0)
        for counts in (draw.negatives.counts(), draw.positives.counts())
    ]
    return float(IN_CELL * np.sqrt(((shares[0] * shares[1]) ** 2).sum()))


def _errors(tree: ClassCounts, draw: RocDraw, noise: SeededNoise) -> FloatArray:
    """Copies of the errors of a class's shares in the counted cells."""
    if not isinstance(tree, NoisyTree):
        raise TypeError("the curves of a comparison are counted in trees")
    counts = tree.counts()
    total = max(float(counts.sum()), 1.0)
    spent = draw.spendings[-1].epsilon
    drawn = tree_errors(tree, epsilon=spent, neighbours=draw.neighbours, copies=CURVE_COPIES, noise=noise)
    errors: FloatArray = (drawn - counts / total * drawn.sum(axis=1, keepdims=True)) / total
    return errors


def independent_rows(first: RocCurve, second: RocCurve, *, confidence: float, effect: float = 1.0) -> AreaDifference:
    """The difference for two published curves, as if their rows were independent samples.

    Args:
        first: a defined curve.
        second: another one, of other rows, with independent noise.
        confidence: level of both intervals.
        effect: the design effect of the sampling of each curve's rows.
    """
    (auc, auc_low, auc_high), (other, other_low, other_high) = (_area(curve, confidence) for curve in (first, second))
    value, deviate = auc - other, float(ndtri((1 + confidence) / 2))
    below, above = math.hypot(auc - auc_low, other_high - other), math.hypot(auc_high - auc, other - other_low)
    sampling = effect * deviate**2 * sum(_sampling_variance(curve) for curve in (first, second))
    stddev = math.sqrt(((below + above) / 2) ** 2 + sampling) / deviate
    low, high = value - math.hypot(below, math.sqrt(sampling)), value + math.hypot(above, math.sqrt(sampling))
    return AreaDifference(
        value=value,
        of_rows=_clipped(value - below, value + above),
        of_population=_clipped(low, high),
        p_value=float(2 * ndtr(-abs(value) / stddev)) if stddev > 0 else float(value == 0),
        p_value_floor=0.0,
        sizes=(first.negatives, first.positives),
    )


def _area(curve: RocCurve, confidence: float) -> tuple[float, float, float]:
    """The area, and the ends of its interval at another level, as if its error were normal."""
    auc, (low, high) = (0.5, (0.0, 1.0)) if curve.auc.value is None else (curve.auc.value, curve.auc.ends())
    times = float(ndtri((1 + confidence) / 2) / ndtri((1 + curve.confidence) / 2))
    return auc, auc - times * (auc - low), auc + times * (high - auc)


def _sampling_variance(curve: RocCurve) -> float:
    """DeLong's variance of the area, from the curve."""
    tpr = curve.tpr.value
    auc = area(curve.fpr, tpr)
    of_negatives = area(curve.fpr, tpr**2) - auc**2
    of_positives = area(tpr, (1 - curve.fpr) ** 2) - auc**2
    return max(of_negatives, 0.0) / max(curve.negatives, 1.0) + max(of_positives, 0.0) / max(curve.positives, 1.0)


def _clipped(low: float, high: float) -> tuple[float, float]:
    return max(low, -1.0), min(high, 1.0)
