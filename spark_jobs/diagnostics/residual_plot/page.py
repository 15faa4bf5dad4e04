"""The page of a residual plot: its data file, its two plots and its section of the report."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.contract.figure import Number, Numbers
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.lines import ResidualPlot
from spark_jobs.diagnostics.residual_plot.plots import (
    TITLE,
    ends_text,
    hidden_columns,
    interval_at,
    is_defined,
    pools,
    quantile_plot,
    residual_plot,
)
from spark_jobs.publishing.formats import ABSENT, SPACE, count, level, p_text, percent
from spark_jobs.publishing.rendering import Column, Headline, Measure, Rendering, Section, ValueTable, finite, known
from spark_jobs.publishing.value_axis import number

_TESTS = {"slope": "line", "bow": "curvature", "spread": "variance", "shift": "shift"}
"""The test of each effect, by the effect's name."""
_NOTES = {
    "slope": "change of the mean residual per unit of the fitted value",
    "bow": "how far the mean residual is higher at both ends than in the middle",
    "shift": "mean of all residuals",
}
"""The effects below the headline, and what each is."""
_WIDEST_RATIO = 8.0
"""The end of the scale of spread ratios, which is logarithmic."""
_OF_PRIVATE_MODELS = (
    "The model was itself fitted with noise. A tilted or shifted line with an even cloud around it may be due to that "
    "noise; a curve or a funnel is due to the model."
)


def render(result: ResidualPlot, request: ReleaseRequest) -> Rendering:
    """The data file, plots and section of a released residual plot; names and columns do not depend on the values."""
    return Rendering(
        columns=_columns(result),
        plots=(residual_plot(result), quantile_plot(result)),
        section=_section(result, request),
    )


def _columns(result: ResidualPlot) -> dict[str, Column]:
    """One row per cell of the box, column by column; the figures of a column are repeated in each of its cells."""
    nominal = f"{100 * result.confidence:.4g} %"
    bins = result.bins

    def across(values: NDArray[Any], meaning: str) -> Column:
        return Column(values=np.repeat(values, bins), meaning=meaning)

    def upwards(values: NDArray[Any], meaning: str) -> Column:
        return Column(values=np.tile(values, bins), meaning=meaning)

    columns = {
        "fitted_lower": across(result.fitted_edges[:-1], "lower edge of the cell, as a fitted value"),
        "fitted_upper": across(result.fitted_edges[1:], "upper edge of the cell, as a fitted value"),
        "residual_lower": upwards(result.residual_edges[:-1], "lower edge of the cell, as a residual"),
        "residual_upper": upwards(result.residual_edges[1:], "upper edge of the cell, as a residual"),
        "count": Column(values=result.counts.ravel(), meaning="released number of rows in the cell"),
        "rows_below": across(result.counts_below[1:-1], "released number of rows below the box in this column"),
        "rows_above": across(result.counts_above[1:-1], "released number of rows above the box in this column"),
        "rows_left": upwards(result.counts_left, "released rows left of the box, with a residual in this cell"),
        "rows_right": upwards(result.counts_right, "released rows right of the box, with a residual in this cell"),
        "column_rows": across(result.column_rows, "noisy number of rows in the pool of columns"),
    }
    for name, what in (("trend", "mean residual"), ("spread", "half the distance between the 16 % and 84 % quantiles")):
        figure: Numbers = getattr(result, name)
        columns[name] = across(figure.value, f"{what} of the pool of columns")
        for end, values in zip(("lower", "upper"), figure.ends(), strict=True):
            meaning = f"{end} end of its {nominal} confidence interval, for the same rows without noise"
            columns[f"{name}_{end}"] = across(values, meaning)
    return columns


def _p(result: ResidualPlot, value: float | None) -> str:
    return p_text(known(value), floor=result.p_value_floor)


def _p_values(result: ResidualPlot) -> str:
    """The p-value of each test."""
    if not is_defined(result):
        return "for slope, bow, spread and shift"
    values = {effect: getattr(result, f"{test}_p_value") for effect, test in _TESTS.items()}
    return ", ".join(f"{effect}{SPACE}{_p(result, value)}" for effect, value in values.items())


