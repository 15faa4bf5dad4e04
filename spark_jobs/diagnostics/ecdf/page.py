"""The page of a distribution function: its data file, its plot and its section of the report."""

from __future__ import annotations

import numpy as np

from spark_jobs.contract.options import EcdfOptions, ReferenceDistribution
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.values import Distance
from spark_jobs.diagnostics.ecdf.plots import (
    defined_comparison,
    ecdf_plot,
    is_defined,
    marks_text,
    quantile_text,
    value_text,
)
from spark_jobs.diagnostics.ecdf.result import Ecdf
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, one_line, p_text, percent
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Rendering,
    Section,
    ValueTable,
    figure_columns,
    known,
)
from spark_jobs.publishing.value_axis import number

_NAME_CHARACTERS = 60
_AT_BOUND, _IN_ONE_CELL = 0.01, 0.1
"""The shares of the rows in one cell from which a report says it: at a bound, and anywhere without a step."""


def render(result: Ecdf, request: ReleaseRequest) -> Rendering:
    """The data file, plot and section of a released function; names, columns and rows do not depend on the values."""
    return Rendering(
        columns=_columns(result), plots=(ecdf_plot(result, _reference(request)),), section=_section(result)
    )


def _reference(request: ReleaseRequest) -> ReferenceDistribution | None:
    references = [options.reference for options in request.diagnostics if isinstance(options, EcdfOptions)]
    return references[0] if references else None


def _columns(result: Ecdf) -> dict[str, Column]:
    nominal = f"{100 * result.confidence:.4g} %"
    bands = {
        "interval": f"pointwise {nominal} confidence band of the cdf that the same rows would have without noise",
        "everywhere": f"simultaneous {nominal} confidence band of the whole function",
    }
    columns = {
        "value": Column(values=result.values, meaning="start of the cell; values are rounded down to it"),
        **figure_columns(
            result, "function", "fraction of the rows whose rounded value is at most this one",
            {of: f"end of the {band}" for of, band in bands.items()},
        ),
    }  # fmt: skip
    if result.comparison is not None:
        distance = result.comparison.distance
        low, high = distance.figure.ends()
        columns["earlier_cdf"] = Column(
            values=result.comparison.cdf,
            meaning="cdf of the earlier release; "
            + (
                "its distance from this release is undefined"
                if distance.figure.value is None
                else f"its largest distance from this release is {distance.figure.value:g} ({low:g} to {high:g}), "
                f"at {known(distance.at):g}, with p-value {known(distance.p_value):g}"
            ),
        )
    return columns


def _name(result: Ecdf) -> str:
    """The name of the values in the report."""
    return "scores" if result.named is None else one_line(result.named, _NAME_CHARACTERS)


def _table(result: Ecdf) -> ValueTable:
    header = ["Share of the rows", "At most", f"{level(result.confidence)} interval"]
    compared = defined_comparison(result)
    rows = []
    for quantile in result.quantiles:
        cells = [ABSENT, ABSENT]
        if is_defined(result):
            cells = [value_text(result, quantile, 6), quantile_text(result, quantile)]
        if result.comparison is not None:
            cells.append(ABSENT if compared is None else number(float(result.earlier_quantile(quantile.level))))
        rows.append((percent(quantile.level), *cells))
    if result.comparison is not None:
        header.append("Earlier release")
    return ValueTable(
        caption=f"Quantiles of {_name(result)}: the smallest values that these shares of the rows do not exceed.",
        header=tuple(header),
        rows=tuple(rows),
    )


def _headline(result: Ecdf) -> Headline:
    low, high = result.bounds
    scale, label = (number(low, 4), number(high, 4)), f"Median of {_name(result)}"
    if not is_defined(result):
        return Headline(label=label, value="undefined", interval=None, scale=scale)
    median = result.median
    edges = np.append(result.values, high)
    places = [median.figure.lower, median.figure.number, median.figure.upper]
    marks = np.interp(places, edges, np.linspace(0.0, 1.0, edges.size))
    return Headline(
        label=label,
        value=value_text(result, median),
        interval=f"{level(result.confidence)} interval {quantile_text(result, median)}",
        scale=scale,
        marks=(float(marks[0]), float(marks[1]), float(marks[2])),
    )


