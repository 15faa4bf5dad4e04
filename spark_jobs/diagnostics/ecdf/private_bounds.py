"""Bounds found privately, where the user has none: doubling searches on a very wide grid.

The grid is logarithmic around 0, so its doublings from the unit outwards are marks that any table shares. From either
end a chain of nested sets grows mark by mark, and the search stops at the first whose noisy count reaches a noisy
share of the rows (``sparse_vector.first_crossing``, where the proof is). The marks are finitely many: a search that
finds nothing ends at the grid's bound.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.sparse_vector import first_crossing
from spark_jobs.statistics.value_grid import LINEAR, LOG, ValueGrid

SIZE_SHARE, BOUND_SHARE = Decimal("0.08"), Decimal("0.08")
"""Of the budget, for the number of rows and for each of the two bounds."""
LEFT_OUT = 0.001
"""The share of the rows that each search may leave beyond its bound, besides what noise makes it leave."""
MARGIN = 3.0
"""Scales of both noises by which the count is to be reached early: a search that just missed its mark would run on."""
CELLS_BETWEEN_BOUNDS = 4096
"""Cells between found bounds; their number is fixed, whatever is found."""


def marks(grid: ValueGrid) -> Int64Array:
    """The cuts of a logarithmic grid at which a doubling ends, at 0 and at both bounds; ascending."""
    reach = int(max(abs(grid.origin), grid.size + grid.origin))
    out = np.arange(1, reach + 1, grid.steps)
    cuts = np.concatenate([-out[::-1], [0], out]) - int(grid.origin)
    inside = cuts[(cuts > 0) & (cuts < grid.size)]
    return np.concatenate([[0], inside, [grid.size]]).astype(np.int64)


def private_cuts(
    counts: Int64Array, grid: ValueGrid, scale: str, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> Int64Array:
    """Cut the grid into ``CELLS_BETWEEN_BOUNDS`` cells (fewer on a coarse grid) between private bounds.

    Formal guarantee: ``(SIZE_SHARE + 2 BOUND_SHARE)`` of the meter's epsilon under ``neighbours``: a noisy number of
    rows, of sensitivity 1 (2 where a row is replaced, for rows may be left out of the count), and two searches that
    take it for a constant.

    Args:
        counts: exact, on the grid; private.
        grid: a logarithmic one.
        scale: cells of ``linear`` or ``log`` width.
        meter: where the cost is drawn.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        InvalidRequest: the grid is not logarithmic, or the scale is unknown.
    """
    if grid.scale != LOG or scale not in (LINEAR, LOG):
        raise InvalidRequest(
            "find_bounds", value=scale, requirement="must be linear or log, on counts of a logarithmic grid",
            remedy="count the values with scale='log' between very wide bounds",
        )  # fmt: skip
    cost = meter.spend_share(SIZE_SHARE, label="number of rows")
    rows = int(noise.laplace(counts.sum(keepdims=True), epsilon=cost, l1_sensitivity=rows_changed(neighbours))[0])
    ends = marks(grid)
    parts = np.add.reduceat(counts, ends[:-1]).astype(np.int64)
    upper = _crossing(parts, rows, "upper bound", meter=meter, neighbours=neighbours, noise=noise) + 1
    lower = (
        parts.size - 1 - _crossing(parts[::-1], rows, "lower bound", meter=meter, neighbours=neighbours, noise=noise)
    )
    cells = min(CELLS_BETWEEN_BOUNDS, grid.steps, int(ends[-1]))
    low, high = _widened(min(lower, upper - 1), max(lower + 1, upper), ends, cells)
    return _between(low, high, cells, grid, scale)


def _crossing(
    parts: Int64Array, rows: int, label: str, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> int:
    cost = meter.spend_share(BOUND_SHARE, label=label)
    # the number of rows has noise of the same scale
    threshold = rows * (1 - LEFT_OUT) - 2 * MARGIN * rows_changed(neighbours) / float(cost)
    crossing = first_crossing(parts, threshold=threshold, epsilon=cost, neighbours=neighbours, noise=noise)
    return parts.size - 1 if crossing is None else crossing


def _widened(lower: int, upper: int, ends: Int64Array, cells: int) -> tuple[int, int]:
    """Cuts at the marks ``lower`` and ``upper``, moved outwards until there is room for so many cells."""
    while ends[upper] - ends[lower] < cells:
        lower, upper = max(lower - 1, 0), min(upper + 1, ends.size - 1)
    return int(ends[lower]), int(ends[upper])


def _between(low: int, high: int, cells: int, grid: ValueGrid, scale: str) -> Int64Array:
    if scale == LOG:
        places = np.linspace(low, high, cells + 1)
    else:
        first, last = grid.edges[low], grid.edges[high]
        places = grid.position(np.clip(np.linspace(first, last, cells + 1), first, last))
    order = np.arange(cells + 1)
    cuts = np.maximum.accumulate(np.rint(places).astype(np.int64) - order) + order
    cuts = np.clip(cuts, low + order, high - order[::-1])
    cuts[0], cuts[-1] = low, high
    return cuts
