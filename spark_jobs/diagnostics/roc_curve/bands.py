"""Bands and intervals of a ROC curve, by simulation of the noise from released values alone.

The distribution of the noise is public. Fresh noise is drawn around the released curve, from a seed, and each copy is
post-processed in the same way. The spread of the copies about the released curve stands for the spread of the released
curve about the exact one (Efron's parametric bootstrap, basic intervals). Three further errors are added:

* The order of the rows inside a counted cell is unknown. If it is random, the deviation of the curve from its mean
  course is that of a random path with ``p`` positive and ``q`` negative steps, which is hypergeometric. The area
  deviates like the Mann-Whitney statistic, with variance ``p q (p + q + 1) / 12``.
* Inside a cell the curve may be bent or straight. Half the difference counts as one standard deviation, independently
  in each cell; the variances of the cells add up to that of the area.
* In a cell that holds most of the data, the curve may run anywhere within the cell's box.

Deviations are measured across the curve, at equal FPR + TPR, so that steep and flat parts count alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._simulation import normal, tree_errors
from spark_jobs.diagnostics.roc_curve.histograms import HistogramCells
from spark_jobs.diagnostics.roc_curve.measurement import ClassCounts, RocDraw
from spark_jobs.diagnostics.roc_curve.shape import (
    CurvePoints,
    Edges,
    area,
    areas_of_cells,
    counts_above,
    edges,
    read,
    read_straight,
)
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance

COPIES, COPIES_OF_FULL_GRID = 400, 80
MANY_CELLS = 2_000
UNRESOLVED = 0.4
FLOOR = 0.5
"""Smallest count around which copies are drawn, in standard deviations of its noise: estimates of 0 are uncertain."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bands:
    """Bands of a curve at its points, single and simultaneous, and the interval of its area."""

    lower: FloatArray
    upper: FloatArray
    lower_everywhere: FloatArray
    upper_everywhere: FloatArray
    auc_interval: tuple[float, float]


def bands(draw: RocDraw, curve: Edges, points: CurvePoints, sizes: tuple[float, float], *, seed: int) -> Bands:
    """Bands by simulation; a deterministic function of released values and the seed.

    Args:
        draw: the draw.
        curve: the released curve at the edges of its cells.
        points: the points of the curve.
        sizes: noisy class sizes, negatives first.
        seed: public seed.
    """
    fpr, tpr = read(curve, points, curve.straight)
    noise = SeededNoise(seed)
    shifts, areas = _copies(draw, curve, points, sizes, noise=noise)
    line_fpr, line_tpr = read_straight(curve, points)
    bend = tpr - np.interp(fpr + tpr, line_fpr + line_tpr, line_tpr)
    shifts = shifts + np.hypot(_inner_stddev(curve, points, sizes), bend / 2) * normal(noise, shifts.shape)
    bends = areas_of_cells(fpr, tpr, points) - areas_of_cells(line_fpr, line_tpr, points)
    inner = math.hypot(_inner_area_stddev(curve, sizes), float(np.sqrt((bends**2).sum())) / 2)
    areas = areas + inner * normal(noise, areas.shape)
    tail = (1 - draw.confidence) / 2
    below, above = np.quantile(shifts, [1 - tail, tail], axis=0)
    spread = np.maximum(shifts.std(axis=0), 1e-12)
    reach = np.quantile((np.abs(shifts) / spread).max(axis=1), draw.confidence) * spread + _one_row(curve, sizes)
    box_below, box_above, box_area = _boxes(curve, points)
    middle = area(fpr, tpr)
    low, high = middle - np.quantile(areas, [1 - tail, tail])
    return Bands(
        lower=_across(fpr, tpr, -np.maximum(below, box_below)),
        upper=_across(fpr, tpr, np.maximum(-above, box_above)),
        lower_everywhere=_across(fpr, tpr, -np.maximum(reach, box_below)),
        upper_everywhere=_across(fpr, tpr, np.maximum(reach, box_above)),
        auc_interval=(
            float(np.clip(min(low - box_area, middle), 0.0, 1.0)),
            float(np.clip(max(high + box_area, middle), 0.0, 1.0)),
        ),
    )


def _copies(
    draw: RocDraw, curve: Edges, points: CurvePoints, sizes: tuple[float, float], *, noise: SeededNoise
) -> tuple[FloatArray, FloatArray]:
    """Deviations of simulated curves from the released one: TPR at equal FPR + TPR, and area."""
    exact, drawn = simulated_counts(draw, curve, sizes, noise=noise)
    fpr, tpr = read(edges(curve.cuts, *exact, tied=curve.tied), points, curve.straight)
    copies = drawn[0].shape[0]
    shifts, areas = np.empty((copies, fpr.size)), np.empty(copies)
    for i, (negatives, positives) in enumerate(zip(*drawn, strict=True)):
        copy = edges(curve.cuts, negatives, positives, tied=curve.tied)
        copy_fpr, copy_tpr = read(copy, points, curve.straight)
        shifts[i] = np.interp(fpr + tpr, copy_fpr + copy_tpr, copy_tpr) - tpr
        areas[i] = area(copy_fpr, copy_tpr)
    return shifts, areas - area(fpr, tpr)


