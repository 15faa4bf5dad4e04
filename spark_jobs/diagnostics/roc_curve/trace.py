"""The curve of a draw, without bands: its edges, points and area; deterministic post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import DECIMALS
from spark_jobs.diagnostics._simulation import rounded
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.roc_curve.histograms import HistogramCells
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.roc_curve.posterior import expected_counts, noise_precision, trees_of
from spark_jobs.diagnostics.roc_curve.shape import (
    CurvePoints,
    Edges,
    area,
    choose_points,
    counts_above,
    edges,
    evenly_deep,
    read,
)
from spark_jobs.mechanisms.prefix_sums import NoisyTree

RESOLVED, MIN_CELLS = 5.0, 4
"""Smallest distance of edges, in standard errors of a count, and the number of cells that are kept at any noise."""
DISAGREES = 1.0
"""Standard deviations of its noise by which the area of raw counts may differ from that of the posterior."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """A curve without its bands.

    Attributes:
        edges: the curve at the edges of the counted cells.
        points: its points.
        fpr, tpr: its rates at the points.
        auc: area under the curve.
        sizes: noisy class sizes, negatives first; unbiased, possibly negative.
        defined: whether both sizes are at least 1, and at least three standard deviations of their noise.
    """

    edges: Edges
    points: CurvePoints
    fpr: FloatArray
    tpr: FloatArray
    auc: float
    sizes: tuple[float, float]
    defined: bool


def trace(draw: RocDraw, *, raw: bool = False, resolve_rarer: bool = False) -> Trace:
    """The curve of a draw; the diagonal if it is undefined.

    Args:
        draw: the draw.
        raw: whether the curve is computed from the noisy counts as drawn, without the posterior of the counts
            (``posterior``). This is faster, as the posterior takes long.
        resolve_rarer: whether edges stay so far apart that counts of the rarer class exceed their noise, too. Figures
            at a single place of the curve need this; an area is more accurate without it.
    """
    counts = draw.negatives.counts(), draw.positives.counts()
    noisy = ClassSizes.of_counts(draw.negatives, draw.positives)
    sizes, defined = (noisy.negatives, noisy.positives), noisy.are_known
    trees = None if raw else trees_of(draw)
    if not defined:
        curve = _diagonal(draw)
    elif trees is None:
        curve = _course(draw, *map(counts_above, counts), resolve_rarer=resolve_rarer)
    else:
        above = counts_above(_estimated(trees))
        curve = edges(draw.cuts[::-1], above[0], above[1], tied=draw.tied, steps=draw.steps)
    points = choose_points(curve, draw.thresholds)
    fpr, tpr = (rounded(rate) for rate in read(curve, points, curve.straight))
    auc = area(fpr, tpr) if defined else 0.5
    return Trace(
        edges=curve,
        points=points,
        fpr=fpr,
        tpr=tpr,
        auc=round(auc, DECIMALS),
        sizes=sizes,
        defined=defined,
    )


def _estimated(trees: tuple[NoisyTree, NoisyTree]) -> FloatArray:
    """Counts of both classes by their posterior, moved towards raw ones as far as their areas disagree; shape (2, k).

    The area of the result is at most about ``DISAGREES`` standard deviations of noise from that of the raw counts,
    which is unbiased (limited translation: Efron, Morris, JASA 1972).
    """
    counts = np.stack([tree.counts() for tree in trees])
    expected = expected_counts(counts, noise_precision(trees[0]))
    sizes = expected.sum(axis=-1, keepdims=True)
    below, above = (np.cumsum(rows) - rows / 2 for rows in (expected[0], expected[1, ::-1]))
    changes = np.stack([above[::-1] / sizes[1], below / sizes[0]])
    changes = (changes - (changes * expected).sum(axis=-1, keepdims=True) / sizes) / sizes
    off = float(((counts - expected) * changes).sum())
    noise = math.sqrt(sum(tree.variance(change) for tree, change in zip(trees, changes, strict=True)))
    part = max(0.0, 1.0 - DISAGREES * noise / max(abs(off), 1e-12))
    moved: FloatArray = expected + part * (counts - expected)
    return moved


def _course(draw: RocDraw, negatives: FloatArray, positives: FloatArray, *, resolve_rarer: bool) -> Edges:
    cuts = draw.cuts[::-1]
    curve = edges(cuts, negatives, positives, tied=draw.tied, steps=draw.steps)
    counts = draw.negatives
    if draw.method not in ("auto", "tree") or isinstance(counts, HistogramCells):
        return curve
    error = math.sqrt(float(counts.prefix_variances()[1:].mean()))
    sizes = negatives[-1], positives[-1]
    rows = max(2 * min(sizes) if resolve_rarer else sum(sizes), 1.0)
    cells = math.ceil(min(rows / (RESOLVED * error), float(cuts.size))) if error > 0 else cuts.size
    if max(cells, MIN_CELLS) >= cuts.size - 1:
        return curve
    kept = evenly_deep(curve, max(cells, MIN_CELLS))
    return edges(cuts[kept], negatives[kept], positives[kept], tied=draw.tied, steps=draw.steps)


def _diagonal(draw: RocDraw) -> Edges:
    rate = np.linspace(0.0, 1.0, draw.cuts.size)
    return Edges(cuts=draw.cuts[::-1], fpr=rate, tpr=rate, tied=False)


def sampling_variance(traced: Trace) -> float:
    """DeLong's variance of the area over samples of rows, from the curve (DeLong, DeLong, Clarke-Pearson 1988)."""
    over_negatives = area(traced.fpr, traced.tpr**2) - traced.auc**2
    over_positives = area(traced.tpr, (1 - traced.fpr) ** 2) - traced.auc**2
    negatives, positives = (max(1.0, size) for size in traced.sizes)
    return max(over_negatives, 0.0) / negatives + max(over_positives, 0.0) / positives
