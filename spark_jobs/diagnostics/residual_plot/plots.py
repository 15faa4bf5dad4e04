"""The pictures of a residual plot: residuals against fitted values, and the quantiles of the residuals."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.figure import Ends, Number, Numbers
from spark_jobs.contract.results.lines import ResidualPlot
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import along, chart, draw_band, draw_curve, draw_reference, draw_zero, legend_in
from spark_jobs.publishing.formats import count, level
from spark_jobs.publishing.heat_map import draw_heat_map, in_few_cells, shown_part
from spark_jobs.publishing.rendering import Plot, Probe, finite
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.value_axis import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Residual plot"
_BAND_OPACITY = 0.35
_FRAME = figures.Frame(width=6.4, height=4.6, heading=2.06, small=5.2, box=(0.145, 0.155, 0.81, 0.82))
_KEPT = 0.001
"""Share of the rows that may lie beyond the drawn part of the box, at each of its four ends."""
_FINDINGS = {"line": "a slope", "curvature": "curvature", "variance": "unequal variance", "shift": "a shift"}
_QUANTILES_TITLE = "Normal quantiles of the residuals"
_QUANTILES_FRAME = figures.Frame(width=5.6, height=4.8, heading=0.95, small=4.7, box=(0.17, 0.155, 0.785, 0.82))
_ROOM = 0.06


def is_defined(result: ResidualPlot) -> bool:
    """Whether there are enough rows for the noise, so that the plot is defined."""
    return result.status == "ok"


def residual_plot(result: ResidualPlot) -> Plot:
    """The heat map of the rows, with their mean residual and spread along the fitted values."""
    return chart(
        lambda axes: _draw(axes, result),
        name="residual_plot",
        title=TITLE,
        description=_description(result),
        lines=_lines(result),
        frame=_FRAME,
        labels=("Fitted value", "Residual (outcome minus fitted value)"),
        legend=partial(figures.legend_above, columns=2),
        probes=_probes(result) if is_defined(result) else (),
    )


def _lines(result: ResidualPlot) -> tuple[str, ...]:
    """The heading of the plot as a file: effect sizes, then what the tests found; the page has the full text."""
    rows = f"about {count(result.rows)} rows"
    if not is_defined(result):
        return "Undefined: too few rows for this noise", f"released with noise; {rows}"
    intervals = f"{level(result.confidence)} intervals"
    return *_effect_lines(result), _findings(result), f"released with noise; {rows}; {intervals}"


def _effect_lines(result: ResidualPlot) -> tuple[str, str, str]:
    """Spread ratio, slope and bow with their intervals, a short line each."""
    ratio, interval = result.spread_ratio.number, result.spread_ratio.ends()
    if not finite(ratio):
        spread = "Spread at the top, against the bottom: undefined"
    elif number(ratio, 2) == "1":
        spread = f"As wide at the top as at the bottom ({ends_text(interval, 2)} times)"
    else:
        wide, narrow = ("top", "bottom") if ratio > 1 else ("bottom", "top")
        times, ends = (ratio, interval) if ratio > 1 else (1 / ratio, (1 / interval[1], 1 / interval[0]))
        spread = f"{number(times, 2)} times as wide at the {wide} as at the {narrow} ({ends_text(ends, 2)})"
    slope, bow = (f"{name.capitalize()} of the mean residual: {_value(result, name)}" for name in ("slope", "bow"))
    return spread, slope, bow


def _findings(result: ResidualPlot) -> str:
    """The findings of the tests in one line."""
    words = [_FINDINGS[name] for name in result.findings]
    findings = " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)
    rate = f"at most {100 * result.error_rate:.4g} in 100 by chance"
    return f"Found: {findings} ({rate})" if findings else "No shift, slope, curvature or change of spread was found"


def _value(result: ResidualPlot, name: str) -> str:
    effect: Number = getattr(result, name)
    value, interval = effect.value, effect.ends()
    return "undefined" if value is None else f"{number(value, 3)} ({ends_text(interval, 3)})"


def ends_text(interval: tuple[float, float], digits: int) -> str:
    """An interval as text."""
    low, high = (number(end, digits) for end in interval)
    return f"{low} to {high}"


def _description(result: ResidualPlot) -> str:
    if not is_defined(result):
        return "An empty residual plot: undefined because there are too few rows for this noise."
    return (
        f"A heat map of residuals against fitted values in {result.bins} by {result.bins} cells, with the mean "
        f"residual along the fitted values and lines one spread above and below it. "
        f"{'. '.join(_effect_lines(result))}. {result.verdict}"
    )


def _limits(result: ResidualPlot) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ends of both axes: the box and its frame without empty margins, symmetric around 0 for residuals."""
    if not is_defined(result):
        return (result.fitted_lower, result.fitted_upper), (-result.residual_bound, result.residual_bound)
    counts, fitted, residual = _cells(result)
    across = shown_part(counts.sum(axis=1), fitted, kept=_KEPT)
    upwards = shown_part(counts.sum(axis=0), residual, kept=_KEPT)
    reach = max(abs(upwards[0]), abs(upwards[1]))
    return across, (-reach, reach)


