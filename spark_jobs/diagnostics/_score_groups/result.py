"""What released binned residuals and calibrations share: bins, their pools, and the terms of the release."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw
from spark_jobs.diagnostics._score_groups.pools import Pools
from spark_jobs.diagnostics._simulation import rounded
from spark_jobs.diagnostics.undefined import plain_fields
from spark_jobs.score_grid import edges_of


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledBins:
    """The fields that binned residuals and calibrations share; each kind documents them with its own."""

    status: str
    confidence: float
    positives: float
    negatives: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str
    lower: FloatArray
    upper: FloatArray
    pool: Int64Array
    predicted: FloatArray
    zone_lower: FloatArray
    zone_upper: FloatArray
    rows: FloatArray
    p_value_floor: float

    @property
    def pool_starts(self) -> NDArray[np.intp]:
        """The first bin of each pool."""
        return np.flatnonzero(np.diff(self.pool, prepend=-1))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; null for what is undefined."""
        return plain_fields(self)


def shared_fields(draw: GroupsDraw, pooled: Pools, *, zone: tuple[FloatArray, FloatArray]) -> dict[str, Any]:
    """The values of ``PooledBins``; those of a pool are repeated for each of its bins.

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
    """A number as it is published."""
    return float(rounded(np.array(value)))


def rounded_ends(ends: tuple[float, float]) -> tuple[float, float]:
    """Both ends of an interval as they are published."""
    return rounded_number(ends[0]), rounded_number(ends[1])
