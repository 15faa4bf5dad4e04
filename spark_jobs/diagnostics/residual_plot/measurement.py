"""The random part of a residual plot: a noisy size, noisy bounds, noisy sums and counts on the grid they determine."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.options import ResidualPlotSettings
from spark_jobs.contract.privacy import Neighbours, share
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.diagnostics.residual_plot.box import Box, box, noisy_bounds
from spark_jobs.diagnostics.residual_plot.offsets import HALF_CELL, share_of_offsets, sums_of_offsets
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.statistics import ResidualCounts

SIZE_SHARE = Decimal("0.04")
"""Share of epsilon for the number of rows."""
MAX_BOUNDS_SHARE = Decimal("0.3")
"""Largest share of epsilon for the three searches together."""
WORTH_OF_BOUNDS = 4.5
"""The three searches get ``WORTH_OF_BOUNDS / sqrt(rows * epsilon)`` of epsilon: a seventh if the product is 1,000."""
ROWS_PER_CELL = 7.0
"""Smallest average of rows times epsilon per cell of the default grid."""
MIN_BINS, MAX_BINS = 4, 64
"""Limits of the default number of bins per axis."""
BY_DEFAULT = "geometric"


@dataclass(frozen=True, kw_only=True, eq=False)
class ResidualDraw(Draw):
    """The draw: all noisy numbers of one release, with the public facts that are needed to interpret them.

    Attributes:
        method: histogram method; never ``auto``.
        confidence: nominal level of the intervals.
        unit: public unit of the statistic.
        rows: noisy number of rows.
        box: the grid, in units of the statistic.
        cells: estimated counts of the grid, with a frame of cells for the rows beyond it; shape (bins + 2, bins + 2),
            fitted values first; possibly negative.
        offsets: for each column of the box, the noisy sum of the offsets of its rows (residual less the middle of the
            residual's cell), in steps (``offsets.HALF_CELL``); shape (bins,). None in draws of versions without such
            sums.
    """

    method: str
    confidence: float
    unit: float
    rows: int
    box: Box
    cells: FloatArray
    offsets: Int64Array | None = field(default=None, metadata={codec.ABSENT: None})

    @property
    def cells_epsilon(self) -> Decimal:
        """The cost of the counts, which is the last spending."""
        return self.spendings[-1].epsilon

    @property
    def offsets_epsilon(self) -> Decimal:
        """The cost of ``offsets``, which is the last spending but one."""
        return self.spendings[-2].epsilon


def measure_residuals(statistic: ResidualCounts, options: ResidualPlotSettings, terms: Terms) -> ResidualDraw:
    """Draw the noise of a residual plot; ``epsilon``-DP for one row added, removed or replaced.

    The spendings compose sequentially and adaptively:

    * the number of rows, of sensitivity 1 under either relation (a row may be replaced by one that is not counted);
    * three searches for bounds (``box.noisy_bounds``), by the proof of ``sparse_vector.first_crossing``;
    * the sums of offsets, by the proof in ``offsets``;
    * the counts of disjoint cells, by the proof of the histogram's method. The grid is determined by released numbers;
      cells around it count the rows beyond.

    Args:
        statistic: exact counts of fitted values and residuals; private.
        options: the settings; method ``auto`` is plain integer noise, for which tests and intervals are most accurate.
        terms: budget, relation and noise; all of epsilon is spent. ``REPLACE_ONE`` doubles all noise except that of
            the number of rows.
    """
    meter, neighbours, noise = terms.meter(), terms.neighbours, terms.noise
    size_cost = meter.spend_share(SIZE_SHARE, label="number of rows")
    # under REPLACE_ONE too: a row may be replaced by one that is not counted, or the other way round
    rows = int(noise.laplace(np.array([statistic.total]), epsilon=size_cost, l1_sensitivity=1)[0])
    part = bounds_share(rows, epsilon=float(meter.granted.epsilon), neighbours=neighbours)
    bounds_cost = meter.spend_share(part, label="bounds of residuals and fitted values, three searches")
    bounds = noisy_bounds(
        statistic,
        rows=max(rows, 1),
        coverage=options.coverage,
        epsilon=share(bounds_cost, 3),
        neighbours=neighbours,
        noise=noise,
    )
    left = float(meter.remaining)
    grid = box(
        bounds, options.bins or default_bins(rows, epsilon=left, coverage=options.coverage, neighbours=neighbours)
    )
    offsets_cost = meter.spend_share(
        share_of_offsets(grid.bins), label="sums of what residuals lie above the middles of their cells"
    )
    offsets = noise.laplace(
        sums_of_offsets(statistic, grid),
        epsilon=offsets_cost,
        l1_sensitivity=HALF_CELL * rows_changed(neighbours),
    )
    rest = meter.spend_rest(label="counts in the cells")
    histogram = release_histogram(
        grid.counts(statistic),
        epsilon=rest,
        neighbours=neighbours,
        noise=noise,
        method=BY_DEFAULT if options.method == "auto" else options.method,
        expected_rows=max(rows, 1),
    )
    return ResidualDraw.of(
        terms,
        meter,
        method=histogram.method,
        confidence=options.confidence,
        unit=statistic.unit,
        rows=rows,
        box=grid,
        cells=histogram.cells,
        offsets=offsets,
    )


def bounds_share(rows: int, *, epsilon: float, neighbours: Neighbours) -> Decimal:
    """The share of ``epsilon`` for the bounds, given a released number of rows."""
    wanted = WORTH_OF_BOUNDS * math.sqrt(rows_changed(neighbours) / (epsilon * max(rows, 1)))
    return min(MAX_BOUNDS_SHARE, max(Decimal(round(wanted, 6)).quantize(Decimal("0.000001")), Decimal("0.000001")))


def default_bins(rows: int, *, epsilon: float, coverage: float, neighbours: Neighbours) -> int:
    """The default bins per axis: the largest power of two with ``rows * epsilon >= ROWS_PER_CELL`` per cell.

    The default depends on public facts and the released number of rows alone; ``epsilon`` is that of sums and counts.
    """
    worth = max(rows, 1) * coverage**2 * epsilon / (ROWS_PER_CELL * rows_changed(neighbours))
    return int(min(MAX_BINS, max(MIN_BINS, 2 ** math.floor(math.log2(max(worth, 1.0)) / 2))))
