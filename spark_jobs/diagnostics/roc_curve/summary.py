"""The summary of a draw as a released ROC curve; deterministic post-processing."""

from __future__ import annotations

import math

import numpy as np

from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.diagnostics._simulation import DECIMALS, rounded
from spark_jobs.diagnostics.roc_curve.bands import bands
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw
from spark_jobs.diagnostics.roc_curve.result import RocCurve
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.diagnostics.undefined import publishable


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
        thresholds=np.concatenate([[math.inf], traced.points.cuts / draw.grid]),
        fpr=traced.fpr,
        tpr=traced.tpr,
        tpr_lower=np.minimum(rounded(simulated.lower), traced.tpr),
        tpr_upper=np.maximum(rounded(simulated.upper), traced.tpr),
        tpr_lower_everywhere=np.minimum(rounded(np.minimum(simulated.lower_everywhere, simulated.lower)), traced.tpr),
        tpr_upper_everywhere=np.maximum(rounded(np.maximum(simulated.upper_everywhere, simulated.upper)), traced.tpr),
        tpr_population_lower=np.minimum(rounded(np.minimum(simulated.population_lower, simulated.lower)), traced.tpr),
        tpr_population_upper=np.maximum(rounded(np.maximum(simulated.population_upper, simulated.upper)), traced.tpr),
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
