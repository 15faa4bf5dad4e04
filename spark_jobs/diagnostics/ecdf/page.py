"""The distribution function: its data file and its part of the report; ``ecdf_plot`` draws it."""

from __future__ import annotations

import numpy as np

from spark_jobs.contract.options import EcdfOptions, ReferenceDistribution
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.ecdf.plots import defined_comparison, ecdf_plot, is_defined, quantile_text
from spark_jobs.diagnostics.ecdf.result import Distance, Ecdf
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, one_line, percent, simulated_p
from spark_jobs.publishing.rendering import Column, Headline, Measure, Rendering, Section, ValueTable, ends_of, known
from spark_jobs.publishing.value_axis import number

_NAME_CHARACTERS = 60


def render(result: Ecdf, request: ReleaseRequest) -> Rendering:
    """Files and report of a released distribution function; names, columns and rows are the same for any."""
    return Rendering(
        columns=_columns(result), plots=(ecdf_plot(result, _reference(request)),), section=_section(result)
    )


def _reference(request: ReleaseRequest) -> ReferenceDistribution | None:
    references = [options.reference for options in request.diagnostics if isinstance(options, EcdfOptions)]
    return references[0] if references else None


def _columns(result: Ecdf) -> dict[str, Column]:
    nominal = f"{100 * result.confidence:.4g} %"
    band = f"{nominal} band of cdf, value by value: where the exact counts of the same rows would put it"
    everywhere = f"{nominal} band that holds the whole function at once"
    columns = {
        "value": Column(values=result.values, meaning="where a cell starts: rows' values are rounded down to it"),
        "cdf": Column(values=result.cdf, meaning="fraction of the rows whose rounded value is at most this"),
        "lower": Column(values=result.lower, meaning=f"lower end of the {band}"),
        "upper": Column(values=result.upper, meaning=f"upper end of the {band}"),
        "lower_everywhere": Column(values=result.lower_everywhere, meaning=f"lower end of the {everywhere}"),
        "upper_everywhere": Column(values=result.upper_everywhere, meaning=f"upper end of the {everywhere}"),
    }
    if result.comparison is not None:
        distance = result.comparison.distance
        low, high = ends_of(distance.interval)
        columns["earlier_cdf"] = Column(
            values=result.comparison.cdf,
            meaning="cdf of the release that this one is compared with; "
            + (
                "their distance is undefined"
                if distance.value is None
                else f"their distance is {distance.value:g} ({low:g} to {high:g}), at {known(distance.at):g}, "
                f"with p-value {known(distance.p_value):g}"
            ),
        )
    return columns


def _name(result: Ecdf) -> str:
    """What the values are called in the report."""
    return "scores" if result.named is None else one_line(result.named, _NAME_CHARACTERS)


def _table(result: Ecdf) -> ValueTable:
    header = ["Share of the rows", "At most", f"{level(result.confidence)} interval"]
    compared = defined_comparison(result)
    rows = []
    for quantile in result.quantiles:
        cells = [number(known(quantile.value)), quantile_text(quantile)] if is_defined(result) else [ABSENT, ABSENT]
        if result.comparison is not None:
            cells.append(ABSENT if compared is None else number(float(result.earlier_quantile(quantile.level))))
        rows.append((percent(quantile.level), *cells))
    if result.comparison is not None:
        header.append("Earlier release")
    return ValueTable(
        caption=f"Quantiles of {_name(result)}: the smallest value that this share of the rows does not exceed.",
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
    places = [known(end) for end in (median.lower, median.value, median.upper)]
    marks = np.interp(places, edges, np.linspace(0.0, 1.0, edges.size))
    return Headline(
        label=label,
        value=number(known(median.value), 4),
        interval=f"{level(result.confidence)} interval {quantile_text(median)}",
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
    """A distance and its test, in numbers."""
    low, high = ends_of(distance.interval)
    return (
        Measure(
            label=f"Distance to {to}",
            value=decimals(distance.value) if shown else ABSENT,
            note=f"{level(distance.confidence)} interval {decimals(low)} to {decimals(high)}, largest at "
            f"{number(known(distance.at), 4)}"
            if shown
            else "",
        ),
        Measure(
            label=test,
            value=f"p {simulated_p(known(distance.p_value))}" if shown else ABSENT,
            note="noise included",
        ),
    )


def _notes(result: Ecdf) -> tuple[str, ...]:
    notes = [
        "Values are rounded down to a fixed grid, and those beyond the bounds count at the nearer one. Bands and "
        "intervals say how far the noise may have moved the fractions of these rows, not which other rows might have "
        "been in the table.",
    ]
    if result.bounds_found:
        notes.append("The bounds were found by noisy searches; a few rows lie beyond either of them.")
    if result.comparison is not None:
        earlier = result.comparison
        of = "its scores" if earlier.named is None else one_line(earlier.named, _NAME_CHARACTERS)
        notes.append(
            f"The earlier release is {one_line(earlier.released_by, 200)}, with {of}. The test asks whether both "
            "tables could be samples of one distribution: it draws such samples again, with the noise of both "
            "releases, and says how often they lie at least as far apart. Comparing costs nothing, for both releases "
            "are public."
        )
        if earlier.status != "ok":
            notes.append("That release is undefined, so there is nothing to compare with.")
    return tuple(notes)


def _section(result: Ecdf) -> Section:
    legend = [
        ("curve", "released fractions"),
        ("band", f"{level(result.confidence)} band of each fraction"),
        ("band-outer", "of the whole function"),
        ("outlier", "quantiles with intervals"),
    ]
    if result.distance is not None:
        legend.append(("chance", "reference"))
    if defined_comparison(result) is not None:
        legend += [("earlier", "earlier release"), ("gap", "largest gap")]
    return Section(
        title=f"Distribution of {_name(result)}",
        reading=(
            "At each value, from left to right, the line shows which share of the rows has at most that value "
            "(upwards). Where it is steep there are many rows; where it is flat there are few, or none: noise hides "
            "which.",
            "Half of the rows have at most the median. A whisker shows where its quantile would be without noise.",
        ),
        headline=_headline(result),
        measures=_measures(result),
        table=_table(result),
        legend=tuple(legend),
        notes=_notes(result),
        notice=None
        if is_defined(result)
        else "Undefined: through the noise, there are too few rows to tell how they are distributed. The release has "
        "been made and paid for like any other.",
    )
