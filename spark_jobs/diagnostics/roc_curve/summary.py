"""From a draw to a released curve: deterministic, and free of charge."""

from __future__ import annotations

import math

import numpy as np

from spark_jobs.diagnostics.roc_curve.bands import Bands, bands
from spark_jobs.diagnostics.roc_curve.measurement import Measurement
from spark_jobs.diagnostics.roc_curve.result import RocCurve
from spark_jobs.diagnostics.roc_curve.shape import Edges, area, choose_points, edges, falling_counts, read
from spark_jobs.mechanisms.trees import FloatArray

_DECIMALS = 9
"""Digits kept of what is published: below any noise, above the differences between machines' last bits."""


def summarise(measurement: Measurement, *, seed: int) -> RocCurve:
    """The curve that a measurement makes; the same measurement and seed give the same curve.

    Args:
        measurement: the draw.
        seed: of the simulations behind bands and intervals; public.
    """
    negatives, positives = measurement.negatives.counts(), measurement.positives.counts()
    sizes = float(negatives.sum()), float(positives.sum())
    defined = min(sizes) >= 1.0
    falling = [falling_counts(counts) for counts in (negatives, positives)] if defined else []
    curve = edges(measurement.cuts, *falling, tied=measurement.tied) if defined else _diagonal(measurement)
    points = choose_points(curve, measurement.thresholds)
    fpr, tpr = (_tidy(rate) for rate in read(curve, points, curve.straight))
    found = (
        bands(measurement, curve, points, (falling[0][-1], falling[1][-1]), seed=seed)
        if defined
        else _anything(fpr.size)
    )
    auc = area(fpr, tpr) if defined else 0.5
    low, high = found.auc_interval
    return RocCurve(
        thresholds=np.concatenate([[math.inf], points.cuts / measurement.grid]),
        fpr=fpr,
        tpr=tpr,
        tpr_lower=np.minimum(_tidy(found.lower), tpr),
        tpr_upper=np.maximum(_tidy(found.upper), tpr),
        tpr_lower_everywhere=np.minimum(_tidy(np.minimum(found.lower_everywhere, found.lower)), tpr),
        tpr_upper_everywhere=np.maximum(_tidy(np.maximum(found.upper_everywhere, found.upper)), tpr),
        auc=round(auc, _DECIMALS),
        auc_interval=(round(min(low, auc), _DECIMALS), round(max(high, auc), _DECIMALS)),
        positives=round(max(sizes[1], 0.0), _DECIMALS),
        negatives=round(max(sizes[0], 0.0), _DECIMALS),
        status="ok" if defined else "undefined",
        confidence=measurement.confidence,
        epsilon=measurement.epsilon,
        neighbours=measurement.neighbours,
        guarantee=measurement.guarantee,
    )


def _diagonal(measurement: Measurement) -> Edges:
    cuts = measurement.cuts[::-1]
    rate = np.linspace(0.0, 1.0, cuts.size)
    return Edges(cuts=cuts, fpr=rate, tpr=rate, tied=False)


def _anything(size: int) -> Bands:
    none, all_ = np.zeros(size), np.ones(size)
    return Bands(lower=none, upper=all_, lower_everywhere=none, upper_everywhere=all_, auc_interval=(0.0, 1.0))


def _tidy(rate: FloatArray) -> FloatArray:
    return np.round(rate, _DECIMALS)
