"""A released table of aggregates, computed from a draw; deterministic, and without further noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.contract.figure import Ends, Figure, Numbers
from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.contract.options import AggregateCells, Measured
from spark_jobs.contract.results.aggregates import Aggregate, AggregateTable, CellsOfTable
from spark_jobs.diagnostics.aggregates.measurement import AggregatesDraw
from spark_jobs.diagnostics.aggregates.ratios import ratio_intervals
from spark_jobs.diagnostics.aggregates.simulated import SimulatedNoise, simulated
from spark_jobs.mechanisms.cell_noise import CellNoise
from spark_jobs.mechanisms.marginals import Dimensions, consistent
from spark_jobs.mechanisms.noise import SeededNoise

DIGITS = 12
"""Significant digits of published numbers; further ones differ between machines."""
OK_FROM_STDDEVS = 4.0
EMPTY_SHOWN = 0.05
"""The chance that any cell of a table without rows is ``ok``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CellEstimates:
    """Unbiased numbers of the cells of one table, and the law of their noise.

    Attributes:
        table: its dimensions.
        rows, incomplete: shape (k,).
        centred: sums of values that are scaled to [-1, 1]; shape (measures, k).
        law: of the noise in ``rows`` and in each of ``centred``.
    """

    table: Dimensions
    rows: FloatArray
    incomplete: FloatArray
    centred: FloatArray
    law: CellNoise | SimulatedNoise


def summarise(draw: AggregatesDraw, *, seed: int) -> AggregateTable:
    """The table of a draw; the same draw and seed give the same one.

    Counts and sums are unbiased. Intervals of means are by inversion (``ratios``). A cell is ``ok`` from a public
    number of rows on, which is so large that with probability 95% no cell without rows reaches it. With marginals, all
    tables are made to agree, and the law of their noise is simulated; otherwise it is known, and no seed is used.
    """
    every, *marginals = _estimates(draw, seed)
    return AggregateTable(
        **_fields(every, draw),
        marginals=tuple(CellsOfTable(**_fields(one, draw)) for one in marginals),
        confidence=draw.confidence,
        epsilon=draw.epsilon,
        neighbours=draw.neighbours,
        guarantee=draw.guarantee,
    )


def _estimates(draw: AggregatesDraw, seed: int) -> list[CellEstimates]:
    """The numbers of each table: as they were drawn, or consistent with those of the others."""
    sizes = [len(dimension.labels) for dimension in draw.design.by]
    drawn = {tuple(range(len(sizes))): draw.cells, **{one.dimensions: one.cells for one in draw.marginals}}
    numbers = {
        table: np.stack([cells.rows, *cells.centred, *([cells.incomplete] if cells.steps else [])])
        for table, cells in drawn.items()
    }
    laws: dict[Dimensions, CellNoise | SimulatedNoise] = {table: cells.law for table, cells in drawn.items()}
    if len(drawn) > 1:
        costs = {table: float(cells.epsilon) for table, cells in drawn.items()}
        single = {table: cells.law for table, cells in drawn.items()}
        shaped = {
            table: values.reshape((len(values), *(sizes[one] for one in table))) for table, values in numbers.items()
        }
        numbers = {table: values.reshape(len(values), -1) for table, values in consistent(shaped, sizes, costs).items()}
        laws = dict(simulated(single, sizes, costs, SeededNoise(seed)))
    return [
        CellEstimates(
            table=table,
            rows=values[0],
            centred=values[1 : 1 + len(draw.design.measures)],
            incomplete=values[1 + len(draw.design.measures) :].sum(axis=0),
            law=laws[table],
        )
        for table, values in numbers.items()
    ]


def _fields(of: CellEstimates, draw: AggregatesDraw) -> dict[str, Any]:
    """The fields of a table's cells."""
    rows, law, design = of.rows, of.law, draw.design
    ok_from = max(OK_FROM_STDDEVS * law.stddev(1.0, 0.0), law.count_above(EMPTY_SHOWN / rows.size))
    strong = rows >= ok_from
    reach = law.quantile(draw.confidence, np.ones(1), np.zeros(1))
    low, high = np.minimum(np.maximum(rows - reach, 0.0), rows), np.maximum(rows + reach, 0.0)
    return {
        "by": tuple(design.by[one].column for one in of.table),
        "keys": tuple(design.by[one].labels for one in of.table),
        "status": tuple(np.where(strong, OK, WEAK).tolist()),
        "ok_from": float(published(np.array([ok_from]))[0]),
        "count": Figure(value=published(rows), interval=Ends(published(low), published(high))),
        "incomplete": published(of.incomplete) if design.measures else None,
        "rows": float(published((rows.sum() + of.incomplete.sum())[None])[0]),
        "measures": tuple(_measures(of, design, draw.confidence, strong)),
    }


def _measures(of: CellEstimates, design: AggregateCells, level: float, strong: BoolArray) -> Iterator[Aggregate]:
    for number, measure in enumerate(design.measures):
        for name in measure.figures:
            centred = of.centred[number]
            figure = (
                _sums(of, centred, measure, level) if name == "sum" else _means(of, centred, measure, level, strong)
            )
            yield Aggregate(name=name, of=measure.of, bounds=measure.bounds, values=figure)


def _sums(of: CellEstimates, centred: FloatArray, measure: Measured, level: float) -> Numbers:
    """Sums of values: of ``middle + half a`` over the rows."""
    values = measure.middle * of.rows + measure.half * centred
    reach = measure.half * of.law.quantile(level, np.array([measure.middle / measure.half]), np.ones(1))
    # rounding moves each row; there are no more rows than the end of their interval says, but for the error below
    moved = measure.off * np.maximum(of.rows + of.law.quantile(level, np.ones(1), np.zeros(1)), 0.0)
    return Figure(
        value=published(values), interval=Ends(published(values - reach - moved), published(values + reach + moved))
    )


def _means(of: CellEstimates, centred: FloatArray, measure: Measured, level: float, strong: BoolArray) -> Numbers:
    lower, upper = ratio_intervals(centred, of.rows, of.law, level)
    means = np.clip(centred / np.maximum(of.rows, 1.0), -1.0, 1.0)
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
