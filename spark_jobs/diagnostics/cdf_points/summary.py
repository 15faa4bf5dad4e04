"""Released points of a distribution function, computed from a draw; deterministic."""

from __future__ import annotations

import numpy as np
from scipy.optimize import isotonic_regression

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, UNDEFINED
from spark_jobs.contract.grids import EARLIEST_ROUNDING
from spark_jobs.contract.results.values import CdfPoints, Quantile
from spark_jobs.diagnostics._simulation import rounded
from spark_jobs.diagnostics.cdf_points.measurement import CdfPointsDraw
from spark_jobs.diagnostics.ecdf.measurement import ends_of
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance

COPIES = 2000
RARE = 0.05
"""The share of an interval's error for edges whose counts are far from a quantile's."""


def summarise(draw: CdfPointsDraw, *, seed: int) -> CdfPoints:
    """The points of a draw; the same draw and seed give the same points.

    A fraction ``h = (G + e) / n'``, with the noisy number of rows ``n' = n + e'``, has the error ``(e - F e') / n'``.
    """
    edges, rows = draw.grid.edges, float(draw.counts[0])
    noise = SeededNoise(seed).two_sided((COPIES, 2), scale=draw.scale)
    number = dict(zip(draw.edges.tolist(), draw.counts.tolist(), strict=True))
    below = np.array([number[edge] for edge in draw.thresholds], dtype=np.float64)
    cdf = np.clip(below / max(rows, 1.0), 0.0, 1.0)
    off = np.abs(noise[:, :1] - cdf * noise[:, 1:])
    half = np.quantile(off, draw.confidence, axis=0, method="higher") / max(rows, 1.0)
    defined = rows >= max(1.0, DEFINED_ABOVE * float(np.sqrt(laplace_variance(draw.scale))))
    return CdfPoints(
        thresholds=_in_force(draw),
        cdf=Figure(
            value=rounded(cdf),
            interval=Ends(rounded(np.maximum(cdf - half, 0.0)), rounded(np.minimum(cdf + half, 1.0))),
        ),
        quantiles=_quantiles(draw, seed),
        rows=max(rows, 0.0),
        evaluations=draw.evaluations,
        left=draw.evaluations - draw.edges.size,
        bounds=(float(edges[0]), float(edges[-1])),
        named=draw.named,
        status=OK if defined else UNDEFINED,
        confidence=draw.confidence,
        **draw.stated,
    )


def _in_force(draw: CdfPointsDraw) -> FloatArray:
    """What the thresholds are on the grid: the ends of the last cells whose rows count."""
    if draw.rounding == EARLIEST_ROUNDING:
        return draw.grid.edges[list(draw.thresholds)]
    last = np.array(draw.thresholds, dtype=np.int64) - 1
    return draw.grid.ends(last, last)[1]


def _quantiles(draw: CdfPointsDraw, seed: int) -> tuple[Quantile, ...]:
    """The quantiles with their intervals.

    The exact quantile of level ``p`` lies below an edge if and only if ``D = G - p n`` is not below 0 there. But for a
    share ``RARE`` of the interval's error, no noise in any ``D`` exceeds a bound, so that a ``D`` beyond it has the
    right sign. The interval has the cells between the edges nearest to the places between the others that these do not
    refute, and ends where the last of them ends.
    """
    order = np.argsort(draw.edges[1:]) + 1  # the first is the end of the grid, below which all rows lie
    edges, points, rows = draw.grid.edges, [0, *draw.edges[order].tolist(), draw.grid.size], draw.counts[0]
    noise = SeededNoise(seed).two_sided((COPIES, draw.edges.size), scale=draw.scale)
    error = 1 - draw.confidence
    quantiles = []
    for level, cell in zip(draw.levels, draw.cells, strict=True):
        excess, off = draw.counts[order] - level * rows, noise[:, order] - level * noise[:, :1]
        bound = np.quantile(np.abs(off).max(axis=1, initial=0.0), 1 - RARE * error, method="higher")
        below = int(np.flatnonzero(excess < -bound).max(initial=-1)) + 1
        until = max(below, int(np.flatnonzero(excess > bound).min(initial=order.size)))
        unsure = slice(below, until)
        first, last = (below + number for number in _not_refuted(excess[unsure], off[:, unsure], (1 - RARE) * error))
        ends = (min(points[first], cell), max(points[last + 1] - 1, cell))
        ends_of_cells = Ends(*(float(end) for end in ends_of(draw.grid, *ends, draw.rounding)))
        quantiles.append(Quantile(level=level, figure=Figure(value=float(edges[cell]), interval=ends_of_cells)))
    return tuple(quantiles)


def _not_refuted(excess: FloatArray, off: FloatArray, error: float) -> tuple[int, int]:
    """The smallest and the largest number of edges below a quantile that the released numbers do not refute.

    If t edges lie below it, the exact ``D`` are negative at the first t edges and at no other, so that their sum over
    these is the smallest of all sums over first edges. How much larger the sum of the released ``D`` is than their
    smallest one tests t. In the copies, noise is added to the released ``D`` made monotone, or to 0 where their sign is
    not the one that t demands. t is refuted if the released sum is larger, in this sense, than in all but a share
    ``error`` of the copies. The level holds approximately (a test of moment inequalities: Andrews, Soares, Econometrica
    2010).

    Args:
        excess: the released ``D`` at ascending edges, shape (edges,).
        off: copies of their noise, shape (copies, edges).
        error: the share of tests that refute the exact number.
    """
    fitted = isotonic_regression(excess).x if excess.size else excess
    noise = _sums(off)

    def refuted(number: int) -> bool:
        signed = np.concatenate([np.minimum(fitted[:number], 0), np.maximum(fitted[number:], 0)])
        (over,), of_copies = (
            sums[:, number] - sums.min(axis=1) for sums in (_sums(excess[None]), noise + _sums(signed[None]))
        )
        return bool(over > np.quantile(of_copies, 1 - error, method="higher"))

    numbers = range(excess.size + 1)
    first, last = (next(one for one in order if not refuted(one)) for order in (numbers, numbers[::-1]))
    return first, last


def _sums(values: FloatArray) -> FloatArray:
    """The sums of the first 0, 1, ... values along the last axis."""
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
