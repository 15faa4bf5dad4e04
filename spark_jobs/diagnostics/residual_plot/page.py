"""The page of a residual plot: its data file, its two plots and its section of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.residual_plot.plots import quantile_plot
from spark_jobs.diagnostics.residual_plot.result import ResidualPlot
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import ABSENT, SPACE, count, level, p_text, percent
from spark_jobs.publishing.heat_map import draw_heat_map, in_few_cells, shown_part
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Plot,
    Probe,
    Rendering,
    Section,
    ValueTable,
    known,
)
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.value_axis import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Residual plot"
BAND_OPACITY = 0.35
_FRAME = figures.Frame(width=6.4, height=4.6, heading=1.4, small=5.2, box=(0.145, 0.155, 0.81, 0.82))
_KEPT = 0.001
"""Share of the rows that may lie beyond the drawn part of the box, at each of its four ends."""
_EFFECTS = {
    "slope": ("line", "Slope", "change of the mean residual per unit of the fitted value"),
    "bow": ("curvature", "Bow", "how far the mean residual is higher at both ends than in the middle"),
    "shift": ("shift", "Shift", "mean of all residuals"),
}
"""Effects below the headline: the test of each, its label and what it is."""
_WIDEST_RATIO = 8.0
"""The end of the scale of spread ratios, which is logarithmic."""


def render(result: ResidualPlot, request: ReleaseRequest) -> Rendering:
    """The data file, plots and section of a released residual plot; names and columns do not depend on the values."""
    return Rendering(
        columns=_columns(result),
        plots=(_plot(result), quantile_plot(result)),
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
        columns[name] = across(getattr(result, name), f"{what} of the pool of columns")
        for end in ("lower", "upper"):
            meaning = f"{end} end of its {nominal} confidence interval, for the same rows without noise"
            columns[f"{name}_{end}"] = across(getattr(result, f"{name}_{end}"), meaning)
    return columns


def _defined(result: ResidualPlot) -> bool:
    return result.status == "ok"


def _limits(result: ResidualPlot) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ends of both axes: the box and its frame without empty margins, symmetric around 0 for residuals."""
    if not _defined(result):
        return (result.fitted_lower, result.fitted_upper), (-result.residual_bound, result.residual_bound)
    counts, fitted, residual = _cells(result)
    across = shown_part(counts.sum(axis=1), fitted, kept=_KEPT)
    upwards = shown_part(counts.sum(axis=0), residual, kept=_KEPT)
    reach = max(abs(upwards[0]), abs(upwards[1]))
    return across, (-reach, reach)


def _plot(result: ResidualPlot) -> Plot:
    def draw(alone: bool) -> Figure:
        figure, axes = _FRAME.axes(
            alone=alone,
            x_label="Fitted value",
            y_label="Residual (outcome minus fitted value)",
        )
        _draw(axes, result)
        if alone:
            if _defined(result):
                _legend(axes)
            figures.heading(figure, left=0.03, title=TITLE, lines=(_verdict(result), _size_line(result)))
        return figure

    return Plot(
        name="residual_plot",
        title=TITLE,
        description=_description(result),
        draw=draw,
        axes=_FRAME.box,
        probes=_probes(result) if _defined(result) else (),
    )


