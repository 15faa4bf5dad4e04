"""The page of a table of aggregates: its data file, its plots and its section of the report."""

from __future__ import annotations

import re

import numpy as np

from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import OK
from spark_jobs.contract.options.measures import (
    PINBALL,
    QUANTILE,
    UNITS,
    figure_kind,
    figure_level,
    quantile_level,
)
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.aggregates import Aggregate, AggregateTable, CellsOfTable
from spark_jobs.diagnostics.aggregates.plots import TITLE, labels_of, picture
from spark_jobs.publishing.formats import ABSENT, SPACE, count, level, one_line
from spark_jobs.publishing.rendering import (
    Column,
    Measure,
    Multiples,
    Rendering,
    Section,
    ValueTable,
    figure_columns,
    finite,
)
from spark_jobs.publishing.value_axis import number
from spark_jobs.wording.amounts import listed

MAX_LISTED, MAX_FIGURES = 24, 6
"""The most cells that are listed, and the most figures of them that are drawn; the data file has all."""
_NAMES = {
    "sd": "Standard deviation",
    "mae": "Mean absolute error",
    "rmse": "Root mean squared error",
    "r2": "R²",
    "interval_coverage": "Share of outcomes within the interval",
}
_NAME_CHARACTERS = 40


def render(result: AggregateTable, request: ReleaseRequest) -> Rendering:
    """Data file, plots and section of a released table, with one row per cell, empty or not."""
    if not result.cells:
        return Rendering(columns=_columns(result, result.confidence), plots=(), section=_section(result))
    figures_of = [
        (name_of(one), picture(result, one.values, name_of(one), f"aggregates_figure_{place}", result.confidence))
        for place, one in enumerate(result.measures[:MAX_FIGURES])
    ]
    totals = [
        (f"Rows {_of(one)}", picture(one, one.count, "Rows", f"aggregates_marginal_{place}", result.confidence))
        for place, one in enumerate(result.marginals[:MAX_FIGURES])
    ]
    note = (
        f"Weak cells are grey. Whiskers are {level(result.confidence)} intervals for the same rows without noise; "
        "those of shaded tables, in which orange is below 0, are in the data file."
    )
    headed = (
        (
            "Sums and means" if {one.name for one in result.measures} <= {"sum", "mean"} else "Figures by cell",
            figures_of,
        ),
        ("By fewer dimensions", totals),
    )
    return Rendering(
        columns=_columns(result, result.confidence),
        plots=(picture(result, result.count, "Rows", "aggregates", result.confidence),),
        section=_section(result),
        multiples=tuple(
            Multiples(heading=heading, note=note, plots=tuple((text, "", plot) for text, plot in plots), wide=True)
            for heading, plots in headed
            if plots
        ),
        tables={
            f"aggregates_marginal_{place}": _columns(one, result.confidence)
            for place, one in enumerate(result.marginals)
        },
    )


def _over(result: AggregateTable) -> str:
    return "on average over all cells" if result.released_above is None else "given that a key is released"


def _of(table: CellsOfTable) -> str:
    return f"by {listed([one_line(name, _NAME_CHARACTERS) for name in table.by])}" if table.by else "in all"


def name_of(one: Aggregate) -> str:
    """The name of a figure as the page shows it."""
    if one.name == UNITS:
        return f"Distinct {one_line(one.of, _NAME_CHARACTERS)}"
    name = _NAMES.get(one.name) or one.name.capitalize()
    if figure_kind(one.name) == QUANTILE:
        level_of = quantile_level(one.name)
        name = "Median" if one.name == "p50" else f"Quantile {plain(level_of)}"
    if figure_kind(one.name) == PINBALL:
        name = f"Pinball loss at level {figure_level(one.name):g}"
    return f"{name} of {one_line(one.of, _NAME_CHARACTERS)}"


def _columns(result: CellsOfTable, confidence: float) -> dict[str, Column]:
    nominal = f"end of its {100 * confidence:.4g} % confidence interval, for the same rows without noise"
    columns: dict[str, Column] = {}
    sizes = [len(keys) for keys in result.keys]
    for place, (name, keys) in enumerate(zip(result.by, result.keys, strict=True)):
        inner, outer = int(np.prod(sizes[place + 1 :])), int(np.prod(sizes[:place]))
        values = np.tile(np.repeat(np.array(keys, dtype=object), inner), outer)
        columns[_free(f"by_{name}", columns)] = Column(values=values, meaning=f"group of {name}")
    columns["status"] = Column(
        values=np.array(result.status, dtype=object), meaning="ok, or weak: the noise may be all that is there"
    )
    columns |= figure_columns(
        result, "count", "noisy number of rows, unbiased: it may be below 0", {"interval": nominal}
    )
    if result.incomplete is not None:
        columns["incomplete"] = Column(
            values=result.incomplete, meaning="noisy number of rows without a value of one of the measures"
        )
    for one in result.measures:
        stem = _free(f"{one.name}_{one.of}", columns)
        columns[stem] = Column(values=one.values.value, meaning=f"{one.name} of {one.of}")
        for end, values in zip(Ends._fields, one.values.ends(), strict=True):
            columns[f"{stem}_{end}"] = Column(values=values, meaning=f"{end} {nominal}")
        if one.values.population is not None:
            for end, values in zip(Ends._fields, one.values.population, strict=True):
                meaning = f"{end} end of its {100 * confidence:.4g} % confidence interval for the population"
                columns[f"{stem}_population_{end}"] = Column(values=values, meaning=meaning)
    return columns


