"""Average precision from noisy counts of both classes.

In a cell that holds a single score, all positives have the precision at the cell's lower end, as tied rows have in
scikit-learn. If scores seem to take few values, every cell is treated as a single score. In a wider cell the order of
the rows is unknown: it is taken as random, and the mean precision of the positives is then an integral with a closed
form.
"""

from __future__ import annotations

import math

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.figure import Figure
from spark_jobs.diagnostics._simulation import normal, with_intervals
from spark_jobs.diagnostics.roc_curve.bands import exact_copies
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.roc_curve.shape import Edges, choose_points, read
from spark_jobs.diagnostics.roc_curve.trace import Trace
from spark_jobs.mechanisms.noise import SeededNoise

FINE_POINTS = 1_024
SMOOTHED = 0.1
"""The part of all ties that an interval allows for at least: to second order, counts that are smoothed move the figure
by more than their influences say."""
UNKNOWN_ORDER, POSITIVES_FIRST = 0.12, 0.5
"""Chosen so that 90 % intervals have their nominal coverage on tables of several shapes; the second, on tables drawn at
random with 100 and 300 positives, in whose highest cell the positives often come first.

See ``docs/explanation/mechanisms/auc.md``.
"""


def precision_from_counts(draw: RocDraw, traced: Trace, *, seed: int, effect: float = 1.0) -> Figure[float]:
    """The average precision of a defined curve, with its intervals.

    Near the released counts the figure is linear in the rows: errors of the counts move the figure by the sum of each
    error times its influence. The errors are simulated as the released counts less possible exact counts, which are the
    noisy counts, as drawn, less fresh noise. As the noisy counts are unbiased, this includes the bias of the released
    counts.

    Args:
        draw: the noisy counts.
        traced: their curve.
        seed: public seed of the simulation.
        effect: the design effect of the sampling.
    """
    curve, noise = traced.edges, SeededNoise(seed)
    value = precision_of_curve(curve, traced.sizes)
    sizes = zip((curve.fpr, curve.tpr), traced.sizes, strict=True)
    rows = np.stack([np.diff(rates)[::-1] * size for rates, size in sizes])
    cuts, alone = curve.cuts[::-1], curve.alone[::-1]
    copies = exact_copies(draw, curve, noise=noise)
    of_classes = [
        (estimate - np.diff(above)[:, ::-1]) @ change
        for above, estimate, change in zip(copies, rows, influence(rows, cuts, alone), strict=True)
    ]
    errors = np.sum(of_classes, axis=0)
    below, above = _order_stddevs(curve, traced.sizes)
    order = normal(noise, errors.shape)
    errors = errors + np.where(order > 0, below, above) * order
    sampling = math.sqrt(effect * sampling_variance(rows, cuts, alone))
    return with_intervals(value, errors, sampling=sampling, confidence=draw.confidence)


def sampling_variance(rows: FloatArray, cuts: Int64Array, alone: BoolArray | None = None) -> float:
    """Variance of the figure over samples of rows, by the infinitesimal jackknife (Efron 1982).

    Args:
        rows: rows of both classes in the cells; shape (2, k), ascending scores.
        cuts: the cells.
        alone: whether each cell is a single score, as for ``influence``.
    """
    return float((rows * influence(rows, cuts, alone) ** 2).sum())


def influence(rows: FloatArray, cuts: Int64Array, alone: BoolArray | None = None) -> FloatArray:
    """The change of the average precision when one row is added to each cell; shape (2, k), ascending scores.

    A row changes the precision of all positives with lower scores, and of half the positives in its own cell if the
    cell holds several scores. A positive row also adds its own precision.

    Args:
        rows: rows of both classes in the cells, not negative; shape (2, k), ascending scores.
        cuts: the cells.
        alone: whether each cell is a single score; by default, cells of width 1 on the grid are.
    """
    alone = np.diff(cuts) == 1 if alone is None else alone
    negatives, positives = rows[0, ::-1], rows[1, ::-1]
    # in random order, the positives of a cell lie at its middle on average
    part = np.where(alone[::-1], 0.0, 0.5)
    true = np.cumsum(positives) - part * positives
    all_ = np.maximum(true + np.cumsum(negatives) - part * negatives, 0.5)

    def below(values: FloatArray) -> FloatArray:
        return np.cumsum(values[::-1])[::-1] - part * values

    size = max(float(positives.sum()), 1.0)
    figure = float((positives * true / all_).sum()) / size
    lost = -below(positives * true / all_**2)
    won = true / all_ - figure + below(positives * (all_ - true) / all_**2)
    influences: FloatArray = np.stack([lost[::-1], won[::-1]]) / size
    return influences


