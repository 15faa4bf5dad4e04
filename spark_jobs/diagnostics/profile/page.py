"""The page of a profile: its data files, its pictures and its section of the report."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_jobs.contract.figure import Figure
from spark_jobs.contract.figures import OK
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.profile import ColumnProfile, PairProfile, Profile
from spark_jobs.diagnostics.profile.plots import MAX_LISTED, TITLE, column_plot, overview, pair_plot
from spark_jobs.publishing.formats import ABSENT, SPACE, count, level, one_line, percent
from spark_jobs.publishing.rendering import (
    Column,
    Measure,
    Multiples,
    Rendering,
    Section,
    ValueTable,
    ends_of,
    finite,
    known,
)
from spark_jobs.publishing.value_axis import number

MAX_SHOWN = 60
"""The most columns that are drawn; the data files have all."""
_NAME_CHARACTERS = 40


def render(result: Profile, request: ReleaseRequest) -> Rendering:
    """Data files, pictures and section of a released profile, with one row per cell of each column."""
    drawn = tuple(
        (one_line(one.column, _NAME_CHARACTERS), _caption(one), column_plot(one, place, result.confidence))
        for place, one in enumerate(result.columns[:MAX_SHOWN])
    )
    pairs = tuple(
        (" × ".join(one_line(name, _NAME_CHARACTERS) for name in one.columns), "rows", pair_plot(one, place))
        for place, one in enumerate(result.pairs)
    )
    multiples = [
        Multiples(
            heading="What each column holds",
            note=f"Bars are shares of all rows, of the {MAX_LISTED} most frequent values, with "
            f"{level(result.confidence)} intervals. Histograms join neighbouring bins, whose own counts are in the "
            "data file; the dashed line is the mean. Grey columns are weak: their bars are noisy numbers of rows.",
            plots=drawn,
            wide=True,
        )
    ]
    if pairs:
        note = "Rows by the values of two columns. Numbers that may be noise are muted, and not shaded."
        multiples.append(Multiples(heading="Two columns together", note=note, plots=pairs, wide=True))
    return Rendering(
        columns=_cells(result),
        plots=(overview(result),),
        section=_section(result),
        multiples=tuple(multiples),
        tables={
            "profile_columns": _figures(result),
            **{f"profile_pair_{place}": _pair(one) for place, one in enumerate(result.pairs)},
        },
    )


def _caption(one: ColumnProfile) -> str:
    if one.status != OK:
        return "weak"
    missing = f"{percent(known(one.missing.value) + known(one.unparsed.value))} missing"
    return missing if one.mean.value is None else f"mean {number(one.mean.value, 4)}, {missing}"


def _cells(result: Profile) -> dict[str, Column]:
    nominal = f"end of its {100 * result.confidence:.4g} % confidence interval, for the same rows without noise"

    def joined(part: Any) -> Any:
        return np.concatenate([np.asarray(part(one)) for one in result.columns])

    def repeated(name: str) -> Any:
        return np.array([getattr(one, name) for one in result.columns for _ in one.cells], dtype=object)

    labels = np.array([label for one in result.columns for label in one.cells], dtype=object)
    columns = {
        "column": Column(values=repeated("column"), meaning="the column"),
        "cell": Column(values=labels, meaning="its value, bin or period"),
        "status": Column(values=repeated("status"), meaning="ok, or weak: the noise may be all that is there"),
    }
    for name, meaning in (("count", "noisy number of rows, unbiased: it may be below 0"), ("shares", "share of rows")):
        columns[name] = Column(values=joined(lambda one, name=name: getattr(one, name).value), meaning=meaning)
        for end in ("lower", "upper"):
            values = joined(lambda one, name=name, end=end: getattr(getattr(one, name), end))
            columns[f"{name}_{end}"] = Column(values=values, meaning=f"{end} {nominal}")
    return columns


def _figures(result: Profile) -> dict[str, Column]:
    """One row for each figure of each column."""
    rows = []
    for one in result.columns:
        figures: list[tuple[str, Figure[Any]]] = [
            (name, getattr(one, name)) for name in ("missing", "unparsed", "outside")
        ]
        figures += [("mean", one.mean)] if one.form == "numbers" else []
        figures += [(f"quantile {at:g}", one.quantiles.at(place)) for place, at in enumerate(one.levels)]
        rows += [(one.column, name, known(of.value), *ends_of(of.interval)) for name, of in figures]
    column, name, value, low, high = zip(*rows, strict=True)
    nominal = f"end of its {100 * result.confidence:.4g} % confidence interval, for the same rows without noise"
    return {
        "column": Column(values=np.array(column, dtype=object), meaning="the column"),
        "figure": Column(values=np.array(name, dtype=object), meaning="what it is"),
        "value": Column(values=np.array(value), meaning="its value; null in a weak column"),
        "lower": Column(values=np.array(low), meaning=f"lower {nominal}"),
        "upper": Column(values=np.array(high), meaning=f"upper {nominal}"),
    }


def _pair(one: PairProfile) -> dict[str, Column]:
    first, second = one.keys
    return {
        "first": Column(values=np.repeat(np.array(first, dtype=object), len(second)), meaning="of the first column"),
        "second": Column(values=np.tile(np.array(second, dtype=object), len(first)), meaning="of the second column"),
        "count": Column(values=one.count.value, meaning="noisy number of rows, unbiased"),
        "lower": Column(values=one.count.lower, meaning="lower end of its interval"),
        "upper": Column(values=one.count.upper, meaning="upper end of its interval"),
    }


def _section(result: Profile) -> Section:
    weak = sum(status != OK for status in result.status)
    low, high = ends_of(result.rows.interval)
    return Section(
        title=TITLE,
        reading=(
            "What each column holds, of those whose values, bounds or periods are public. Rows with another value, "
            "without one, or with a text that is no value are counted too.",
            f"Intervals hold {level(result.confidence)} of the time, for the same rows without noise. They do not "
            "account for the sampling of the rows.",
        ),
        measures=(
            Measure(
                label="Rows",
                value=f"≈{SPACE}{count(result.rows.value)}",
                note=f"{count(low)} to {count(high)}, released with noise",
            ),
            Measure(label="Columns", value=f"{len(result.columns):,}", note="with public domains"),
            Measure(label="Weak columns", value=f"{weak:,}", note="the noise may be all that is there"),
        ),
        table=ValueTable(
            caption="All columns. The data files have every figure, with its interval.",
            header=("Column", "Missing", "Not readable", "Another value", "Mean", "Interval", "Median", "Interval"),
            rows=tuple(map(_row, result.columns)),
        ),
        notes=(
            "A row is in one cell of each column, so that all cells of a column cost what one does. The columns, and "
            "the pairs, have equal shares of epsilon. Figures are read from the noisy counts of cells, which cost "
            "nothing more. Numbers beyond their bounds count as the bounds in means and quantiles.",
        ),
        notice="No column has enough rows for this noise. The release has been made and charged like any other."
        if weak == len(result.columns)
        else None,
    )


def _row(one: ColumnProfile) -> tuple[str, ...]:
    median = [one.quantiles.at(place) for place, at in enumerate(one.levels) if at == 0.5]
    figures = [one.mean, *median] if one.form == "numbers" else []
    texts = [
        text
        for of in figures
        for text in (
            number(of.number, 5) if finite(of.number) else ABSENT,
            " to ".join(number(float(end), 5) for end in of.ends()),
        )
    ]
    shares = (percent(of.value) for of in (one.missing, one.unparsed, one.outside))
    return (one_line(one.column, _NAME_CHARACTERS), *shares, *texts, *[ABSENT] * (4 - len(texts)))