def simulated_counts(
    draw: RocDraw, curve: Edges, sizes: tuple[float, float], *, noise: SeededNoise
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Counts of both classes above each edge of a curve, negatives first, and copies with fresh noise.

    Args:
        draw: the draw.
        curve: the released curve, at some or all of the draw's edges.
        sizes: noisy class sizes, negatives first.
        noise: sampler with a public seed.

    Returns:
        The counts around which copies are drawn, each of shape (k,), and the copies, each of shape (copies, k).
    """
    copies = COPIES if draw.cuts.size <= MANY_CELLS else COPIES_OF_FULL_GRID
    floor = FLOOR if curve.cuts.size <= MANY_CELLS else 0.0
    kept = np.searchsorted(-draw.cuts[::-1], -curve.cuts)
    exact, drawn = [], []
    for tree, rates, size in zip((draw.negatives, draw.positives), (curve.fpr, curve.tpr), sizes, strict=True):
        rows = np.maximum(np.diff(rates) * size, floor * np.sqrt(laplace_variance(tree.scale)))
        above = np.concatenate([[0.0], np.cumsum(rows)])
        exact.append(above)
        drawn.append(above + simulated_errors(tree, draw, copies=copies, noise=noise)[:, kept])
    return exact, drawn


def simulated_errors(tree: ClassCounts, draw: RocDraw, *, copies: int, noise: SeededNoise) -> FloatArray:
    """Copies of the noise in the ``counts_above`` of one class; shape (copies, k)."""
    if isinstance(tree, HistogramCells):
        return counts_above(tree.errors(copies, noise))
    cells = tree_errors(
        tree,
        epsilon=draw.spendings[-1].epsilon,
        neighbours=draw.neighbours,
        copies=copies,
        noise=noise,
    )
    return counts_above(cells)


def _inner_stddev(curve: Edges, points: CurvePoints, sizes: tuple[float, float]) -> FloatArray:
    """Standard deviation of the exact curve at each point, for rows of a cell in random order."""
    n0, n1 = sizes
    q, p = np.diff(curve.fpr)[points.cell] * n0, np.diff(curve.tpr)[points.cell] * n1
    rows = p + q
    mixed = points.fraction * (1 - points.fraction) * p * q / np.maximum(rows - 1, 1.0)
    deviation = np.sqrt(mixed) * rows / np.maximum(p * n0 + q * n1, 1e-9)
    return np.concatenate([[0.0], deviation])


def _one_row(curve: Edges, sizes: tuple[float, float]) -> float:
    """Half a step of the exact curve, a staircase, if some cell is wider than one score; otherwise 0."""
    return float((-np.diff(curve.cuts) > 1).any()) * (1 / sizes[0] + 1 / sizes[1]) / 2


def _inner_area_stddev(curve: Edges, sizes: tuple[float, float]) -> float:
    wide = -np.diff(curve.cuts) > 1
    q, p = np.diff(curve.fpr)[wide] * sizes[0], np.diff(curve.tpr)[wide] * sizes[1]
    return float(np.sqrt((p * q * (p + q + 1) / 12).sum()) / (sizes[0] * sizes[1]))


def _boxes(curve: Edges, points: CurvePoints) -> tuple[FloatArray, FloatArray, float]:
    """Distances below and above the curve that it may run inside unresolved cells, and the slack of its area."""
    fpr_step, tpr_step = np.diff(curve.fpr), np.diff(curve.tpr)
    open_cell = (np.diff(curve.depth) > UNRESOLVED) & (-np.diff(curve.cuts) > 1)
    run = points.fraction * (fpr_step + tpr_step)[points.cell]
    course = points.fraction * tpr_step[points.cell]
    lowest = np.maximum(0.0, run - fpr_step[points.cell])
    highest = np.minimum(tpr_step[points.cell], run)
    inside = open_cell[points.cell]
    below = np.where(inside, course - lowest, 0.0)
    above = np.where(inside, highest - course, 0.0)
    slack = float((fpr_step * tpr_step / 2)[open_cell].sum())
    return np.concatenate([[0.0], below]), np.concatenate([[0.0], above]), slack


def _across(fpr: FloatArray, tpr: FloatArray, shift: FloatArray) -> FloatArray:
    """TPR at ``fpr`` of the curve after a shift across itself: up and left if positive, down and right if negative."""
    moved_fpr = np.maximum.accumulate(np.clip(fpr - shift, 0.0, 1.0))
    moved_tpr = np.maximum.accumulate(np.clip(tpr + shift, 0.0, 1.0))
    up = bool((shift >= 0).all())
    moved = np.interp(fpr, moved_fpr, moved_tpr, left=0.0 if not up else None, right=1.0 if up else None)
    return np.maximum(moved, tpr) if up else np.minimum(moved, tpr)
