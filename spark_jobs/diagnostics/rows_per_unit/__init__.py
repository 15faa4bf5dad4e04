"""A bound on the rows of a unit, chosen under differential privacy, for ``max_rows: auto`` of a later table.

A table of counts that keeps at most M rows of a unit has noise in proportion to M, and loses the rows beyond. Which M
is best depends on how many rows units have, which is private. Here M is chosen from a public list of candidates, by how
many units have more rows than the candidate (``mechanisms.row_choice``), and nothing else is released.

Guarantee: ``epsilon``-DP for one unit with all its rows added, removed or replaced.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> units = [f"customer {number % 1000}" for number in range(4000)]
    >>> counted = UnitRowCounts.from_arrays({}, units, largest=100)
    >>> released = release(counted, epsilon=1, units_above=10, noise=SeededNoise(1))
    >>> released.bound, released.guarantee
    (4, 'NOT PRIVATE')
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.contract.figures import OK
from spark_jobs.contract.options.rows_per_unit import (
    RowsPerUnit,
    RowsPerUnitOptions,
    RowsPerUnitSettings,
    candidates_up_to,
)
from spark_jobs.diagnostics.diagnostic import Diagnostic, Draw, Measurement, Terms
from spark_jobs.mechanisms.row_choice import choose_rows, tolerance_of
from spark_jobs.statistics import UnitRowCounts

__all__ = ["DIAGNOSTIC", "RowsPerUnit", "RowsPerUnitDraw", "measure", "release", "summarise"]

_CONFIDENCE = 0.9
"""That of every result; this one has no interval."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsPerUnitDraw(Draw):
    """The chosen candidate.

    Attributes:
        largest: the largest candidate.
        units_above: how many units may have more rows than the bound.
        place: index of the chosen candidate.
    """

    largest: int
    units_above: int
    place: int


def measure_choice(statistic: UnitRowCounts, options: RowsPerUnitSettings, terms: Terms) -> RowsPerUnitDraw:
    """Choose a candidate; ``epsilon``-DP for one unit added, removed or replaced. See ``mechanisms.row_choice``."""
    meter = terms.meter()
    place = choose_rows(
        statistic.counts,
        units_above=options.units_above,
        epsilon=meter.spend_rest(label="choice of a bound on the rows of a unit"),
        noise=terms.noise,
    )
    return RowsPerUnitDraw.of(
        terms, meter, largest=statistic.design.largest, units_above=options.units_above, place=place
    )


def summarise(draw: RowsPerUnitDraw, *, seed: int) -> RowsPerUnit:
    """The bound of a draw; nothing is simulated, so that the seed does not matter."""
    return RowsPerUnit(
        bound=candidates_up_to(draw.largest)[draw.place],
        largest=draw.largest,
        units_above=draw.units_above,
        tolerance=tolerance_of(draw.epsilon),
        status=OK,
        confidence=_CONFIDENCE,
        **draw.stated,
    )


class Call(RowsPerUnitSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=RowsPerUnitOptions,
    call=Call,
    measurement=Measurement[UnitRowCounts, RowsPerUnitDraw](draw=RowsPerUnitDraw, measure=measure_choice),
    summarise=summarise,
    of_population=False,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
