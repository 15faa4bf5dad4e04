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
RARE = 0.05
"""The share of an interval's error for edges whose counts are far from a quantile's."""


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

    The exact quantile of level ``p`` lies below an edge if and only if ``D = G - p n`` is not below 0 there. Each
    number has noise of its own, which is independent of how the edges were chosen. But for a share ``RARE`` of the
    interval's error, no noise in any ``D`` exceeds a first bound, so that a ``D`` beyond it has the right sign. Of the
    others, those of the lower edges are below 0 and those of the upper ones are not, wherever they part. The second
    bound, for the rest of the error, is for noise that could turn one of these signs. The interval ends at the nearest
    edges beyond it.
    """
    order = np.argsort(draw.edges[1:]) + 1  # the first is the end of the grid, below which all rows lie
    edges, points, rows = draw.grid.edges, draw.edges[order], draw.counts[0]
    noise = SeededNoise(seed).two_sided((COPIES, draw.edges.size), scale=draw.scale)
    error = 1 - draw.confidence
    quantiles = []
    for level, cell in zip(draw.levels, draw.cells, strict=True):
        excess, off = draw.counts[order] - level * rows, noise[:, order] - level * noise[:, :1]
        first = np.quantile(np.abs(off).max(axis=1, initial=0.0), 1 - RARE * error, method="higher")
        turning = _turning(off[:, np.abs(excess) <= first])
        bound = np.quantile(turning, 1 - (1 - RARE) * error, axis=0, method="higher").max()
        low = points[excess < -bound].max(initial=0)
        high = points[excess > bound].min(initial=draw.grid.size) - 1
        ends = (min(low, cell), max(high, cell))
        lower, value, upper = (float(edges[at]) for at in (ends[0], cell, ends[1]))
        quantiles.append(Quantile(level=level, value=value, lower=lower, upper=upper))
    return tuple(quantiles)


def _turning(off: FloatArray) -> FloatArray:
    """The largest noise that could turn a sign, if the exact signs change after the first 0, 1, ... edges.

    Args:
        off: noise of the edges in their order, shape (copies, edges).

    Returns:
        Shape (copies, edges + 1).
    """
    none = np.zeros((off.shape[0], 1))
    up = np.maximum.accumulate(np.hstack([none, off]), axis=1)
    down = np.maximum.accumulate(np.hstack([none, -off[:, ::-1]]), axis=1)[:, ::-1]
    return np.maximum(up, down)
