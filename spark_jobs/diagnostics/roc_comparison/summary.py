"""From two draws to two curves and their comparison: deterministic, and free of charge."""

from __future__ import annotations

from spark_jobs.diagnostics import roc_curve
from spark_jobs.diagnostics.roc_comparison.measurement import ComparisonDraw
from spark_jobs.diagnostics.roc_comparison.result import RocComparison


def summarise(measurement: ComparisonDraw, *, seed: int) -> RocComparison:
    """The comparison that a measurement makes; the same measurement and seed give the same one.

    Args:
        measurement: the draws.
        seed: of the simulations; public.
    """
    return RocComparison(
        first=roc_curve.summarise(measurement.first, seed=seed),
        second=roc_curve.summarise(measurement.second, seed=seed + 1),
        comparison=roc_curve.compare(measurement.first, measurement.second, rows="same", seed=seed),
    )