def _draw(axes: Axes, result: ResidualPlot) -> None:
    across, upwards = _limits(result)
    figures.set_ticks(axes, across, upwards)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: number(value, 4, plain_below=6))
    if not is_defined(result):
        draw_zero(axes)
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
    draw_zero(axes, zorder=2)
    x, place = pools(result)
    band = Ends(result.trend.lower[place], result.trend.upper[place])
    draw_band(axes, x, band, colour="spent", opacity=_BAND_OPACITY, zorder=3)
    axes.plot(
        x, result.trend.value[place], color=light("spent"), linewidth=2.0, label="mean residual, with band", zorder=4
    )
    for left, right in hidden_columns(result):
        axes.axvspan(left, right, color=light("chance"), alpha=0.3, linewidth=0, zorder=3.5)
    for sign, label in ((1, "mean ± spread"), (-1, "_")):
        edge = result.trend.value[place] + sign * result.spread.value[place]
        axes.plot(x, edge, color=light("spent"), linewidth=1.2, linestyle=(0, (2, 2)), label=label, zorder=4)


def _cells(result: ResidualPlot) -> tuple[Int64Array, FloatArray, FloatArray]:
    """The counts of the box, with a frame of cells for the rows beyond it; and the edges of all cells."""
    framed = np.pad(result.counts, 1)
    framed[0, 1:-1], framed[-1, 1:-1] = result.counts_left, result.counts_right
    framed[:, 0], framed[:, -1] = result.counts_below, result.counts_above
    return in_few_cells(framed, result.fitted_edges, result.residual_edges)


def pools(result: ResidualPlot) -> tuple[FloatArray, NDArray[np.intp]]:
    """Points of a line through the pools of columns, at their middles and both ends: x, and each first column."""
    values = np.stack(
        [result.trend.value, result.spread.value, result.trend.lower, result.trend.upper, result.column_rows]
    )
    starts = np.flatnonzero(np.append(True, (np.diff(values, axis=1) != 0).any(axis=0)))
    ends = np.append(starts[1:], result.bins)
    middles = (result.fitted_edges[starts] + result.fitted_edges[ends]) / 2
    x = np.concatenate([result.fitted_edges[:1], middles, result.fitted_edges[-1:]])
    return x, np.concatenate([starts[:1], starts, starts[-1:]])


def hidden_columns(result: ResidualPlot) -> list[tuple[float, float]]:
    """Ranges of fitted values where the noise hides the mean residual: its interval exceeds the residuals' spread."""
    low, high = np.interp((-1.0, 1.0), result.qq_theoretical, result.qq_residual.value)
    hidden = np.flatnonzero(result.trend.upper - result.trend.lower > high - low)
    return [(float(result.fitted_edges[i]), float(result.fitted_edges[i + 1])) for i in hidden]


