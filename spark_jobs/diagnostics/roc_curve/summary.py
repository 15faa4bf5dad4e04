"""The summary of a draw as a released ROC curve; deterministic post-processing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import DECIMALS, PARTS, Ends, Figure, Numbers, Part
from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.results.curves import RocCurve
from spark_jobs.diagnostics._score_ends import AtEnds
from spark_jobs.diagnostics._simulation import rounded
from spark_jobs.diagnostics.roc_curve.bands import bands
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.score_grid import edges_of


def summarise(draw: RocDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> RocCurve:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind bands and intervals.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    traced = trace(draw)
    curve, area = bands(draw, traced, seed=seed, sampling=sampling)
    at_ends = AtEnds.of_counts(draw, draw.negatives, draw.positives)
    widened = at_ends.widened(area)
    return RocCurve(
        thresholds=np.concatenate([[math.inf], edges_of(draw.grid)[traced.points.cuts]]),
        fpr=traced.fpr,
        tpr=_nested(curve),
        auc=replace(
            area,
            interval=_around(widened.ends(), traced.auc),
            population=_around(widened.ends("population"), traced.auc),
        ),
        positives=round(max(traced.sizes[1], 0.0), DECIMALS),
        negatives=round(max(traced.sizes[0], 0.0), DECIMALS),
        status=at_ends.status(area) if traced.defined else UNDEFINED,
        at_ends=at_ends.share,
        confidence=draw.confidence,
        **draw.stated,
    )


def _around(ends: Ends[float], value: float) -> Ends[float]:
    return Ends(min(ends.lower, value), max(ends.upper, value))


def _nested(curve: Numbers) -> Numbers:
    """The curve with bands that contain it and the bands that claim less."""
    ends: dict[Part, list[FloatArray]] = {of: [] for of in PARTS}
    for end, outer in enumerate((np.minimum, np.maximum)):
        inner = outer(rounded(curve.ends()[end]), curve.value)
        everywhere, population = (outer(rounded(curve.ends(of)[end]), inner) for of in ("everywhere", "population"))
        both = outer(rounded(curve.ends("population_everywhere")[end]), outer(everywhere, population))
        for of, line in zip(PARTS, (inner, everywhere, population, both), strict=True):
            ends[of].append(line)
    fields: dict[str, Any] = {of: Ends(*pair) for of, pair in ends.items()}
    return Figure(value=curve.value, **fields)
