"""The box of a residual plot: noisy bounds of fitted values and residuals, and the grid between them.

Bounds are found by AboveThreshold (``mechanisms.sparse_vector.first_crossing``) along public chains of nested sets:
``|residual| <= b``, ``fitted <= u`` and ``fitted >= l``, where b, u and l run through edges of cells, eight per
doubling, up to 2^60 units in absolute value. Each chain covers the axis, so every search ends, and its cost does not
depend on its length. Short steps limit the effect of noise: a search that overshoots the data stops a few steps later,
rather than one or two doublings later.
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
"""Steps per doubling."""
ALLOWANCE = 3.0
"""Noise scales by which a search's threshold is lowered, so that few searches overshoot far beyond the data."""
_RESOLUTION = MAX_BINS // 2
"""Largest number of cells between 0 and the outermost bound of an axis."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Private bounds, in units of the statistic.

    Attributes:
        residual: bound of the absolute residuals.
        fitted_lower, fitted_upper: bounds of the fitted values.
    """

    residual: float
    fitted_lower: float
    fitted_upper: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Box:
    """A grid of ``bins x bins`` equal cells.

    Attributes:
        fitted, residual: edges in units of the statistic, shape (bins + 1,); exact floats.
    """

    fitted: FloatArray
    residual: FloatArray

    @property
    def bins(self) -> int:
        """Number of cells along either axis."""
        return self.fitted.size - 1

    def counts(self, statistic: ResidualCounts) -> Int64Array:
        """Exact counts of the cells, with a frame of cells for the rows beyond; shape (bins + 2, bins + 2)."""
        return statistic.table(
            *(np.concatenate([[0], cut_at(edges), [AXIS]]) for edges in (self.fitted, self.residual))
        )


def noisy_bounds(
    statistic: ResidualCounts, *, rows: int, coverage: float, epsilon: Decimal, neighbours: Neighbours, noise: Noise
) -> Bounds:
    """Bounds between which about the fraction ``coverage`` of the rows lies, on either axis; costs ``3 epsilon``.

    Each search is ``epsilon``-DP by the proof of ``first_crossing``: its sets are nested and public, and its threshold
    is computed from released numbers. The three searches compose sequentially, because each reads all rows.

    If noise raised a threshold above the number of rows, no count would reach it and the search would overshoot. Each
    threshold is therefore ``ALLOWANCE`` noise scales lower than ``coverage`` of the rows. A lower threshold makes the
    bound narrower; so the bound is then widened, by as much as the lower threshold narrows it for normally distributed
    residuals or uniformly distributed fitted values.

    Args:
        statistic: exact counts; private.
        rows: released number of rows, at least 1.
        coverage: fraction of the rows that should lie within the bounds of either axis.
        epsilon: cost of each of the three searches.
        neighbours: neighbouring relation of the guarantee.
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
    """The grid of ``bins x bins`` equal cells around the bounds; its edges are edges of the statistic's cells.

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
    """The width of a cell on the finest grid that covers values up to ``size``; both in units."""
    doublings = max(0, math.frexp(size)[1] - (math.frexp(size)[0] == 0.5)) if size > 0 else 0
    return 2.0**doublings / _RESOLUTION


def _in_64ths(part: float) -> float:
    """``part`` rounded down to a multiple of 1/64, so that a negligible part does not widen the grid by a step."""
    return math.floor(part * 64) / 64


def _runs(cells: Int64Array, length: int) -> Int64Array:
    runs: Int64Array = cells.reshape(-1, length).sum(axis=1)
    return runs
