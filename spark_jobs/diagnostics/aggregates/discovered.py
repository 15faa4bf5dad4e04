"""A released table whose keys were discovered, with intervals that hold for the keys that passed the threshold.

A key is released if its noisy rows Y exceed a public threshold. So among keys of few rows, only those with large noise
are released. Intervals here hold given that the key was released, whatever its number of rows n, with probability
at least 1 - alpha (but see the last point). Let S(x) be the chance that the noise in rows exceeds x, and b the
smallest number of rows that is ever released:

* Rows: the interval ends at ``Y + reach``, where S(reach) is alpha / 2, and begins at the smallest n that is at least
  ``min_units`` and has ``S(Y - n) / S(b - n) >= alpha / 2``. The quotient is the chance that a released key with n rows
  shows a number as large as Y; it rises with n, because the noise is log-concave. If a key with n rows is released with
  chance r, the upper end misses n with chance ``(alpha / 2 - (1 - r)) / r`` at most, given the release.
* A cell is ``ok`` from ``ok_from = b + a`` noisy rows on, with ``2 S(a) = alpha / 2``. So a released key with b rows or
  fewer is ``ok`` with chance ``alpha / 2`` at most; with fewer rows, large excesses over b are rarer. Other cells are
  ``weak``: their mean may be anywhere within its bounds, and their sum is within what the interval of their rows and
  the bounds allow.
* Means and sums of ``ok`` cells have the intervals of public groups. A key with more than b rows is released with
  chance ``r >= 1/2``, and its interval misses with chance ``min(alpha, P(ok)) / r``: in simulations at most alpha.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.contract.options import Measured
from spark_jobs.contract.results.aggregates import Aggregate, AggregateTable
from spark_jobs.diagnostics.aggregates import summary
from spark_jobs.diagnostics.aggregates.cell_figures import MeasuredCells
from spark_jobs.diagnostics.aggregates.estimates import CellEstimates
from spark_jobs.diagnostics.aggregates.measurement import AggregatesDraw
from spark_jobs.diagnostics.aggregates.rounding import published
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.mechanisms.cell_noise import CellNoise
from spark_jobs.mechanisms.discovered_keys import DiscoveredKeys, steps_of_row

_HALVINGS = 60


def summarise(draw: AggregatesDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> AggregateTable:
    """The table of a draw, a function of draw and seed; public groups are left to ``summary.summarise``."""
    if draw.discovered is None:
        return summary.summarise(draw, seed=seed, sampling=sampling)
    cells, law, miss = draw.cells, draw.cells.law, 1 - draw.confidence
    rows = cells.rows
    incomplete = cells.incomplete.astype(np.float64) if cells.steps else np.zeros(rows.size)
    of = CellEstimates(
        table=(0,), rows=rows, incomplete=incomplete, centred=cells.centred[: len(cells.steps)], noise=law
    )
    boundary = draw.discovered.threshold + 1 / steps_of_row(cells)
    ok_from = boundary + float(law.quantile(1 - miss / 2, np.ones(1), np.zeros(1))[0])
    strong = rows >= ok_from
    upper = rows + law.quantile(draw.confidence, np.ones(1), np.zeros(1))
    lower = _fewest(rows, law, boundary, draw.discovered, miss / 2)
    measures = (
        Aggregate(name=name, of=one.measure.of, bounds=one.measure.bounds, values=one.figure(name))
        for place, measure in enumerate(draw.design.measures)
        for one in [_cells_of(of, measure, place, draw.confidence, strong)]
        for name in measure.figures
    )
    return AggregateTable(
        by=(draw.design.by[0].column,),
        keys=(draw.discovered.keys,),
        status=tuple(np.where(strong, OK, WEAK).tolist()),
        ok_from=float(published(np.array([ok_from]))[0]),
        count=Figure(value=published(rows), interval=Ends(published(lower), published(upper))),
        incomplete=published(incomplete) if draw.design.measures else None,
        rows=float(published((rows.sum() + incomplete.sum())[None])[0]),
        measures=tuple(_within_reach(measures, strong, lower, upper)),
        marginals=(),
        released_above=float(published(np.array([draw.discovered.threshold]))[0]),
        min_units=draw.discovered.min_units,
        confidence=draw.confidence,
        epsilon=draw.epsilon,
        neighbours=draw.neighbours,
        guarantee=draw.guarantee,
    )


def _cells_of(of: CellEstimates, measure: Measured, place: int, level: float, strong: BoolArray) -> MeasuredCells:
    # of means and sums alone, so that nothing is simulated
    return MeasuredCells(of=of, measure=measure, terms={"value": place}, level=level, strong=strong, effect=1.0, seed=0)


def _fewest(rows: FloatArray, law: CellNoise, boundary: float, keys: DiscoveredKeys, chance: float) -> FloatArray:
    """The fewest rows of which a released number this large has at least this chance, by halving."""

    def likely(number: FloatArray) -> BoolArray:
        return np.asarray(_above(law, rows - number) >= chance * _above(law, boundary - number))

    low = np.full(rows.size, float(keys.min_units))
    high = np.maximum(rows, low)  # the noise is above 0 half of the time
    fits = likely(low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        inside = likely(middle)
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    return np.minimum(np.where(fits, float(keys.min_units), high), rows)


def _above(law: CellNoise, number: FloatArray) -> FloatArray:
    """The probability that the noise in rows exceeds a number."""
    one_side = law.beyond(np.abs(number), np.ones(number.shape), np.zeros(number.shape)) / 2
    return np.where(number >= 0, one_side, 1 - one_side)


def _within_reach(
    measures: Iterator[Aggregate], strong: BoolArray, lower: FloatArray, upper: FloatArray
) -> Iterator[Aggregate]:
    """The figures with intervals of weak cells that the bounds and the rows allow."""
    for one in measures:
        first, last = one.bounds
        if one.name == "mean":
            ends = Ends(np.full(strong.size, first), np.full(strong.size, last))
        else:  # values lie within the bounds, so that rounding to a lattice has no part in it
            low, high = np.minimum(first * lower, first * upper), np.maximum(last * lower, last * upper)
            ends = Ends(published(np.minimum(low, one.values.value)), published(np.maximum(high, one.values.value)))
        own = one.values.ends()
        within = Ends(*(np.where(strong, given, weak) for given, weak in zip(own, ends, strict=True)))
        yield replace(one, values=replace(one.values, interval=within))