def _legend(axes: Axes) -> None:
    """A legend above the axes, where it hides no cells."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=2,
        fontsize=figures.LEGEND_SIZE,
        labelcolor=light("ink"),
        frameon=False,
        handlelength=1.4,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def _draw(axes: Axes, result: ResidualPlot) -> None:
    across, upwards = _limits(result)
    figures.set_ticks(axes, across, upwards)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: number(value, 4, plain_below=6))
    if not _defined(result):
        axes.axhline(0.0, color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)))
        figures.draw_undefined(axes, "too few rows for this noise")
        return
    draw_heat_map(axes, *_cells(result), label="released rows (darker: more)")
    corner, far = (result.fitted_lower, -result.residual_bound), (result.fitted_upper, result.residual_bound)
    axes.add_patch(
        Rectangle(
            corner, far[0] - corner[0], far[1] - corner[1], fill=False, edgecolor=light("muted"), linewidth=0.8,
            label="box; the cells around it count all rows beyond", zorder=2,
        )
    )  # fmt: skip
    axes.axhline(0.0, color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)), zorder=2)
    x, place = _pools(result)
    axes.fill_between(
        x, result.trend_lower[place], result.trend_upper[place], color=light("spent"), alpha=BAND_OPACITY, linewidth=0,
        zorder=3,
    )  # fmt: skip
    axes.plot(x, result.trend[place], color=light("spent"), linewidth=2.0, label="mean residual, with band", zorder=4)
    for left, right in _hidden(result):
        axes.axvspan(left, right, color=light("chance"), alpha=0.3, linewidth=0, zorder=3.5)
    for sign, label in ((1, "mean ± spread"), (-1, "_")):
        edge = result.trend[place] + sign * result.spread[place]
        axes.plot(x, edge, color=light("spent"), linewidth=1.2, linestyle=(0, (2, 2)), label=label, zorder=4)


def _cells(result: ResidualPlot) -> tuple[Int64Array, FloatArray, FloatArray]:
    """The counts of the box, with a frame of cells for the rows beyond it; and the edges of all cells."""
    framed = np.pad(result.counts, 1)
    framed[0, 1:-1], framed[-1, 1:-1] = result.counts_left, result.counts_right
    framed[:, 0], framed[:, -1] = result.counts_below, result.counts_above
    return in_few_cells(framed, result.fitted_edges, result.residual_edges)


def _pools(result: ResidualPlot) -> tuple[FloatArray, NDArray[np.intp]]:
    """Points for a line through the pools of columns: each pool's middle, and the ends; with its first column."""
    values = np.stack([result.trend, result.spread, result.trend_lower, result.trend_upper, result.column_rows])
    starts = np.flatnonzero(np.append(True, (np.diff(values, axis=1) != 0).any(axis=0)))
    ends = np.append(starts[1:], result.bins)
    middles = (result.fitted_edges[starts] + result.fitted_edges[ends]) / 2
    x = np.concatenate([result.fitted_edges[:1], middles, result.fitted_edges[-1:]])
    return x, np.concatenate([starts[:1], starts, starts[-1:]])


def _hidden(result: ResidualPlot) -> list[tuple[float, float]]:
    """Fitted values at which the noise hides the mean residual: its interval is wider than the residuals spread."""
    low, high = np.interp((-1.0, 1.0), result.qq_theoretical, result.qq_residual)
    hidden = np.flatnonzero(result.trend_upper - result.trend_lower > high - low)
    return [(float(result.fitted_edges[i]), float(result.fitted_edges[i + 1])) for i in hidden]


def _probes(result: ResidualPlot) -> tuple[Probe, ...]:
    (left, right), (bottom, top) = _limits(result)
    x, place = _pools(result)

    def up(value: float) -> float:
        return float(np.clip((value - bottom) / (top - bottom), 0.0, 1.0))

    return tuple(
        Probe(
            x=float((at - left) / (right - left)),
            y=up(result.trend[i]),
            low=up(result.trend_lower[i]),
            high=up(result.trend_upper[i]),
            lines=(
                f"fitted {number(at, 4)}: about {count(result.column_rows[i])} rows",
                f"mean residual {number(result.trend[i], 3)} ({_interval(result, 'trend', i)})",
                f"spread {number(result.spread[i], 3)} ({_interval(result, 'spread', i)})",
            ),
        )
        for at, i in zip(x[1:-1], place[1:-1], strict=True)
        if left <= at <= right
    )


def _interval(result: ResidualPlot, name: str, i: int) -> str:
    low, high = getattr(result, f"{name}_lower")[i], getattr(result, f"{name}_upper")[i]
    return f"{number(low, 3)} to {number(high, 3)}"


def _verdict(result: ResidualPlot) -> str:
    """The verdict in one line for the plot; the page has the full text."""
    if not _defined(result):
        return "Undefined: too few rows for this noise"
    words = [_FINDINGS[name] for name in result.findings]
    findings = " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
    rate = f"at most {100 * result.error_rate:.4g} in 100 by chance"
    return f"Found: {findings} ({rate})" if findings else "No shift, slope, curvature or change of spread was found"


_FINDINGS = {"line": "a slope", "curvature": "curvature", "variance": "unequal variance", "shift": "a shift"}


def _size_line(result: ResidualPlot) -> str:
    return f"released with noise; about {count(result.rows)} rows"


