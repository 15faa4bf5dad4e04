"""Released points of a distribution function, computed from a draw; deterministic."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, UNDEFINED
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics._simulation import rounded
from spark_jobs.diagnostics.cdf_points.measurement import CdfPointsDraw
from spark_jobs.diagnostics.ecdf.result import Quantile
from spark_jobs.diagnostics.undefined import plain_fields, publishable
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance

COPIES = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class CdfPoints:
    """A released distribution function at thresholds, with quantiles.

    Values are rounded down to the start of their cell, and values beyond the bounds are moved to the nearer bound.
    Intervals cover what the exact counts of the same rows would give: they account for the noise, not for the sampling
    of the rows.

    Attributes:
        thresholds: the edges of the grid at the requested thresholds, shape (m,).
        cdf: fraction of the rows below each, shape (m,); NaN where undefined.
        lower, upper: interval of each, at level ``confidence``.
        quantiles: the requested quantiles.
        rows: noisy number of rows.
        evaluations: how many numbers of rows were paid for.
        left: how many of them have not been asked for.
        bounds: lower and upper bound of the values.
        named: name of the values; None for scores.
        status: ``ok``, or ``undefined`` if the noisy number of rows is below 1 or below three standard deviations of
            its noise.
        confidence: nominal level of the intervals.
        epsilon: what the release cost.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    thresholds: FloatArray
    cdf: FloatArray
    lower: FloatArray
    upper: FloatArray
    quantiles: tuple[Quantile, ...]
    rows: float
    evaluations: int
    left: int
    bounds: tuple[float, float]
    named: str | None
    status: str
    confidence: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**plain_fields(self), "quantiles": [quantile.to_dict() for quantile in self.quantiles]}


def summarise(draw: CdfPointsDraw, *, seed: int) -> CdfPoints:
    """The points of a draw; the same draw and seed give the same ones.

    A fraction ``h = (G + e) / n'``, with the noisy number of rows ``n' = n + e'``, is off by ``(e - F e') / n'``.
    """
    edges, rows = draw.grid.edges, float(draw.counts[0])
    noise = SeededNoise(seed).two_sided((COPIES, 2), scale=draw.scale)
    number = dict(zip(draw.edges.tolist(), draw.counts.tolist(), strict=True))
    below = np.array([number[edge] for edge in draw.thresholds], dtype=np.float64)
    cdf = np.clip(below / max(rows, 1.0), 0.0, 1.0)
    off = np.abs(noise[:, :1] - cdf * noise[:, 1:])
    half = np.quantile(off, draw.confidence, axis=0, method="higher") / max(rows, 1.0)
    defined = rows >= max(1.0, DEFINED_ABOVE * float(np.sqrt(laplace_variance(draw.scale))))
    result = CdfPoints(
        thresholds=edges[list(draw.thresholds)],
        cdf=rounded(cdf),
        lower=rounded(np.maximum(cdf - half, 0.0)),
        upper=rounded(np.minimum(cdf + half, 1.0)),
        quantiles=_quantiles(draw, seed),
        rows=max(rows, 0.0),
        evaluations=draw.evaluations,
        left=draw.evaluations - draw.edges.size,
        bounds=(float(edges[0]), float(edges[-1])),
        named=draw.named,
        status=OK if defined else UNDEFINED,
        confidence=draw.confidence,
        epsilon=draw.epsilon,
        neighbours=draw.neighbours,
        guarantee=draw.guarantee,
    )
    return publishable("cdf_points", result)


def _quantiles(draw: CdfPointsDraw, seed: int) -> tuple[Quantile, ...]:
    """The quantiles with their intervals.

    The exact quantile of level ``p`` lies below an edge if and only if ``D = G - p n`` is not below 0 there. With
    probability ``confidence`` no noise in any ``D`` is larger than the bound, wherever the edges were chosen: each
    number has noise of its own, which is independent of the choice. Then the signs of all larger ``D`` are right.
    """
    edges, rows = draw.grid.edges, draw.counts[0]
    noise = SeededNoise(seed).two_sided((COPIES, draw.edges.size), scale=draw.scale)
    quantiles = []
    for level, cell in zip(draw.levels, draw.cells, strict=True):
        largest = np.abs(noise[:, 1:] - level * noise[:, :1]).max(axis=1, initial=0.0)
        bound = np.quantile(largest, draw.confidence, method="higher")
        excess = draw.counts - level * rows
        low = draw.edges[excess < -bound].max(initial=0)
        high = draw.edges[1:][excess[1:] > bound].min(initial=draw.grid.size) - 1
        ends = (min(low, cell), max(high, cell))
        lower, value, upper = (float(edges[at]) for at in (ends[0], cell, ends[1]))
        quantiles.append(Quantile(level=level, value=value, lower=lower, upper=upper))
    return tuple(quantiles)
