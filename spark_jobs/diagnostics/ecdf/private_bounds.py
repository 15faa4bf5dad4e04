"""Private bounds of the values, for requests that give none: doubling searches on a very wide grid.

The grid is logarithmic around 0. The edges at which absolute values double are *marks*; they do not depend on the
table. From either end of the grid a chain of nested sets grows by one mark at a time. The search stops at the first set
whose noisy count exceeds a noisy threshold, a share of the rows (proof: ``sparse_vector.first_crossing``). There are
finitely many marks, so a search that never crosses its threshold ends at the grid's bound.

The values may fill only a small part of the interval between two marks: half a year, in seconds since 1970, fills 1.4%
of it. So the rows are counted again, in another pass over the table, on a linear grid between the two marks that were
found. With enough rows the same search then goes inwards over equal parts of the linear grid, and the cells lie between
the ends that it finds. The rows beyond an end count in one cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.sparse_vector import first_crossing
from spark_jobs.statistics import ValueCounts
from spark_jobs.statistics.value_grid import LINEAR, LOG, ValueGrid

SIZE_SHARE, BOUND_SHARE = Decimal("0.08"), Decimal("0.08")
"""Shares of the budget: for the number of rows, and for each of the two bounds."""
LEFT_OUT = 0.001
"""Share of the rows that each search leaves beyond its bound, apart from the effect of its noise."""
MARGIN = 3.0
"""Noise scales by which the threshold is lowered, so that noise rarely makes a search overshoot."""
CELLS_BETWEEN_BOUNDS = 4096
"""Number of cells between private bounds; it does not depend on the bounds."""


FINE_CELLS, PARTS = 2**20, 1024
"""Cells of the linear grid between two marks, and the parts of it by which a search goes inwards."""
INWARD_SHARE = Decimal("0.01")
"""Share of the budget for each of the two searches inwards."""
BEYOND = 0.0175
"""Share of the rows that the margin of such a search may leave beyond its end; with fewer rows there is none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BetweenBounds:
    """Counts between private bounds.

    Attributes:
        counts: exact counts on ``grid``; private.
        grid: the searched grid, or a linear one whose bounds are the private ones.
        cuts: indices of the grid's edges at which the cells begin and end, shape (cells + 1,).
    """

    counts: Int64Array
    grid: ValueGrid
    cuts: Int64Array


def marks(grid: ValueGrid) -> Int64Array:
    """Ascending edge indices of a logarithmic grid: the ends of its doublings, the edge at 0, and both bounds."""
    reach = int(max(abs(grid.origin), grid.size + grid.origin))
    out = np.arange(1, reach + 1, grid.steps)
    cuts = np.concatenate([-out[::-1], [0], out]) - int(grid.origin)
    inside = cuts[(cuts > 0) & (cuts < grid.size)]
    return np.concatenate([[0], inside, [grid.size]]).astype(np.int64)


def between_bounds(
    statistic: ValueCounts, scale: str, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> BetweenBounds:
    """``CELLS_BETWEEN_BOUNDS`` cells (fewer on a coarse grid that cannot be counted again) between private bounds.

    Formal guarantee, under ``neighbours``: the cost is ``SIZE_SHARE + 2 BOUND_SHARE`` of the meter's epsilon, and
    ``2 INWARD_SHARE`` of it more if there are searches inwards. It is the sequential composition of a noisy number of
    rows and of searches, for which this noisy number is a constant. The number of rows has sensitivity at most 1 under
    ``ADD_REMOVE`` and at most 2 under ``REPLACE_ONE``. The grid of the second count depends on released marks alone,
    and each row has one cell there, too. Whether there are searches inwards depends on the noisy number of rows.

    Args:
        statistic: exact counts on a logarithmic grid; private.
        scale: ``linear`` or ``log``, how the cells are spaced.
        meter: budget meter that the cost is spent from.
        neighbours: neighbouring relation of the guarantee.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        InvalidRequest: the grid is not logarithmic, or the scale is unknown.
    """
    counts, grid = statistic.counts, statistic.grid
    if grid.scale != LOG or scale not in (LINEAR, LOG):
        raise InvalidRequest(
            "find_bounds", scale, "must be linear or log, for counts that were made on a logarithmic grid",
            "count the values with scale='log' between very wide bounds",
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
    if scale == LOG or statistic.finer is None:
        return BetweenBounds(counts=counts, grid=grid, cuts=_between(low, high, cells, grid, scale))
    fine = ValueGrid(lower=float(grid.edges[low]), upper=float(grid.edges[high]), cells=FINE_CELLS)
    again = statistic.finer(fine)
    inwards = _inwards(again, rows, meter=meter, neighbours=neighbours, noise=noise)
    return BetweenBounds(counts=again, grid=fine, cuts=_of_parts(*inwards))


def _inwards(
    counts: Int64Array, rows: int, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> tuple[int, int]:
    """The first part that holds rows, and the one after the last; all parts if the margin would hide too many rows."""
    if _margin(INWARD_SHARE, meter, neighbours) > BEYOND * rows:
        return 0, PARTS
    parts = counts.reshape(PARTS, -1).sum(axis=1)
    terms: dict[str, Any] = {"share": INWARD_SHARE, "meter": meter, "neighbours": neighbours, "noise": noise}
    upper = _crossing(parts, rows, "upper bound, closer", **terms) + 1
    lower = PARTS - 1 - _crossing(parts[::-1], rows, "lower bound, closer", **terms)
    low, high = min(lower, upper - 1), max(lower + 1, upper)
    fewest = CELLS_BETWEEN_BOUNDS * PARTS // FINE_CELLS
    while high - low < fewest:
        low, high = max(low - 1, 0), min(high + 1, PARTS)
    return low, high


def _of_parts(low: int, high: int) -> Int64Array:
    """Cuts of the linear grid: equal cells from part ``low`` to part ``high``, and one cell for what is beyond each."""
    of_part = FINE_CELLS // PARTS
    outer = (low > 0) + (high < PARTS)
    inner = np.floor(np.linspace(low * of_part, high * of_part, CELLS_BETWEEN_BOUNDS - outer + 1))
    return np.unique(np.concatenate([[0], inner, [FINE_CELLS]])).astype(np.int64)


def _margin(share: Decimal, meter: BudgetMeter, neighbours: Neighbours) -> float:
    """How many rows more than wanted a search may leave out: for the noise in their number, and for its own."""
    scales = sum(1 / float(meter.granted.epsilon * of) for of in (SIZE_SHARE, share))
    return MARGIN * rows_changed(neighbours) * scales


def _crossing(
    parts: Int64Array,
    rows: int,
    label: str,
    *,
    meter: BudgetMeter,
    neighbours: Neighbours,
    noise: Noise,
    share: Decimal = BOUND_SHARE,
) -> int:
    cost = meter.spend_share(share, label=label)
    threshold = rows * (1 - LEFT_OUT) - _margin(share, meter, neighbours)
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