def _description(result: ResidualPlot) -> str:
    if not _defined(result):
        return "An empty residual plot: undefined because there are too few rows for this noise."
    return (
        f"A heat map of residuals against fitted values in {result.bins} by {result.bins} cells, with the mean "
        f"residual along the fitted values and lines one spread above and below it. {result.verdict}"
    )


def _p(result: ResidualPlot, value: float) -> str:
    return p_text(value, floor=result.p_value_floor)


def _section(result: ResidualPlot, request: ReleaseRequest) -> Section:
    defined = _defined(result)
    private = request.model is not None and request.model.basis == "differentially_private"
    measures = [_effect(result, *effect) for effect in _EFFECTS.items()]
    measures.append(
        Measure(
            label="All tests",
            value=_p(result, known(result.p_value)) if defined else ABSENT,
            note="for slope, bow, spread and shift",
        )
    )
    measures += [
        Measure(label="Rows", value=f"≈{SPACE}{count(result.rows)}", note="with a fitted value and an outcome"),
        Measure(label="Outside the box", value=f"≈{SPACE}{count(result.overflow)}", note=_beyond(result)),
    ]
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
        measures=tuple(measures),
        table=_table(result),
        legend=(
            ("band", "released rows; the cells outside the thin line count all rows beyond the box"),
            ("spent", "mean residual with band, and one spread around it"),
            ("chance", "residual 0"),
            *((("zone", "the noise hides the mean residual"),) if defined and _hidden(result) else ()),
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


def _effect(result: ResidualPlot, name: str, described: tuple[str, str, str]) -> Measure:
    test, label, note = described
    value, interval = getattr(result, name), getattr(result, f"{name}_interval")
    tested = getattr(result, f"{test}_p_value")
    if value is None or tested is None:
        return Measure(label=label, value=ABSENT, note=note)
    return Measure(
        label=label,
        value=number(value, 3),
        note=f"{number(interval[0], 3)} to {number(interval[1], 3)}: {note}; {_p(result, tested)}",
    )


def _headline(result: ResidualPlot) -> Headline:
    """How unequally wide the residuals are, on a logarithmic scale around 1."""
    ratio, interval = result.spread_ratio, result.spread_ratio_interval
    if ratio is None or interval is None:
        value, text, marks = "undefined", None, None
    else:
        low, high = (f"{end:.2g}" for end in interval)
        value = f"{ratio:.2g}\N{MULTIPLICATION SIGN}"
        text = (
            f"{level(result.confidence)} interval {low} to {high}. {_in_words(ratio)} "
            f"Equal spread: {_p(result, known(result.variance_p_value))}."
        )
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
    )


def _in_words(ratio: float) -> str:
    if f"{ratio:.2g}" == "1":
        return "As wide for the fifth of the rows with the largest fitted values as for the fifth with the smallest."
    times, first, second = (ratio, "top", "bottom") if ratio > 1 else (1 / ratio, "bottom", "top")
    return f"{times:.2g} times as wide at the {first} fifth of the fitted values as at the {second}."


def _beyond(result: ResidualPlot) -> str:
    """The shares of the rows beyond each side of the box; rows beyond a corner count above or below."""
    if not _defined(result):
        return "rows"
    sides = {side: float(getattr(result, f"counts_{side}").sum()) for side in ("left", "right", "below", "above")}
    shares = ", ".join(f"{percent(rows / max(result.rows, 1.0))} {side}" for side, rows in sides.items())
    return f"rows: {shares}"


_OF_PRIVATE_MODELS = (
    "The model was itself fitted with noise. A tilted or shifted line with an even cloud around it may be due to that "
    "noise; a curve or a funnel is due to the model."
)


def _table(result: ResidualPlot) -> ValueTable:
    x, place = _pools(result)
    rows = []
    for at, i in zip(x[1:-1], place[1:-1], strict=True):
        values = (
            (
                number(result.trend[i], 3),
                _interval(result, "trend", i),
                number(result.spread[i], 3),
                _interval(result, "spread", i),
                f"≈{SPACE}{count(result.column_rows[i])}",
            )
            if _defined(result)
            else (ABSENT,) * 5
        )
        rows.append((number(at, 4), *values))
    interval = f"{level(result.confidence)} interval"
    return ValueTable(
        caption="The mean and the spread of the residuals along the fitted values, in units of the outcome.",
        header=("Fitted around", "Mean residual", interval, "Spread", interval, "Rows"),
        rows=tuple(rows),
    )
