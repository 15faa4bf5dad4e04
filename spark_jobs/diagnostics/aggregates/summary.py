"""A released table of aggregates, computed from a draw; deterministic, and without further noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.contract.figure import Ends, Figure, Numbers
from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.contract.options import Measured
from spark_jobs.contract.results.aggregates import Aggregate, AggregateTable
from spark_jobs.diagnostics.aggregates.measurement import AggregatesDraw
from spark_jobs.diagnostics.aggregates.ratios import ratio_intervals
from spark_jobs.mechanisms.cell_noise import CellNoise

DIGITS = 12
"""Significant digits of published numbers; further ones differ between machines."""
OK_FROM_STDDEVS = 4.0
EMPTY_SHOWN = 0.05
"""The chance that any cell without rows is ``ok``."""


def summarise(draw: AggregatesDraw, *, seed: int) -> AggregateTable:
    """The table of a draw; the same draw gives the same one, whatever the seed, as every law is known in closed form.

    Counts and sums are unbiased. Intervals of means are by inversion (``ratios``). A cell is ``ok`` from a public
    number of rows on, which is so large that with probability 95% no cell without rows reaches it.
    """
    cells, law, design = draw.cells, draw.cells.law, draw.design
    rows = cells.rows
    ok_from = max(OK_FROM_STDDEVS * law.stddev(1.0, 0.0), law.count_above(EMPTY_SHOWN / rows.size))
    strong = rows >= ok_from
    reach = law.quantile(draw.confidence, np.ones(1), np.zeros(1))
    count = Figure(
        value=published(rows),
        interval=Ends(
            published(np.minimum(np.maximum(rows - reach, 0.0), rows)), published(np.maximum(rows + reach, 0))
        ),
    )
    measures = [
        Aggregate(name=name, of=measure.of, bounds=measure.bounds, values=figure)
        for number, measure in enumerate(design.measures)
        for name, figure in _figures(draw, measure, cells.centred[number], law, strong)
    ]
    return AggregateTable(
        by=tuple(dimension.column for dimension in design.by),
        keys=tuple(dimension.labels for dimension in design.by),
        status=tuple(np.where(strong, OK, WEAK).tolist()),
        ok_from=float(published(np.array([ok_from]))[0]),
        count=count,
        incomplete=published(cells.incomplete.astype(np.float64)) if design.measures else None,
        rows=float(published((rows.sum() + cells.incomplete.sum())[None])[0]),
        measures=tuple(measures),
        confidence=draw.confidence,
        epsilon=draw.epsilon,
        neighbours=draw.neighbours,
        guarantee=draw.guarantee,
    )


def _figures(
    draw: AggregatesDraw, measure: Measured, centred: FloatArray, law: CellNoise, strong: BoolArray
) -> Iterator[tuple[str, Numbers]]:
    rows = draw.cells.rows
    for name in measure.figures:
        if name == "sum":
            yield name, _sums(rows, centred, measure, law, draw.confidence)
        else:
            yield name, _means(rows, centred, measure, law, draw.confidence, strong)


def _sums(rows: FloatArray, centred: FloatArray, measure: Measured, law: CellNoise, level: float) -> Numbers:
    """Sums of values: of ``middle + half a`` over the rows."""
    values = measure.middle * rows + measure.half * centred
    weights = np.array([measure.middle]), np.array([measure.half])
    reach = law.quantile(level, *(weight / measure.half for weight in weights)) * measure.half
    # rounding moves each row; there are no more rows than the end of their interval says, but for the error below
    moved = measure.off * np.maximum(rows + law.quantile(level, np.ones(1), np.zeros(1)), 0.0)
    return Figure(
        value=published(values), interval=Ends(published(values - reach - moved), published(values + reach + moved))
    )


def _means(
    rows: FloatArray, centred: FloatArray, measure: Measured, law: CellNoise, level: float, strong: BoolArray
) -> Numbers:
    lower, upper = ratio_intervals(centred, rows, law, level)
    means = np.clip(centred / np.maximum(rows, 1.0), -1.0, 1.0)
    first, last = measure.bounds

    def as_values(ratios: FloatArray, off: float) -> FloatArray:
        return published(np.clip(measure.middle + measure.half * ratios + off, first, last))

    return Figure(
        value=np.where(strong, as_values(means, 0.0), np.nan),
        interval=Ends(as_values(lower, -measure.off), as_values(upper, measure.off)),
    )


def published(values: FloatArray) -> FloatArray:
    """``values`` to ``DIGITS`` significant digits, without negative zeros."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place = DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    scale = 10.0 ** np.clip(np.where(np.isfinite(place), place, 0.0), -300, 300)
    rounded: FloatArray = np.where(np.isfinite(scale), np.rint(values * scale) / scale, values)
    return rounded + 0.0
