"""Quantiles in the cells of a table: their part of the draw, and their intervals, which hold for cells of any size.

Each quantile has a share of its table's budget; half of the share pays for the value and half for counts around it. The
whole share serves every cell, as a row is in one cell only. Marginal tables have quantiles of their own, chosen with
their share of the budget, because the quantile of a total does not follow from the quantiles of its parts.

Intervals. The ``level`` quantile is the least value at or below which a share ``level`` of the rows lies. Let D be the
number of rows below an edge, less ``level`` times the number n of all rows. The quantile is at or above the edge if and
only if ``D < 0``. (The quantile that numpy and ``PERCENTILE_CONT`` interpolate between two rows is at or above the edge
if ``D <= -level``, and below it if ``D > 1 - level``.) D is released with noise whose law is public, whatever the
chosen cell and the rows. So the lower end moves past an edge while the noisy D is below the ``1 - confidence`` quantile
of its noise less ``level``, and the upper end likewise. The probability that an end passes the quantile is at most
``1 - confidence``. Each end may use this whole error rate, because the interval contains the chosen cell: if the
quantile is to the left of the chosen cell, only the lower end can miss it, and if it is to the right, only the upper
end. In a cell of the table without rows D is noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.figure import Ends, Figure, Numbers
from spark_jobs.contract.options import AggregateCells, Measured
from spark_jobs.contract.options.measures import ValueLine, quantile_level
from spark_jobs.contract.privacy import exact_difference, kept_share
from spark_jobs.diagnostics.aggregates.rounding import published
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.mechanisms.cell_quantiles import NoisyQuantiles, ValuesByCell, choose_quantiles, count_around
from spark_jobs.mechanisms.marginals import Dimensions
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.quantiles import rings
from spark_jobs.statistics import AggregateSums

COPIES = 1 << 13
"""Simulated copies of the noise of counts around a cell."""
_AT_ONCE = 1 << 20
"""Counts that are added up together, which bounds memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantilesOfCells:
    """A quantile of a measure in each cell of a table.

    Attributes:
        measure: the number of the measure.
        name: the name of the quantile.
        noisy: the chosen cells of values, and the counts around them.
    """

    measure: int
    name: str
    noisy: NoisyQuantiles


def measure_quantiles(
    statistic: AggregateSums, table: Dimensions, whole: Decimal, terms: Terms, meter: BudgetMeter
) -> tuple[QuantilesOfCells, ...]:
    """Choose the requested quantiles in all cells of a table, and count around them.

    The budget of the table has equal shares: one for each quantile, and one that is left for the rows and sums.

    Args:
        statistic: exact sums and counts; private.
        table: the dimensions of the table.
        whole: the budget of the table.
        terms: relation and noise.
        meter: pays for the quantiles.
    """
    design = statistic.design
    wanted = [(line, name) for line in design.value_lines for name in design.measures[line.measure].quantiles]
    part = kept_share(whole, 1 + len(wanted))
    by = f" by {', '.join(design.by[one].column for one in table)}" if table else ""
    drawn = []
    for line, name in wanted:
        values, of = _values_of(statistic, line, table), f"{name} of {design.measures[line.measure].of}{by}"
        neighbours, noise = terms.neighbours, terms.noise
        half = meter.spend(kept_share(part, 2), label=of)
        selected = choose_quantiles(
            values, level=quantile_level(name), epsilon=half, neighbours=neighbours, noise=noise
        )
        rest = meter.spend(exact_difference(part, half), label=f"counts around {of}, for the interval")
        noisy = count_around(values, selected, epsilon=rest, neighbours=neighbours, noise=noise)
        drawn.append(QuantilesOfCells(measure=line.measure, name=name, noisy=noisy))
    return tuple(drawn)


def _values_of(statistic: AggregateSums, line: ValueLine, table: Dimensions) -> ValuesByCell:
    """The exact counts of a line's values, by the cells of a table."""
    design = statistic.design
    start = design.cells * sum(one.cells for one in design.value_lines if one.measure < line.measure)
    first, last = np.searchsorted(statistic.value_keys, [start, start + design.cells * line.cells])
    keys, counts = statistic.value_keys[first:last] - start, statistic.value_counts[first:last]
    sizes = [len(dimension.labels) for dimension in design.by]
    cells = math.prod(sizes[one] for one in table)
    if len(table) == len(sizes):
        return ValuesByCell(cells=cells, size=line.cells, keys=keys, counts=counts)
    summed = np.zeros(cells * line.cells, dtype=np.int64)
    for place in range(0, keys.size, _AT_ONCE):
        cell, value = np.divmod(keys[place : place + _AT_ONCE], line.cells)
        groups, own = np.unravel_index(cell, sizes), np.zeros_like(cell)
        for one in table:
            own = own * sizes[one] + groups[one]
        np.add.at(summed, own * line.cells + value, counts[place : place + _AT_ONCE])
    occupied = np.flatnonzero(summed)
    return ValuesByCell(cells=cells, size=line.cells, keys=occupied, counts=summed[occupied])


