"""Where a residual plot lies: noisy bounds of fitted values and residuals, and the grid between them.

Bounds are found by nested AboveThreshold (``mechanisms.sparse_vector.first_crossing``) along public chains of growing
sets: ``|residual| <= b``, ``fitted <= u`` and ``fitted >= l``, where b, u and l run through edges of cells, eight to
a doubling, up to 2^60 units in size. A chain is as long as the axis, so every search ends, and its cost does
not grow with its length. Short steps make mistakes cheap: a search that goes on past the data, as it does every now and
then, stops a few steps later, and not at the next power of two but one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Noise, laplace_scale
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.sparse_vector import first_crossing
from spark_jobs.statistics import ResidualCounts
from spark_jobs.statistics.residual_grid import AXIS, DOUBLINGS, MAX_BINS, SIDE, STEPS, cut_at, size_at

DOUBLING = 8
"""Steps of a doubling."""
ALLOWANCE = 3.0
"""Scales of a search's noise by which its threshold is lowered: few searches go far beyond the data."""
_RESOLUTION = MAX_BINS // 2
"""Cells between 0 and the outermost bound of an axis, at the finest."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What the searches found, in units.

    Attributes:
        residual: largest size of residuals.
        fitted_lower, fitted_upper: ends of fitted values.
    """

    residual: float
    fitted_lower: float
    fitted_upper: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Box:
    """A grid of ``bins x bins`` equal cells.

    Attributes:
        fitted, residual: edges in units, shape (bins + 1,), exact.
    """

    fitted: FloatArray
    residual: FloatArray

    @property
    def bins(self) -> int:
        """Cells of either axis."""
        return self.fitted.size - 1

    def counts(self, statistic: ResidualCounts) -> Int64Array:
        """Exact counts of the cells, framed by those of all rows beyond: shape (bins + 2, bins + 2)."""
        return statistic.table(
            *(np.concatenate([[0], cut_at(edges), [AXIS]]) for edges in (self.fitted, self.residual))
        )


def noisy_bounds(
    statistic: ResidualCounts, *, rows: int, coverage: float, epsilon: Decimal, neighbours: Neighbours, noise: Noise
) -> Bounds:
    """Bounds that hold a part ``coverage`` of the rows on either axis, nearly; costs three times ``epsilon``.

    Each search is ``epsilon``-DP by the proof of ``first_crossing``: its sets are nested and public, its threshold is
    made of released numbers. The three compose sequentially, for each of them reads all rows.

    A threshold that noise lifts above the number of rows is never passed by counts alone, and the search runs on. So
    each one asks for ``ALLOWANCE`` noise scales less than ``coverage`` of the rows, and what it finds is then widened
    as a normal distribution of residuals, or an even one of fitted values, would need it.

    Args:
        statistic: exact counts; private.
        rows: released number of rows, at least 1.
        coverage: the part of the rows that shall lie within the bounds of either axis.
        epsilon: what each of the three searches costs.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    allowance = min(ALLOWANCE * laplace_scale(epsilon, rows_changed(neighbours)) / rows, coverage / 4)

    def search(cells: Int64Array, part: float) -> int:
        threshold = (part - allowance) * rows
        crossing = first_crossing(cells, threshold=threshold, epsilon=epsilon, neighbours=neighbours, noise=noise)
        return cells.size - 1 if crossing is None else crossing

    fitted, residuals = statistic.axis_counts()
    outwards = residuals[SIDE:] + residuals[SIDE - 1 :: -1]
    step = STEPS // DOUBLING
    end_coverage = (1 + coverage) / 2
    bound = float(size_at(np.array(SIDE + step * (1 + search(_runs(outwards, step), coverage)))))
    upper = float(size_at(np.array(step * (1 + search(_runs(fitted, step), end_coverage)))))
    lower = float(size_at(np.array(AXIS - step * (1 + search(_runs(fitted[::-1], step), end_coverage)))))
    lower, upper = min(lower, upper), max(lower, upper)
    beyond = (upper - lower) * _in_64ths(allowance / (2 * (end_coverage - allowance) - 1))
    wider = _in_64ths(float(ndtri((1 + coverage) / 2) / ndtri((1 + coverage - allowance) / 2)))
    furthest = 2.0**DOUBLINGS
    return Bounds(
        residual=min(bound * wider, furthest),
        fitted_lower=max(lower - beyond, -furthest),
        fitted_upper=min(upper + beyond, furthest),
    )


def box(bounds: Bounds, bins: int) -> Box:
    """The grid of ``bins x bins`` equal cells around the bounds, whose edges are edges of the statistic's cells.

    Args:
        bounds: released bounds.
        bins: a power of two up to 256.
    """
    half, cell = max(bins // 2, 1), _cell(bounds.residual)
    outwards = half * math.ceil(bounds.residual / cell / half)
    residual = np.linspace(-outwards, outwards, bins + 1) * cell
    lower, upper = bounds.fitted_lower, bounds.fitted_upper
    cell = _cell(max(-lower, upper))
    first, last = math.floor(lower / cell), math.ceil(upper / cell)
    width = bins * max(1, math.ceil((last - first) / bins))
    first = max(-_RESOLUTION, min(first - (width - (last - first)) // 2, _RESOLUTION - width))
    fitted = (first + width // bins * np.arange(bins + 1, dtype=np.float64)) * cell
    return Box(fitted=fitted, residual=residual)


def _cell(size: float) -> float:
    """The width of the finest cells that reach to ``size`` units."""
    doublings = max(0, math.frexp(size)[1] - (math.frexp(size)[0] == 0.5)) if size > 0 else 0
    return 2.0**doublings / _RESOLUTION


def _in_64ths(part: float) -> float:
    """Rounded down, so that next to nothing does not cost a step of the grid."""
    return math.floor(part * 64) / 64


def _runs(cells: Int64Array, length: int) -> Int64Array:
    runs: Int64Array = cells.reshape(-1, length).sum(axis=1)
    return runs
