"""Private bounds of the values, for requests that give none: doubling searches on a very wide grid.

The grid is logarithmic around 0. Its doublings, from the unit outwards, are marks that do not depend on the table. From
either end a chain of nested sets grows by one mark at a time. The search stops at the first set whose noisy count
exceeds a noisy threshold, a share of the rows (proof: ``sparse_vector.first_crossing``). There are finitely many marks,
so a search that never crosses its threshold ends at the grid's bound.
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
"""Shares of the budget: for the number of rows, and for each of the two bounds."""
LEFT_OUT = 0.001
"""Share of the rows that each search leaves beyond its bound, apart from the effect of its noise."""
MARGIN = 3.0
"""Noise scales by which the threshold is lowered, so that noise rarely makes a search overshoot."""
CELLS_BETWEEN_BOUNDS = 4096
"""Number of cells between private bounds; it does not depend on the bounds."""


def marks(grid: ValueGrid) -> Int64Array:
    """Ascending edge indices of a logarithmic grid: those where a doubling ends, the one at 0, and both bounds."""
    reach = int(max(abs(grid.origin), grid.size + grid.origin))
    out = np.arange(1, reach + 1, grid.steps)
    cuts = np.concatenate([-out[::-1], [0], out]) - int(grid.origin)
    inside = cuts[(cuts > 0) & (cuts < grid.size)]
    return np.concatenate([[0], inside, [grid.size]]).astype(np.int64)


def private_cuts(
    counts: Int64Array, grid: ValueGrid, scale: str, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> Int64Array:
    """Cut the grid into ``CELLS_BETWEEN_BOUNDS`` cells (fewer on a coarse grid) between private bounds.

    Formal guarantee: ``(SIZE_SHARE + 2 BOUND_SHARE)`` times the meter's epsilon, under ``neighbours``, by sequential
    composition of a noisy number of rows and two searches that treat it as a constant. The number of rows has
    sensitivity at most 1 under ``ADD_REMOVE`` and at most 2 under ``REPLACE_ONE``.

    Args:
        counts: exact counts on the grid, shape (grid.size,); private.
        grid: a logarithmic grid.
        scale: ``linear`` or ``log``, how the cells are spaced.
        meter: budget meter that the cost is spent from.
        neighbours: neighbouring relation of the guarantee.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        InvalidRequest: the grid is not logarithmic, or the scale is unknown.

    Returns:
        Edge indices, shape (cells + 1,).
    """
    if grid.scale != LOG or scale not in (LINEAR, LOG):
        raise InvalidRequest(
            "find_bounds", value=scale,
            requirement="must be linear or log, for counts that were made on a logarithmic grid",
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
    # the number of rows and the search have noise of the same scale: hence the 2
    threshold = rows * (1 - LEFT_OUT) - 2 * MARGIN * rows_changed(neighbours) / float(cost)
    crossing = first_crossing(parts, threshold=threshold, epsilon=cost, neighbours=neighbours, noise=noise)
    return parts.size - 1 if crossing is None else crossing


def _widened(lower: int, upper: int, ends: Int64Array, cells: int) -> tuple[int, int]:
    """Edge indices of the marks ``lower`` and ``upper``, moved outwards until ``cells`` cells fit between them."""
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
