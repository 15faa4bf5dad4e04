"""Private tables of counts, sums, means and variances by public dimensions, with intervals for groups of any size.

All numbers of a cell get their noise in one draw. A row is in one cell, so all cells together cost as much as one cell.
Dimensions are listed values, bins and calendar periods; the cells are all their combinations, and every cell is
released, empty or not. Keys that are not public are discovered for a delta: the keys that enough units have are
released, with their numbers.

Guarantee: ``epsilon``-DP for one row added, removed or replaced. See ``mechanisms.cell_sums``. If the budget is a rho,
rows and sums have Gaussian noise, and the guarantee is ``rho``-zCDP. See ``mechanisms.cell_gaussian``. With discovered
keys the guarantee is ``(epsilon, delta)``-DP for one row, where a unit has at most one row in each key. See
``mechanisms.discovered_keys``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> sums = AggregateSums.from_arrays(
    ...     {"region": ["north", "south"] * 2000, "spend": [10.0, 40.0] * 2000},
    ...     by=[{"column": "region", "values": ["north", "south"], "other": False}],
    ...     measures=[{"of": "spend", "bounds": [0, 100], "step": 0.01}],
    ... )
    >>> table = release(sums, epsilon=1, noise=SeededNoise(1))
    >>> table.of("mean", "spend").values.value.round().tolist(), table.place("south"), table.guarantee
    ([10.0, 40.0], 1, 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options import AggregatesOptions, AggregatesSettings
from spark_jobs.contract.results.aggregates import Aggregate, AggregateTable
from spark_jobs.diagnostics.aggregates.discovered import summarise
from spark_jobs.diagnostics.aggregates.measurement import AggregatesDraw, measure_cells
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, RhoTerms
from spark_jobs.statistics import AggregateSums, SumsByKey

__all__ = ["DIAGNOSTIC", "Aggregate", "AggregateTable", "AggregatesDraw", "measure", "release", "summarise"]


class Call(AggregatesSettings, RhoTerms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=AggregatesOptions,
    call=Call,
    measurement=Measurement[AggregateSums | SumsByKey, AggregatesDraw](draw=AggregatesDraw, measure=measure_cells),
    summarise=summarise,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