def _measures(result: Ecdf) -> tuple[Measure, ...]:
    low, high = result.bounds
    measures = [
        Measure(
            label="Rows",
            value=f"≈{SPACE}{count(result.rows)}",
            note="with a score" if result.named is None else f"with a value of {_name(result)}",
        ),
        Measure(
            label="Bounds",
            value=f"{number(low, 4)} to {number(high, 4)}",
            note="found privately" if result.bounds_found else "public",
        ),
    ]
    if result.distance is not None:
        measures += _distance_measures(
            result.distance, "the reference", "Kolmogorov-Smirnov test", shown=is_defined(result)
        )
    if result.comparison is not None:
        shown = defined_comparison(result) is not None
        measures += _distance_measures(
            result.comparison.distance, "the earlier release", "Test of a change", shown=shown
        )
    return tuple(measures)


def _distance_measures(distance: Distance, to: str, test: str, *, shown: bool) -> tuple[Measure, Measure]:
    """The figures of a distance and of its test."""
    low, high = distance.figure.ends()
    return (
        Measure(
            label=f"Distance to {to}",
            value=decimals(distance.figure.value) if shown else ABSENT,
            note=f"{level(distance.confidence)} interval {decimals(low)} to {decimals(high)}, largest at "
            f"{number(known(distance.at), 4)}"
            if shown
            else "",
        ),
        Measure(
            label=test,
            value=p_text(known(distance.p_value), floor=known(distance.p_value_floor)) if shown else ABSENT,
            note="accounts for the noise",
        ),
    )


def _notes(result: Ecdf) -> tuple[str, ...]:
    notes = [
        "Values are rounded down to a fixed grid; values beyond the bounds count at the nearer bound. Bands and "
        "intervals account for the noise that protects these rows, not for the sampling of the rows.",
    ]
    if result.bounds_found:
        notes.append(
            "The bounds were found by noisy searches. Rows may lie beyond them, at any distance, so an interval that "
            "reaches a bound is open there."
        )
    notes += _heaped(result) if is_defined(result) else []
    if result.comparison is not None:
        earlier = result.comparison
        of = "its scores" if earlier.named is None else one_line(earlier.named, _NAME_CHARACTERS)
        notes.append(
            f"The earlier release is {one_line(earlier.released_by, 200)}, with {of}. The test asks whether both "
            "tables could be samples of one distribution: its p-value is the share of simulated pairs of samples, "
            "with the noise of both releases, that differ at least as much. The comparison costs no budget, because "
            "both releases are public."
        )
        if earlier.status != "ok":
            notes.append("The earlier release is undefined, so nothing can be compared with it.")
    return tuple(notes)


def _heaped(result: Ecdf) -> list[str]:
    """What is said of many rows in one cell, and of rows at the bounds."""
    of_cells = np.diff(result.cdf, prepend=0.0)
    at = (("lower", of_cells[0]), ("upper", of_cells[-1]))
    notes = [
        f"About {percent(float(share))} of the rows are in the cell at the {end} bound, or beyond it."
        for end, share in at
        if share > _AT_BOUND
    ]
    if result.grid.step is None and of_cells.max() > _IN_ONE_CELL:
        notes.append(
            f"One cell holds about {percent(float(of_cells.max()))} of the rows. If values are whole numbers or have "
            "few decimals, declare their step: cells are then the values themselves."
        )
    return notes


def _section(result: Ecdf) -> Section:
    legend = [
        ("curve", "released fractions"),
        ("band", f"{level(result.confidence)} band of each fraction"),
        ("band-outer", "band of the whole function"),
        ("dot", marks_text(result)),
    ]
    if result.distance is not None:
        legend.append(("chance", "reference"))
    if defined_comparison(result) is not None:
        legend += [("earlier", "earlier release"), ("gap", "largest gap")]
    return Section(
        title=f"Distribution of {_name(result)}",
        reading=(
            "At each value on the horizontal axis, the line shows the share of the rows that have at most this value. "
            "Where the line is steep there are many rows; where it is flat there are few or none: the noise hides "
            "which.",
            "Half of the rows have at most the median. Each whisker is the confidence interval of a quantile without "
            "noise.",
        ),
        headline=_headline(result),
        measures=_measures(result),
        table=_table(result),
        legend=tuple(legend),
        notes=_notes(result),
        notice=None
        if is_defined(result)
        else "Undefined: there are too few rows for this noise to show how they are distributed. The release has been "
        "made and charged like any other.",
    )