@dataclass(frozen=True, kw_only=True)
class QuantileReader:
    """Computes published quantiles and their intervals from a draw.

    Attributes:
        design: dimensions and measures.
        confidence: nominal level of intervals.
        seed: seed of the simulation of noise.
    """

    design: AggregateCells
    confidence: float
    seed: int

    def figure(self, drawn: QuantilesOfCells, strong: BoolArray) -> Numbers:
        """The quantile in each cell of a table, NaN in cells that are not ``strong``; every cell has an interval."""
        [line] = [one for one in self.design.value_lines if one.measure == drawn.measure]
        measure, selected = self.design.measures[drawn.measure], drawn.noisy.selected
        first, last = self._ends(drawn, line)
        values = _value(measure, selected * line.places)
        low = _value(measure, first * line.places, -measure.off)
        end = np.where(last == line.cells - 1, measure.steps, (last + 1) * line.places - 1)
        return Figure(value=np.where(strong, values, np.nan), interval=Ends(low, _value(measure, end, measure.off)))

    def _ends(self, drawn: QuantilesOfCells, line: ValueLine) -> tuple[Int64Array, Int64Array]:
        """The first and the last cell of values in which the exact quantile may be."""
        level, selected = float(quantile_level(drawn.name)), drawn.noisy.selected
        first, last = selected.copy(), selected.copy()
        for cells, cuts, counts in _by_rings(drawn.noisy, line.cells):
            edges = cuts.shape[1] - 2
            if not edges:
                continue
            low, high = self._reach(edges + 1, level, 1 / float(drawn.noisy.epsilon))
            upto = np.cumsum(counts, axis=1)
            excess = upto[:, :-1] - level * upto[:, -1:]
            rows = np.arange(cells.size)
            passed = np.argmin(np.column_stack([excess < low - level, np.zeros(cells.size, dtype=bool)]), axis=1)
            after = (excess > high + 1 - level)[:, ::-1]
            failed = np.argmin(np.column_stack([after, np.zeros(cells.size, dtype=bool)]), axis=1)
            first[cells] = np.minimum(cuts[rows, passed], selected[cells])
            last[cells] = np.maximum(cuts[rows, edges + 1 - failed] - 1, selected[cells])
        return first, last

    def _reach(self, ring_count: int, level: float, scale: float) -> tuple[FloatArray, FloatArray]:
        """The quantiles of the noise of D at the inner edges of so many rings, at both ends."""
        drawn = SeededNoise(self.seed).two_sided((COPIES, ring_count), scale=scale)
        upto = np.cumsum(drawn, axis=1, dtype=np.float64)
        spread, tail = (upto - level * upto[:, -1:])[:, :-1], 1 - self.confidence
        low, high = np.quantile(spread, [tail, 1 - tail], axis=0)
        return low, high


def _by_rings(noisy: NoisyQuantiles, size: int) -> Iterator[tuple[Int64Array, Int64Array, Int64Array]]:
    """The cells of a table with equally many rings: their numbers, and the edges and counts of their rings."""
    cuts = [rings(at, size) for at in noisy.selected.tolist()]
    lengths = np.array([one.size - 1 for one in cuts])
    starts = np.cumsum(lengths) - lengths
    for length in np.unique(lengths).tolist():
        cells = np.flatnonzero(lengths == length)
        edges = np.array([cuts[cell] for cell in cells.tolist()])
        yield cells, edges, noisy.around[starts[cells][:, None] + np.arange(length)]


def _value(measure: Measured, places: Int64Array, off: float = 0.0) -> FloatArray:
    """The values at these places of a measure's lattice, moved by ``off`` and within its bounds."""
    lower, upper = measure.bounds
    step = (upper - lower) / measure.steps if measure.step is None else measure.step
    return published(np.clip(lower + places * step + off, lower, upper))


def quantiles_by_name(drawn: Sequence[QuantilesOfCells] | None) -> dict[tuple[int, str], QuantilesOfCells]:
    """The quantiles of a draw, by the number of the measure and the name of the quantile."""
    return {(one.measure, one.name): one for one in drawn or ()}