def _order_stddevs(curve: Edges, sizes: tuple[float, float]) -> tuple[float, float]:
    """Standard deviations of the exact figure, below and above the released one, by the order of rows inside cells.

    In each wide cell the figure lies between that of all negatives first and that of all positives first. A share
    ``UNKNOWN_ORDER`` of this range counts as the standard deviation of the cell below, and ``POSITIVES_FIRST`` above,
    as scores of a model that ranks well rise inside a cell too. If scores seem to take few values, so does half the
    difference of the figure from that without ties in these cells.
    """
    false, true = curve.fpr * sizes[0], curve.tpr * sizes[1]
    p, q = np.diff(true), np.diff(false)
    t, f, wide = true[:-1], false[:-1], ~curve.alone
    best = _positives_first(t, f, p)
    worst = _positives_first(t, f + q, p)
    inside = float(np.sqrt((np.where(wide, best - worst, 0.0) ** 2).sum()) / max(true[-1], 1.0))
    of_ties = 0.0
    if curve.tied:
        none, tied, beside = (
            average_precision_of(false, true, one) for one in (np.zeros_like(wide), np.ones_like(wide), ~wide)
        )
        of_ties = max(float(beside - tied), SMOOTHED * float(none - tied) if wide.any() else 0.0) / 2
    return math.hypot(UNKNOWN_ORDER * inside, of_ties), math.hypot(POSITIVES_FIRST * inside, of_ties)


def _positives_first(t: FloatArray, f: FloatArray, p: FloatArray) -> FloatArray:
    """The integral over x in (0, p) of (t + x) / (t + f + x)."""
    start = np.maximum(t + f, 1e-9)
    return p - f * np.log1p(p / start)


def precision_of_curve(curve: Edges, sizes: tuple[float, float]) -> float:
    """The average precision of a curve with these class sizes, negatives first."""
    if curve.tied:
        false, true = curve.fpr * sizes[0], curve.tpr * sizes[1]
        return float(average_precision_of(false, true, np.ones(true.size - 1, dtype=np.bool_)))
    points = choose_points(curve, min(max(FINE_POINTS, curve.cuts.size - 1), int(curve.cuts[0])))
    fpr, tpr = read(curve, points, curve.straight)
    below = np.append(curve.cuts[0], points.cuts)
    tied = -np.diff(below) == 1
    return float(average_precision_of(fpr * sizes[0], tpr * sizes[1], tied))


def average_precision_of(false: FloatArray, true: FloatArray, tied: BoolArray) -> FloatArray:
    """Average precision from counts of false and true positives at falling thresholds, starting at (0, 0).

    Args:
        false: false positives, never falling along the last axis; shape (..., k + 1).
        true: true positives, likewise.
        tied: whether each step is a single score; shape (k,).
    """
    p, q = np.diff(true), np.diff(false)
    t, rows = true[..., :-1], true[..., :-1] + false[..., :-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        at_end = np.where(p > 0, p * (t + p) / (rows + p + q), 0.0)
        # integral over x in (0, p) of (t + x) / (rows + c x), c = 1 + q / p
        c = 1 + q / p
        growth = np.log1p(c * p / rows)
        inside = p / c + (t - rows / c) / c * growth
        starting = p / c  # no rows above: the precision is constant
        spread = np.where(p > 0, np.where(rows > 0, inside, starting), 0.0)
        mean = np.where(tied, at_end, spread).sum(axis=-1) / true[..., -1]
    return np.asarray(np.where(true[..., -1] > 0, np.clip(mean, 0.0, 1.0), 0.0), dtype=np.float64)