def _probes(result: ResidualPlot) -> tuple[Probe, ...]:
    across, upwards = _limits(result)
    x, place = pools(result)
    return tuple(
        Probe(
            x=along(at, across),
            y=along(result.trend.value[i], upwards),
            low=along(result.trend.lower[i], upwards),
            high=along(result.trend.upper[i], upwards),
            lines=(
                f"fitted {number(at, 4)}: about {count(result.column_rows[i])} rows",
                f"mean residual {number(result.trend.value[i], 3)} ({interval_at(result, 'trend', i)})",
                f"spread {number(result.spread.value[i], 3)} ({interval_at(result, 'spread', i)})",
            ),
        )
        for at, i in zip(x[1:-1], place[1:-1], strict=True)
        if across[0] <= at <= across[1]
    )


def interval_at(result: ResidualPlot, name: str, i: int) -> str:
    """The interval of ``trend`` or ``spread`` in a column."""
    figure: Numbers = getattr(result, name)
    return ends_text(figure.at(i).ends(), 3)


def quantile_plot(result: ResidualPlot) -> Plot:
    """Released quantiles with their intervals, and the line on which normally distributed residuals would lie."""

    def paint(axes: Axes) -> None:
        figures.set_ticks(axes, *_quantile_limits(result))
        axes.yaxis.set_major_formatter(lambda value, _: number(value, 4, plain_below=5))
        if is_defined(result):
            _draw_quantiles(axes, result)
        else:
            figures.draw_undefined(axes, "too few rows for this noise")

    return chart(
        paint,
        name="residual_quantiles",
        title=_QUANTILES_TITLE,
        description=_described_quantiles(result),
        lines=("released with noise; straight if normal",),
        frame=_QUANTILES_FRAME,
        labels=("Quantile of a standard normal distribution", "Quantile of the residuals"),
        legend=legend_in("upper left"),
        probes=_quantile_probes(result) if is_defined(result) else (),
        keys=(
            ("curve", "released quantiles"),
            ("band", f"{level(result.confidence)} band"),
            ("chance", "a normal distribution"),
        ),
    )


def _quantile_limits(result: ResidualPlot) -> tuple[tuple[float, float], tuple[float, float]]:
    ends = result.qq_theoretical[[0, -1]]
    values = (
        np.concatenate([result.qq_residual.lower, result.qq_residual.upper, result.qq_line])
        if result.status == "ok"
        else np.zeros(1)
    )
    low, high = float(values.min()), float(values.max())
    if not high > low:
        low, high = -result.residual_bound, result.residual_bound
    room = _ROOM * (high - low)
    side = _ROOM * float(ends[1] - ends[0])
    return (float(ends[0]) - side, float(ends[1]) + side), (low - room, high + room)


def _draw_quantiles(axes: Axes, result: ResidualPlot) -> None:
    x = result.qq_theoretical
    draw_band(axes, x, result.qq_residual.ends(), label=f"{level(result.confidence)} band")
    draw_reference(axes, x, result.qq_line, label="a normal distribution")
    draw_curve(axes, x, result.qq_residual.value, label="released quantiles")


def _quantile_probes(result: ResidualPlot) -> tuple[Probe, ...]:
    across, upwards = _quantile_limits(result)
    return tuple(
        Probe(
            x=along(result.qq_theoretical[i], across),
            y=along(result.qq_residual.value[i], upwards),
            low=along(result.qq_residual.lower[i], upwards),
            high=along(result.qq_residual.upper[i], upwards),
            lines=(
                f"residual {number(result.qq_residual.value[i], 3)}",
                f"({number(result.qq_residual.lower[i], 3)} to {number(result.qq_residual.upper[i], 3)})",
                f"normal: {number(result.qq_line[i], 3)}",
            ),
        )
        for i in range(result.qq_theoretical.size)
    )


def _described_quantiles(result: ResidualPlot) -> str:
    if result.status != "ok":
        return "An empty plot of quantiles: undefined because there are too few rows for this noise."
    inside = int(((result.qq_residual.lower <= result.qq_line) & (result.qq_line <= result.qq_residual.upper)).sum())
    return (
        "Quantiles of the residuals against those of a normal distribution, rising from lower left to upper right; "
        f"the normal line lies within the band at {inside} of {result.qq_line.size} quantiles."
    )
