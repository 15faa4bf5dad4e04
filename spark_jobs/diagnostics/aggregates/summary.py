"""A released table of aggregates, computed from a draw; deterministic, and without further noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.contract.results.aggregates import Aggregate, AggregateTable, CellsOfTable, LookedUp
from spark_jobs.diagnostics.aggregates.cell_figures import MeasuredCells
from spark_jobs.diagnostics.aggregates.estimates import CellEstimates, estimates
from spark_jobs.diagnostics.aggregates.measurement import AggregatesDraw
from spark_jobs.diagnostics.aggregates.quantiles import QuantileReader, QuantilesOfCells, quantiles_by_name
from spark_jobs.diagnostics.aggregates.rounding import published
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling

OK_FROM_STDDEVS = 4.0
EMPTY_SHOWN = 0.05
"""The chance that any cell of a table without rows is ``ok``."""


def summarise(draw: AggregatesDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> AggregateTable:
    """The table of a draw; the same draw and seed give the same table.

    Counts and sums are unbiased. Intervals of means are by inversion (``ratios``). A cell is ``ok`` from a public
    number of rows on, chosen so that with probability 95% no empty cell reaches this number. With marginals, all tables
    are made consistent. The law of the noise is simulated if there are marginals, or if several sums are of one value;
    otherwise it has a closed form, and no seed is used.

    Args:
        draw: the measurement.
        seed: seed of the simulations.
        sampling: what was sampled, rows or units of several rows. It is used for intervals for the population; only
            means whose variance is released have them.
    """
    effect = sampling.effect().value
    drawn = (draw.quantiles, *(one.quantiles for one in draw.marginals))
    every, *marginals = (
        _fields(one, draw, quantiles_by_name(own), effect, seed)
        for one, own in zip(estimates(draw, seed), drawn, strict=True)
    )
    return AggregateTable(
        **every,
        marginals=tuple(CellsOfTable(**one) for one in marginals),
        confidence=draw.confidence,
        epsilon=draw.epsilon,
        rho=draw.rho,
        neighbours=draw.neighbours,
        guarantee=draw.guarantee,
        lookups=tuple(
            LookedUp(column=one.column, lookup=one.lookup.name, value=one.lookup.value, sha256=one.lookup.sha256)
            for one in draw.design.by
            if one.lookup is not None
        ),
    )


def _fields(
    of: CellEstimates,
    draw: AggregatesDraw,
    quantiles: Mapping[tuple[int, str], QuantilesOfCells],
    effect: float,
    seed: int,
) -> dict[str, Any]:
    """The fields of a table's cells."""
    rows, law, design = of.rows, of.law(), draw.design
    ok_from = max(OK_FROM_STDDEVS * law.stddev(1.0, 0.0), law.count_above(EMPTY_SHOWN / rows.size))
    strong = rows >= ok_from
    reach = law.quantile(draw.confidence, np.ones(1), np.zeros(1))
    low, high = np.minimum(np.maximum(rows - reach, 0.0), rows), np.maximum(rows + reach, 0.0)
    measured = [
        MeasuredCells(
            of=of, measure=measure, level=draw.confidence, strong=strong, effect=effect, seed=seed,
            terms={term.power: place for place, term in enumerate(design.terms) if term.measure == number},
        )
        for number, measure in enumerate(design.measures)
    ]  # fmt: skip
    reader = QuantileReader(design=design, confidence=draw.confidence, seed=seed)
    by_name = {one.measure.of: one for one in measured}
    return {
        "by": tuple(design.by[one].name for one in of.table),
        "keys": tuple(design.by[one].labels for one in of.table),
        "status": tuple(np.where(strong, OK, WEAK).tolist()),
        "ok_from": float(published(np.array([ok_from]))[0]),
        "count": Figure(value=published(rows), interval=Ends(published(low), published(high))),
        "incomplete": published(of.incomplete) if design.measures else None,
        "rows": float(published((rows.sum() + of.incomplete.sum())[None])[0]),
        "measures": tuple(
            Aggregate(
                name=name,
                of=one.measure.of,
                bounds=one.measure.bounds,
                values=reader.figure(quantiles[number, name], strong)
                if (number, name) in quantiles
                else one.figure(name),
            )
            for number, one in enumerate(
                one if one.measure.outcome is None else replace(one, outcome=by_name.get(one.measure.outcome))
                for one in measured
            )
            for name in one.measure.figures
        ),
    }
