"""Average precision from noisy counts of both classes.

In a cell of one score, all positives have the precision at its lower end, as tied rows have in scikit-learn. In a wider
cell the order of the rows is unknown. If it is random, the mean precision of its positives is an integral with a closed
form.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.diagnostics._simulation import normal
from spark_jobs.diagnostics.roc_curve.bands import simulated_counts
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.roc_curve.shape import Edges, choose_points, edges, read
from spark_jobs.diagnostics.roc_curve.summary import Trace
from spark_jobs.mechanisms.noise import SeededNoise

FINE_POINTS = 1_024
UNKNOWN_ORDER = 0.12
"""Chosen so that 90 % intervals have their nominal coverage on tables of several shapes.

See ``docs/explanation/mechanisms/auc.md``.
"""


def precision_from_counts(draw: RocDraw, traced: Trace, *, seed: int) -> tuple[float, tuple[float, float]]:
    """The average precision of a defined curve, with its interval by seeded simulation of the noise.

    Args:
        draw: the noisy counts.
        traced: their curve.
        seed: public seed of the simulation.
    """
    value = precision_of_curve(traced.edges, traced.sizes)
    copies = _copies(draw, traced, seed=seed)
    order = _order_stddev(traced.edges, traced.sizes)
    shifts = copies[1:] - copies[0] + order * normal(SeededNoise(seed), copies[1:].shape)
    tail = (1 - draw.confidence) / 2
    below, above = np.quantile(shifts, [1 - tail, tail])
    return value, (float(np.clip(value - below, 0, 1)), float(np.clip(value - above, 0, 1)))


def _copies(draw: RocDraw, traced: Trace, *, seed: int) -> FloatArray:
    """The figure of the counts that copies are drawn about, followed by the figures of the copies."""
    exact, drawn = simulated_counts(draw, traced.edges, traced.sizes, noise=SeededNoise(seed))
    pairs = [exact, *zip(*drawn, strict=True)]
    figures = []
    for negatives, positives in pairs:
        copy = edges(traced.edges.cuts, negatives, positives, tied=traced.edges.tied)
        figures.append(precision_of_curve(copy, (max(negatives[-1], 1.0), max(positives[-1], 1.0))))
    return np.array(figures)


def _order_stddev(curve: Edges, sizes: tuple[float, float]) -> float:
    """Standard deviation of the figure through the unknown order of rows inside counted cells.

    In each wide cell the figure lies between that of all negatives first and that of all positives first. A share
    ``UNKNOWN_ORDER`` of this range counts as the standard deviation of the cell.
    """
    false, true = curve.fpr * sizes[0], curve.tpr * sizes[1]
    p, q = np.diff(true), np.diff(false)
    t, f, wide = true[:-1], false[:-1], -np.diff(curve.cuts) > 1
    best = _positives_first(t, f, p)
    worst = _positives_first(t, f + q, p)
    return float(UNKNOWN_ORDER * np.sqrt((np.where(wide, best - worst, 0.0) ** 2).sum()) / max(true[-1], 1.0))


def _positives_first(t: FloatArray, f: FloatArray, p: FloatArray) -> FloatArray:
    """The integral over x in (0, p) of (t + x) / (t + f + x)."""
    start = np.maximum(t + f, 1e-9)
    return p - f * np.log1p(p / start)


def precision_of_curve(curve: Edges, sizes: tuple[float, float]) -> float:
    """The average precision of a curve with these class sizes, negatives first."""
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
