"""The summary of a draw as a released ROC curve; deterministic post-processing."""

from __future__ import annotations

import math

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.diagnostics._simulation import DECIMALS, rounded
from spark_jobs.diagnostics.roc_curve.bands import Bands, bands
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.roc_curve.result import RocCurve
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.diagnostics.undefined import publishable
from spark_jobs.score_grid import edges_of


def summarise(draw: RocDraw, *, seed: int) -> RocCurve:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind bands and intervals.
    """
    traced = trace(draw)
    simulated = bands(draw, traced, seed=seed)
    (low, high), (lowest, highest) = simulated.area.noise, simulated.area.population
    curve = RocCurve(
        thresholds=np.concatenate([[math.inf], edges_of(draw.grid)[traced.points.cuts]]),
        fpr=traced.fpr,
        tpr=traced.tpr,
        **_nested(simulated, traced.tpr),
        auc=traced.auc,
        auc_interval=(min(low, traced.auc), max(high, traced.auc)),
        auc_population_interval=(min(lowest, traced.auc), max(highest, traced.auc)),
        auc_privacy_share=simulated.area.privacy_share,
        positives=round(max(traced.sizes[1], 0.0), DECIMALS),
        negatives=round(max(traced.sizes[0], 0.0), DECIMALS),
        status=OK if traced.defined else UNDEFINED,
        confidence=draw.confidence,
        epsilon=draw.epsilon,
        neighbours=draw.neighbours,
        guarantee=draw.guarantee,
    )
    return publishable("roc_curve", curve)


def _nested(simulated: Bands, tpr: FloatArray) -> dict[str, FloatArray]:
    """Both ends of each band, which contains the curve and the bands that claim less."""
    ends: dict[str, FloatArray] = {}
    for end, outer in (("lower", np.minimum), ("upper", np.maximum)):
        inner = outer(rounded(getattr(simulated, end)), tpr)
        everywhere, population = (
            outer(rounded(getattr(simulated, name)), inner) for name in (f"{end}_everywhere", f"population_{end}")
        )
        both = outer(everywhere, population)
        ends |= {
            f"tpr_{end}": inner,
            f"tpr_{end}_everywhere": everywhere,
            f"tpr_population_{end}": population,
            f"tpr_population_{end}_everywhere": outer(
                rounded(getattr(simulated, f"population_{end}_everywhere")), both
            ),
        }
    return ends
