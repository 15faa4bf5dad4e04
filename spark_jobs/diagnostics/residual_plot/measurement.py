"""The random part of a residual plot: a noisy size, noisy bounds, and noisy counts on the grid that they fix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours, exact_sum, share
from spark_jobs.diagnostics.residual_plot.box import Box, box, noisy_bounds
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.statistics import ResidualCounts

SIZE_SHARE = Decimal("0.04")
"""Of epsilon, for the number of rows."""
MOST_FOR_BOUNDS = Decimal("0.3")
"""Of epsilon, for the three searches together."""
WORTH_OF_BOUNDS = 4.5
"""The three searches cost this over the root of rows times epsilon, of epsilon: a seventh of it where that is 1,000."""
ROWS_PER_CELL = 7.0
"""Rows times epsilon that a cell shall have, on average, at least: the root is rounded down to a power of two."""
FEWEST, MOST = 4, 64
"""Bins of an axis, unless the request says how many."""
BY_DEFAULT = "geometric"


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """The draw: all noisy numbers of one release, and the public facts needed to read them.

    Attributes:
        method: of the histogram; never ``auto``.
        confidence: nominal level of intervals.
        neighbours: the relation of the guarantee.
        guarantee: ``contract.release.PRIVATE`` or ``NOT_PRIVATE``.
        spendings: what each part cost; they add up to the release's cost.
        unit: the statistic's, public.
        rows: noisy number of rows.
        box: the grid, in units.
        cells: estimates of the counts within the grid and, as a frame around them, of the rows beyond it; shape
            (bins + 2, bins + 2), fitted values first; possibly negative.
    """

    method: str
    confidence: float
    neighbours: Neighbours
    guarantee: str
    spendings: tuple[Spending, ...]
    unit: float
    rows: int
    box: Box
    cells: FloatArray

    @property
    def epsilon(self) -> Decimal:
        """What all of it cost."""
        return exact_sum(*(spending.epsilon for spending in self.spendings))

    @property
    def cells_epsilon(self) -> Decimal:
        """What the counts cost, the last spending."""
        return self.spendings[-1].epsilon

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "method": self.method,
            "confidence": self.confidence,
            "neighbours": str(self.neighbours),
            "guarantee": self.guarantee,
            "spendings": [spending.to_dict() for spending in self.spendings],
            "unit": self.unit,
            "rows": self.rows,
            "fitted": self.box.fitted.tolist(),
            "residual": self.box.residual.tolist(),
            "cells": self.cells.tolist(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Measurement:
        """The measurement that ``to_dict`` described."""
        fitted, residual, cells = (np.array(fields[name], np.float64) for name in ("fitted", "residual", "cells"))
        return cls(
            method=fields["method"],
            confidence=fields["confidence"],
            neighbours=Neighbours(fields["neighbours"]),
            guarantee=fields["guarantee"],
            spendings=tuple(Spending.from_dict(spending) for spending in fields["spendings"]),
            unit=fields["unit"],
            rows=fields["rows"],
            box=Box(fitted=fitted, residual=residual),
            cells=cells,
        )


def measure_residuals(
    statistic: ResidualCounts,
    *,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    method: str,
    bins: int | None,
    coverage: float,
    confidence: float,
) -> Measurement:
    """Size, bounds, counts, one after the other; ``epsilon``-DP for one row added, removed or replaced.

    Args:
        statistic: exact counts; private.
        epsilon: what the release may cost; all of it is spent.
        neighbours: the relation.
        noise: where the noise comes from.
        method: of the histogram, or ``auto``.
        bins: of either axis; None lets the noise decide.
        coverage: the part of the rows within the bounds of either axis.
        confidence: nominal level of intervals.
    """
    meter = BudgetMeter(epsilon)
    size_cost = meter.spend_share(SIZE_SHARE, label="number of rows")
    # a row that is replaced by one that is not counted, or the other way round, changes it by 1 as well
    rows = int(noise.laplace(np.array([statistic.total]), epsilon=size_cost, l1_sensitivity=1)[0])
    part = bounds_share(rows, epsilon=float(meter.granted.epsilon), neighbours=neighbours)
    bounds_cost = meter.spend_share(part, label="bounds of residuals and fitted values, three searches")
    bounds = noisy_bounds(
        statistic,
        rows=max(rows, 1),
        coverage=coverage,
        epsilon=share(bounds_cost, 3),
        neighbours=neighbours,
        noise=noise,
    )
    rest = meter.spend_rest(label="counts in the cells")
    chosen = box(bounds, bins or default_bins(rows, epsilon=float(rest), coverage=coverage, neighbours=neighbours))
    histogram = release_histogram(
        chosen.counts(statistic),
        epsilon=rest,
        neighbours=neighbours,
        noise=noise,
        method=BY_DEFAULT if method == "auto" else method,
        expected_rows=max(rows, 1),
    )
    return Measurement(
        method=histogram.method,
        confidence=confidence,
        neighbours=neighbours,
        guarantee=noise.guarantee,
        spendings=meter.events,
        unit=statistic.unit,
        rows=rows,
        box=chosen,
        cells=histogram.cells,
    )


def bounds_share(rows: int, *, epsilon: float, neighbours: Neighbours) -> Decimal:
    """The part of ``epsilon`` that goes into bounds, from a released number of rows."""
    wanted = WORTH_OF_BOUNDS * math.sqrt(rows_changed(neighbours) / (epsilon * max(rows, 1)))
    return min(MOST_FOR_BOUNDS, max(Decimal(round(wanted, 6)).quantize(Decimal("0.000001")), Decimal("0.000001")))


def default_bins(rows: int, *, epsilon: float, coverage: float, neighbours: Neighbours) -> int:
    """The power of two below the root of rows within the box times ``epsilon`` over ``ROWS_PER_CELL``.

    ``epsilon`` is what the counts cost, not what the release does. Public facts and a released size alone.
    """
    worth = max(rows, 1) * coverage**2 * epsilon / (ROWS_PER_CELL * rows_changed(neighbours))
    return int(min(MOST, max(FEWEST, 2 ** math.floor(math.log2(max(worth, 1.0)) / 2))))
