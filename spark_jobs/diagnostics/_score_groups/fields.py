"""The fields that released binned residuals and calibrations share: bins, their pools, and the terms of the release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.diagnostics._populations import privacy_share
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw
from spark_jobs.diagnostics._score_groups.pools import Pools
from spark_jobs.diagnostics._simulation import rounded
from spark_jobs.score_grid import edges_of


def shared_fields(draw: GroupsDraw, pooled: Pools, *, zone: tuple[FloatArray, FloatArray]) -> dict[str, Any]:
    """The fields that binned residuals and calibrations share; a pool's values are repeated for each of its bins.

    Args:
        draw: the draw.
        pooled: its pools.
        zone: ends of the zone of each pool.
    """
    released, edges = pooled.released, edges_of(draw.groups.grid)[draw.bins]
    rows = released.positives + released.negatives
    return {
        "status": OK if pooled.defined else UNDEFINED,
        "confidence": draw.confidence,
        "positives": rounded_number(max(float(released.positives.sum()), 0.0)),
        "negatives": rounded_number(max(float(released.negatives.sum()), 0.0)),
        "epsilon": draw.epsilon,
        "neighbours": draw.neighbours,
        "guarantee": draw.guarantee,
        "lower": edges[:-1],
        "upper": edges[1:],
        "pool": pooled.pool_of,
        "predicted": pooled.of_bins(released.predicted),
        "zone_lower": pooled.of_bins(zone[0]),
        "zone_upper": pooled.of_bins(zone[1]),
        "rows": pooled.of_bins(np.maximum(rows, 0.0)),
        "p_value_floor": rounded_number(1 / (1 + pooled.errors.shape[0])),
    }


def rounded_number(value: float) -> float:
    """A number rounded as it is published."""
    return float(rounded(np.array(value)))


def rounded_figure(figure: Figure[float]) -> Figure[float]:
    """A figure rounded as it is published."""
    share = None if figure.privacy_share is None else rounded_number(figure.privacy_share)
    return replace(figure.mapped(rounded_number), privacy_share=share)


def binned(
    pooled: Pools,
    value: FloatArray,
    noise: tuple[FloatArray, FloatArray],
    population: tuple[FloatArray, FloatArray],
) -> Figure[FloatArray]:
    """A figure of each pool with both its intervals, repeated for each of the pool's bins."""
    return Figure(
        value=pooled.of_bins(value),
        interval=Ends(*map(pooled.of_bins, noise)),
        population=Ends(*map(pooled.of_bins, population)),
        privacy_share=pooled.of_bins(privacy_share(noise, population)),
    )
