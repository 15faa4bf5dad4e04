"""The summary of a draw as a released ROC curve; deterministic post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, UNDEFINED
from spark_jobs.diagnostics._simulation import DECIMALS, rounded
from spark_jobs.diagnostics.roc_curve.bands import Bands, bands
from spark_jobs.diagnostics.roc_curve.histograms import HistogramCells
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.roc_curve.result import RocCurve
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
from spark_jobs.diagnostics.roc_curve.smoothing_prior import expected_counts, has_prior
from spark_jobs.diagnostics.undefined import publishable

RESOLVED, MIN_CELLS = 5.0, 4
"""Smallest distance of edges, in standard errors of a count, and the number of cells that are kept at any noise."""


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


def trace(draw: RocDraw, *, raw: bool = False) -> Trace:
    """The curve of a draw; the diagonal if it is undefined.

    Args:
        draw: the draw.
        raw: whether to use raw counts, without ``smoothing_prior``, which takes longer.
    """
    counts = draw.negatives.counts(), draw.positives.counts()
    sizes = float(counts[0].sum()), float(counts[1].sum())
    noise = math.sqrt(draw.negatives.range_variance(0, draw.cuts.size - 1))
    defined = min(sizes) >= max(1.0, DEFINED_ABOVE * noise)
    if not defined:
        curve = _diagonal(draw)
    elif raw or not has_prior(draw):
        curve = _course(draw, *map(counts_above, counts))
    else:
        above = counts_above(expected_counts(draw))
        curve = edges(draw.cuts[::-1], above[0], above[1], tied=False)
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


def _course(draw: RocDraw, negatives: FloatArray, positives: FloatArray) -> Edges:
    cuts = draw.cuts[::-1]
    curve = edges(cuts, negatives, positives, tied=draw.tied)
    counts = draw.negatives
    if draw.method not in ("auto", "tree") or isinstance(counts, HistogramCells):
        return curve
    error = math.sqrt(float(counts.prefix_variances()[1:].mean()))
    rows = max(negatives[-1] + positives[-1], 1.0)
    cells = math.ceil(min(rows / (RESOLVED * error), float(cuts.size))) if error > 0 else cuts.size
    if max(cells, MIN_CELLS) >= cuts.size - 1:
        return curve
    kept = evenly_deep(curve, max(cells, MIN_CELLS))
    return edges(cuts[kept], negatives[kept], positives[kept], tied=draw.tied)


def _diagonal(draw: RocDraw) -> Edges:
    rate = np.linspace(0.0, 1.0, draw.cuts.size)
    return Edges(cuts=draw.cuts[::-1], fpr=rate, tpr=rate, tied=False)


def summarise(draw: RocDraw, *, seed: int) -> RocCurve:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind bands and intervals.
    """
    traced = trace(draw)
    if traced.defined and draw.noise_is_known:
        simulated = bands(draw, traced.edges, traced.points, traced.sizes, seed=seed)
    else:
        simulated = _widest_bands(traced.fpr.size)
    low, high = (round(end, DECIMALS) for end in simulated.auc_interval)
    curve = RocCurve(
        thresholds=np.concatenate([[math.inf], traced.points.cuts / draw.grid]),
        fpr=traced.fpr,
        tpr=traced.tpr,
        tpr_lower=np.minimum(rounded(simulated.lower), traced.tpr),
        tpr_upper=np.maximum(rounded(simulated.upper), traced.tpr),
        tpr_lower_everywhere=np.minimum(rounded(np.minimum(simulated.lower_everywhere, simulated.lower)), traced.tpr),
        tpr_upper_everywhere=np.maximum(rounded(np.maximum(simulated.upper_everywhere, simulated.upper)), traced.tpr),
        auc=traced.auc,
        auc_interval=(min(low, traced.auc), max(high, traced.auc)),
        positives=round(max(traced.sizes[1], 0.0), DECIMALS),
        negatives=round(max(traced.sizes[0], 0.0), DECIMALS),
        status=OK if traced.defined else UNDEFINED,
        confidence=draw.confidence,
        epsilon=draw.epsilon,
        neighbours=draw.neighbours,
        guarantee=draw.guarantee,
    )
    return publishable("roc_curve", curve)


def _widest_bands(size: int) -> Bands:
    none, all_ = np.zeros(size), np.ones(size)
    return Bands(lower=none, upper=all_, lower_everywhere=none, upper_everywhere=all_, auc_interval=(0.0, 1.0))