def _section(result: ResidualPlot, request: ReleaseRequest) -> Section:
    defined = is_defined(result)
    private = request.model is not None and request.model.basis == "differentially_private"
    measures = (
        Measure(label="All tests", value=_p(result, result.p_value) if defined else ABSENT, note=_p_values(result)),
        Measure(label="Rows", value=f"≈{SPACE}{count(result.rows)}", note="with a fitted value and an outcome"),
        Measure(label="Outside the box", value=f"≈{SPACE}{count(result.overflow)}", note=_beyond(result)),
    )
    return Section(
        title=TITLE,
        reading=(
            *((result.verdict,) if defined else ()),
            "The darker a cell, the more rows have this fitted value and this residual. If the model is correct, the "
            "cloud lies evenly around the dashed line, with the same width everywhere.",
            "The mean residual should stay on the dashed line: a curve means that a term is missing. The lines one "
            "spread above and below it should be level: a funnel means that errors grow with the fitted value.",
        ),
        headline=_headline(result),
        measures=measures,
        table=_table(result),
        legend=(
            ("band", "released rows; the cells outside the thin line count all rows beyond the box"),
            ("spent", "mean residual with band, and one spread around it"),
            ("chance", "residual 0"),
            *((("zone", "the noise hides the mean residual"),) if defined and hidden_columns(result) else ()),
        ),
        notes=(
            "Bands account for the noise, not for the sampling of the rows. Effects and tests account for both: the "
            f"tests reject a correct model in at most {level(result.error_rate)} of releases. Residuals beyond the box "
            "count at its edge.",
            "A test and the interval of its effect can disagree: effects weight columns by rows, tests by precision, "
            "and the test of a shift allows for the rows beyond the box.",
            *((_OF_PRIVATE_MODELS,) if private else ()),
        ),
        notice=None
        if defined
        else "Undefined: there are too few rows for this noise to show anything about the residuals. The release has "
        "been made and charged like any other.",
    )


def _headline(result: ResidualPlot) -> Headline:
    """How unequally wide the residuals are, on a logarithmic scale around 1; slope, bow and shift below it."""
    ratio, interval = result.spread_ratio.number, result.spread_ratio.ends()
    if not finite(ratio):
        value, text, marks = "undefined", None, None
    else:
        value = f"{number(ratio, 2)}\N{MULTIPLICATION SIGN}"
        text = f"{level(result.confidence)} interval {ends_text(interval, 2)}. {_comparison(ratio)}"
        first, middle, last = (
            float(np.clip(0.5 + np.log(end) / np.log(_WIDEST_RATIO) / 2, 0.0, 1.0))
            for end in (interval[0], ratio, interval[1])
        )
        marks = (first, middle, last)
    return Headline(
        label="Spread at the top, against the bottom",
        value=value,
        interval=text,
        scale=(f"1/{_WIDEST_RATIO:g}", f"{_WIDEST_RATIO:g}\N{MULTIPLICATION SIGN}"),
        marks=marks,
        reference=("1", 0.5),
        others=tuple(_measure(result, name, note) for name, note in _NOTES.items()),
    )


def _comparison(ratio: float) -> str:
    if number(ratio, 2) == "1":
        return "Residuals are as wide at the top fifth of the fitted values as at the bottom."
    times, wide, narrow = (ratio, "top", "bottom") if ratio > 1 else (1 / ratio, "bottom", "top")
    return (
        f"Residuals are {number(times, 2)} times as wide at the {wide} fifth of the fitted values as at the {narrow}."
    )


def _measure(result: ResidualPlot, name: str, note: str) -> Measure:
    effect: Number = getattr(result, name)
    value, interval = effect.value, effect.ends()
    if value is None:
        return Measure(label=name.capitalize(), value=ABSENT, note=note)
    return Measure(label=name.capitalize(), value=number(value, 3), note=f"{ends_text(interval, 3)}: {note}")


def _beyond(result: ResidualPlot) -> str:
    """The shares of the rows beyond each side of the box; rows beyond a corner count above or below."""
    if not is_defined(result):
        return "rows"
    sides = {side: float(getattr(result, f"counts_{side}").sum()) for side in ("left", "right", "below", "above")}
    shares = ", ".join(f"{percent(rows / max(result.rows, 1.0))} {side}" for side, rows in sides.items())
    return f"rows: {shares}"


def _table(result: ResidualPlot) -> ValueTable:
    x, place = pools(result)
    rows = []
    for at, i in zip(x[1:-1], place[1:-1], strict=True):
        values = (
            (
                number(result.trend.value[i], 3),
                interval_at(result, "trend", i),
                number(result.spread.value[i], 3),
                interval_at(result, "spread", i),
                f"≈{SPACE}{count(result.column_rows[i])}",
            )
            if is_defined(result)
            else (ABSENT,) * 5
        )
        rows.append((number(at, 4), *values))
    interval = f"{level(result.confidence)} interval"
    return ValueTable(
        caption="The mean and the spread of the residuals along the fitted values, in units of the outcome.",
        header=("Fitted around", "Mean residual", interval, "Spread", interval, "Rows"),
        rows=tuple(rows),
    )
