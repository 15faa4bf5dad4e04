"""A private ROC curve with its area, a band and an interval, from counts of both classes on a grid of scores."""

from __future__ import annotations

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.roc_curve.measurement import SECURE, Measurement, measure
from spark_jobs.diagnostics.roc_curve.result import RocCurve
from spark_jobs.diagnostics.roc_curve.summary import summarise
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.statistics import ScoreCounts

__all__ = ["Measurement", "RocCurve", "measure", "release", "summarise"]


def release(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    thresholds: int | None = None,
    confidence: float = 0.9,
) -> RocCurve:
    """Measure and summarise in one call."""
    measurement = measure(
        statistic,
        epsilon=epsilon,
        neighbours=neighbours,
        noise=noise,
        method=method,
        thresholds=thresholds,
        confidence=confidence,
    )
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