def _free(name: str, taken: dict[str, Column]) -> str:
    """A name of letters, digits and underscores that no other column has."""
    stem = re.sub(r"\W+", "_", name).strip("_")
    return next(one for one in (stem, *(f"{stem}_{place}" for place in range(2, len(taken) + 3))) if one not in taken)


def _section(result: AggregateTable) -> Section:
    weak = sum(status != OK for status in result.status)
    sampled = any(one.values.population is not None for one in result.measures)
    of = [one_line(name, _NAME_CHARACTERS) for name in result.by]
    return Section(
        title=f"Counts by {listed(of)}" if of and not result.measures else f"Table by {listed(of)}" if of else TITLE,
        reading=(
            "Each row of the table is a cell: a combination of groups. Every cell is released, empty or not."
            if result.released_above is None
            else f"Each row of the table is a key that was found in the rows: of at least {result.min_units} units, "
            f"with more than {number(result.released_above, 4)} noisy rows. What other keys there are stays private.",
            f"Intervals hold {level(result.confidence)} of the time, {_over(result)}, for the same rows "
            "without noise. They do not account for the sampling of the rows"
            + ("; those of means that do are in the data file." if sampled else "."),
        ),
        measures=(
            Measure(label="Rows", value=f"≈{SPACE}{count(result.rows)}", note="released with noise, all cells"),
            *(
                Measure(
                    label=name_of(one),
                    value=number(float(one.values.value[0]), 6) if finite(float(one.values.value[0])) else ABSENT,
                    note=f"in all, {_interval(one.values.at(0))}",
                )
                for total in result.marginals
                if not total.by
                for one in total.measures[:MAX_FIGURES]
            ),
            Measure(label="Cells", value=f"{result.cells:,}", note="combinations of groups"),
            Measure(
                label="Weak cells",
                value=f"{weak:,}",
                note=f"below {number(result.ok_from, 3)} noisy rows: the noise may be all that is there",
            ),
        ),
        table=_table(result),
        notes=_notes(result),
        notice="No key was released: none has enough rows, or the noise hid it. The release has been made and charged "
        "like any other."
        if not result.cells
        else None
        if weak < result.cells or not result.measures
        else "No cell has enough rows for this noise to show a mean. The release has been made and charged like any "
        "other.",
    )


def _table(result: AggregateTable) -> ValueTable:
    shown = result.measures[: MAX_FIGURES // 2]
    rows = [
        (
            ", ".join(one_line(label, _NAME_CHARACTERS) for label in labels) or "all rows",
            number(float(result.count.value[cell]), 6),
            _interval(result.count.at(cell)),
            *(text for one in shown for text in _cell(one.values.at(cell))),
            result.status[cell],
        )
        for cell, labels in enumerate(labels_of(result, MAX_LISTED))
    ]
    interval = f"{level(result.confidence)} interval"
    cells = "All cells." if result.cells <= MAX_LISTED else f"The first {MAX_LISTED} of {result.cells:,} cells."
    return ValueTable(
        caption=f"{cells} The data file has one row per cell, and every figure.",
        header=("Cell", "Rows", interval, *(text for one in shown for text in (name_of(one), interval)), "Status"),
        rows=tuple(rows),
    )


def _cell(figure: Figure[float]) -> tuple[str, str]:
    return number(figure.number, 6) if finite(figure.number) else ABSENT, _interval(figure)


def _interval(figure: Figure[float]) -> str:
    return " to ".join(number(float(end), 6) for end in figure.ends())


def _notes(result: AggregateTable) -> tuple[str, ...]:
    notes = [
        *(
            (
                f"Tables {listed([_of(one) for one in result.marginals])} were measured too, each at its share of "
                "the budget. All tables were then made to agree, which makes each of them nearer.",
            )
            if result.marginals
            else ()
        ),
        "The groups are those of the request, never those of the rows. A row is in one cell only, so every cell is "
        f"released at the full {'epsilon' if result.rho is None else 'rho'}. Counts and sums are unbiased, so that "
        "those of few rows may be below 0."
        if result.released_above is None
        else "One draw of noise decides whether a key is released and is in its numbers, which are therefore too large "
        "on average for keys of few rows; intervals allow for it. A unit counts with one row in each key. No key that "
        "one unit alone has can be here.",
        *(
            f"{one_line(of.value, _NAME_CHARACTERS)} is what the public lookup {one_line(of.lookup, _NAME_CHARACTERS)} "
            f"(SHA-256 {of.sha256}) has for a row's {one_line(of.column, _NAME_CHARACTERS)}."
            for of in result.lookups
        ),
    ]
    if result.measures:
        ranges = {one.of: one.bounds for one in result.measures if one.name != UNITS}
        clipped = (
            f"{one_line(of, _NAME_CHARACTERS)} to the range {number(low, 4)} to {number(high, 4)}"
            for of, (low, high) in ranges.items()
        )
        if ranges:
            notes.append(
                f"Values are clipped to public bounds: {listed(list(clipped))}. A row without a value of one of them "
                "counts as incomplete, in no mean and no sum."
            )
        if any(figure_kind(one.name) == QUANTILE for one in result.measures):
            notes.append(
                "Each quantile has a share of the budget of its own, half of it for the interval, and those of several "
                "cells together are their own, too: they do not follow from those of the cells. The smallest and the "
                "largest value are not released, as each is one row's own."
            )
        if len(ranges) < len({one.of for one in result.measures}):
            notes.append("Distinct units are those of the rows that count: of one unit only so many rows are used.")
    return tuple(notes)
