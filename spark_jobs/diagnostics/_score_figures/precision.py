"""Average precision from noisy counts of both classes.

A cell that is one score counts as scikit-learn counts tied rows: all its positives at the precision of its end. In a
wider cell the order of rows is unseen; if it is random, both classes thin out evenly, and the precision of its
positives averages to an integral with a closed form.
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
UNSEEN = 0.12
"""Chosen so that nine tenths of 90 % intervals hold over tables of several shapes.

See ``docs/explanation/mechanisms/auc.md``.
"""


def precision_from_counts(measurement: RocDraw, traced: Trace, *, seed: int) -> tuple[float, tuple[float, float]]:
    """The figure and its interval, by seeded simulation of the noise, of a curve that is defined.

    Args:
        measurement: the noisy counts.
        traced: the curve they make.
        seed: public.
    """
    value = precision_of_curve(traced.edges, traced.sizes)
    copies = _copies(measurement, traced, seed=seed)
    unseen = _unseen_stddev(traced.edges, traced.sizes)
    shifts = copies[1:] - copies[0] + unseen * normal(SeededNoise(seed), copies[1:].shape)
    tail = (1 - measurement.confidence) / 2
    below, above = np.quantile(shifts, [1 - tail, tail])
    return value, (float(np.clip(value - below, 0, 1)), float(np.clip(value - above, 0, 1)))


def _copies(measurement: RocDraw, traced: Trace, *, seed: int) -> FloatArray:
    """The figure of the counts that copies are drawn about, and then of each copy."""
    exact, drawn = simulated_counts(measurement, traced.edges, traced.sizes, noise=SeededNoise(seed))
    pairs = [exact, *zip(*drawn, strict=True)]
    figures = []
    for negatives, positives in pairs:
        copy = edges(traced.edges.cuts, negatives, positives, tied=traced.edges.tied)
        figures.append(precision_of_curve(copy, (max(negatives[-1], 1.0), max(positives[-1], 1.0))))
    return np.array(figures)


def _unseen_stddev(curve: Edges, sizes: tuple[float, float]) -> float:
    """What the order of rows inside the counted cells, which nothing measured, may add.

    In each wide cell the figure lies between those of all negatives first and all positives first; a share
    ``UNSEEN`` of that range counts as one standard deviation of the cell's own.
    """
    false, true = curve.fpr * sizes[0], curve.tpr * sizes[1]
    p, q = np.diff(true), np.diff(false)
    t, f, wide = true[:-1], false[:-1], -np.diff(curve.cuts) > 1
    best = _positives_first(t, f, p)
    worst = _positives_first(t, f + q, p)
    return float(UNSEEN * np.sqrt((np.where(wide, best - worst, 0.0) ** 2).sum()) / max(true[-1], 1.0))


def _positives_first(t: FloatArray, f: FloatArray, p: FloatArray) -> FloatArray:
    """The integral over x in (0, p) of (t + x) / (t + f + x)."""
    start = np.maximum(t + f, 1e-9)
    return p - f * np.log1p(p / start)


def precision_of_curve(curve: Edges, sizes: tuple[float, float]) -> float:
    """The figure that a curve and its class sizes, negatives first, make."""
    points = choose_points(curve, min(max(FINE_POINTS, curve.cuts.size - 1), int(curve.cuts[0])))
    fpr, tpr = read(curve, points, curve.straight)
    below = np.append(curve.cuts[0], points.cuts)
    tied = -np.diff(below) == 1
    return float(average_precision_of(fpr * sizes[0], tpr * sizes[1], tied))


def average_precision_of(false: FloatArray, true: FloatArray, tied: BoolArray) -> FloatArray:
    """Average precision of courses of counts: false and true positives above falling thresholds, from (0, 0).

    Args:
        false: never falling along the last axis; shape (..., k + 1).
        true: the same.
        tied: whether each step is of one score; shape (k,).
    """
    p, q = np.diff(true), np.diff(false)
    t, rows = true[..., :-1], true[..., :-1] + false[..., :-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        at_end = np.where(p > 0, p * (t + p) / (rows + p + q), 0.0)
        # integral over x in (0, p) of (t + x) / (rows + c x), c = 1 + q / p
        c = 1 + q / p
        growth = np.log1p(c * p / rows)
        inside = p / c + (t - rows / c) / c * growth
        starting = p / c  # nothing above: the precision is constant
        spread = np.where(p > 0, np.where(rows > 0, inside, starting), 0.0)
        mean = np.where(tied, at_end, spread).sum(axis=-1) / true[..., -1]
    return np.asarray(np.where(true[..., -1] > 0, np.clip(mean, 0.0, 1.0), 0.0), dtype=np.float64)
