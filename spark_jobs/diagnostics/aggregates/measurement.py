"""The random part of a table of aggregates: noisy numbers of every cell."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.contract.options import AggregateCells, AggregatesSettings
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.mechanisms.cell_sums import NoisyCellSums, noisy_cell_sums
from spark_jobs.statistics import AggregateSums


@dataclass(frozen=True, kw_only=True, eq=False)
class AggregatesDraw(Draw):
    """Noisy numbers of every cell, with the public facts that are needed to interpret them.

    Attributes:
        design: dimensions and measures.
        confidence: nominal level of intervals.
        cells: the noisy numbers.
    """

    design: AggregateCells
    confidence: float
    cells: NoisyCellSums


def measure_cells(statistic: AggregateSums, options: AggregatesSettings, terms: Terms) -> AggregatesDraw:
    """Draw the noise of all cells.

    Guarantee: ``epsilon``-DP for one row added, removed or replaced (``mechanisms.cell_sums``).

    Args:
        statistic: exact rows and sums of every cell; private.
        options: the settings.
        terms: budget, relation and noise; all of epsilon is spent.
    """
    meter = terms.meter()
    design = statistic.design
    epsilon = meter.spend_rest(label="rows and sums of all cells together")
    cells = noisy_cell_sums(
        statistic.rows,
        statistic.incomplete,
        statistic.sums,
        [measure.steps for measure in design.measures],
        epsilon=epsilon,
        neighbours=terms.neighbours,
        noise=terms.noise,
    )
    return AggregatesDraw(
        design=design,
        confidence=options.confidence,
        cells=cells,
        neighbours=terms.neighbours,
        guarantee=terms.noise.guarantee,
        spendings=meter.spendings,
    )
