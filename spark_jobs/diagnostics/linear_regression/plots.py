"""Plots of released lines: all lines in one box, and the first groups in one panel each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from spark_jobs.diagnostics.linear_regression.result import LinearFit
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import one_line
from spark_jobs.publishing.rendering import Plot, Probe, finite
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.value_axis import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRAME = figures.Frame(width=6.0, height=4.6, heading=0.95, small=5.0, box=(0.16, 0.155, 0.77, 0.82))
_ROOM = 0.02
MAX_LINES = 400
MAX_PANELS, _ACROSS = 16, 4
_PANEL_WIDTH, _PANEL_HEIGHT = 1.35, 1.25
_FOOT, _SIDE = 0.62, 0.72
_KEY_CHARACTERS = 16
_MAX_PLACES = 3


def places_of(result: LinearFit) -> list[int]:
    """Indices of at most three places for a short table: the first, the last, and one in between."""
    many = result.at.size
    return list(range(many)) if many <= _MAX_PLACES else [0, many // 2, many - 1]


def all_lines_plot(result: LinearFit, x_name: str, y_name: str) -> Plot:
    """The lines in the public box; at most ``MAX_LINES``, evenly spaced in the list."""
    one = result.keys is None

    def draw(alone: bool) -> Figure:
        figure, axes = _FRAME.axes(alone=alone, x_label=one_line(x_name, 40), y_label=one_line(y_name, 40))
        figures.set_ticks(axes, *_limits(result))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: number(value, 4, plain_below=6))
        shown = np.unique(np.linspace(0, result.groups - 1, min(result.groups, MAX_LINES)).astype(int))
        opacity = max(0.1, min(1.0, (14.0 / len(shown)) ** 0.7))
        for failed, token, dashes in ((True, "chance", (0, (3, 2))), (False, "curve", "solid")):
            ends = [_ends(result, int(g)) for g in shown if (result.status[g] != "ok") == failed]
            if ends:  # drawn one by one, so that overlapping lines are darker
                style = {"color": light(token), "linestyle": dashes, "alpha": opacity}
                axes.add_collection(LineCollection(ends, linewidth=1.8 if one else 1.0, **style), autolim=False)
        if one:
            _dots(axes, result, 0, size=6.0)
        if alone:
            figures.heading(figure, left=0.03, title="Linear regression", lines=_lines(result))
        return figure

    return Plot(
        name="linear_regression",
        title="Released line" if one else "Released lines",
        description=_description(result),
        draw=draw,
        axes=_FRAME.box,
        probes=_probes(result) if one else (),
    )


def panels_plot(result: LinearFit, x_name: str, y_name: str) -> Plot:
    """The first groups of the list in one panel each, all with the same axes."""
    shown = min(result.groups, MAX_PANELS)
    across = min(_ACROSS, shown)
    down = math.ceil(shown / across)
    width = max(_SIDE + across * _PANEL_WIDTH + 0.3, 4.2)
    body = down * (_PANEL_HEIGHT + 0.28) + _FOOT
    box = (_SIDE / width, _FOOT / body, across * _PANEL_WIDTH / width, 1 - _FOOT / body)

    def draw(alone: bool) -> Figure:
        height = body + (_FRAME.heading if alone else 0.0)
        figure, frame = figures.new_axes((width, height), (0, 0, 1, 1), x_label="", y_label="")
        frame.set_axis_off()
        limits = _limits(result)
        for place in range(shown):
            row, column = divmod(place, across)
            axes = figure.add_axes(
                (
                    (_SIDE + column * _PANEL_WIDTH + 0.06) / width,
                    (_FOOT + (down - 1 - row) * (_PANEL_HEIGHT + 0.28) + 0.06) / height,
                    (_PANEL_WIDTH - 0.12) / width,
                    (_PANEL_HEIGHT - 0.1) / height,
                )
            )
            _panel(axes, result, place, limits, edge=column == 0, foot=place + across >= shown)
        figure.text(0.5, 0.12 / height, one_line(x_name, 40), color=light("ink"), size=10, ha="center")
        middle = (_FOOT + (body - _FOOT) / 2) / height
        figure.text(
            0.12 / width, middle, one_line(y_name, 40), color=light("ink"), size=10, va="center", rotation="vertical"
        )
        if alone:
            which = f"{shown} groups" if shown == result.groups else f"the first {shown} of {result.groups:,} groups"
            figures.heading(figure, left=0.03, title="Groups", lines=(which, "released with noise"))
        return figure

    return Plot(
        name="linear_regression_groups",
        title="Groups",
        description=f"The released lines of {shown} of {result.groups} groups, in one panel each.",
        draw=draw,
        axes=box,
    )


def _panel(
    axes: Axes,
    result: LinearFit,
    g: int,
    limits: tuple[tuple[float, float], tuple[float, float]],
    *,
    edge: bool,
    foot: bool,
) -> None:
    axes.set_facecolor("none")
    for spine in axes.spines.values():
        spine.set_color(light("hairline"))
    axes.set_xlim(limits[0])
    axes.set_ylim(limits[1])
    for axis, (low, high), kept in ((axes.xaxis, limits[0], foot), (axes.yaxis, limits[1], edge)):
        ticks = [
            tick for tick in MaxNLocator(nbins=2, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= tick <= high
        ]
        axis.set_ticks(ticks, [number(tick, 4, plain_below=6) if kept else "" for tick in ticks])
    labels = axes.get_xticklabels()
    if len(labels) > 1:  # labels at the ends would overlap those of the next panel
        labels[0].set_horizontalalignment("left")
        labels[-1].set_horizontalalignment("right")
    axes.tick_params(colors=light("muted"), labelsize=7, length=0, pad=3)
    axes.grid(color=light("hairline"), linewidth=0.6)
    axes.set_axisbelow(True)
    ends = np.array(_ends(result, g))
    failed = result.status[g] != "ok"
    axes.plot(
        ends[:, 0], ends[:, 1], color=light("chance" if failed else "curve"), linewidth=1.4,
        linestyle=(0, (3, 2)) if failed else "solid",
    )  # fmt: skip
    _dots(axes, result, g, size=5.5)
    key = str((result.keys or ("",))[g])
    axes.set_title(one_line(key, _KEY_CHARACTERS), color=light("ink"), size=7.5, pad=3)


def _dots(axes: Axes, result: LinearFit, g: int, *, size: float) -> None:
    low, high = result.predictions_lower[g], result.predictions_upper[g]
    known = ~(np.isnan(low) | np.isnan(high))
    axes.vlines(result.x[known], low[known], high[known], color=light("curve"), linewidth=1.4, zorder=3)
    axes.plot(
        result.x, result.predictions[g], color=light("curve"), marker="o", markersize=size, markeredgecolor="white",
        markeredgewidth=0.7, linestyle="none", zorder=4,
    )  # fmt: skip


def _limits(result: LinearFit) -> tuple[tuple[float, float], tuple[float, float]]:
    """The public box, with a small margin."""
    ends = []
    for low, high in (result.x_bounds, result.y_bounds):
        room = _ROOM * (high - low)
        ends.append((low - room, high + room))
    return ends[0], ends[1]


def _ends(result: LinearFit, g: int) -> list[tuple[float, float]]:
    """Where the line enters and leaves the public box; a line outside the box is drawn at the nearer edge."""
    (left, right), (low, high) = result.x_bounds, result.y_bounds
    at = np.linspace(left, right, 65)
    heights = result.intercept[g] + result.slope[g] * at
    if np.isnan(heights).any():  # undefined slope: through the predictions
        order = np.argsort(result.x)
        heights = np.interp(at, result.x[order], result.predictions[g][order])
    heights = np.clip(heights, low, high)
    inside = np.flatnonzero((heights > low) & (heights < high))
    first, last = (0, at.size - 1) if inside.size == 0 else (max(inside[0] - 1, 0), min(inside[-1] + 1, at.size - 1))
    return [(float(at[first]), float(heights[first])), (float(at[last]), float(heights[last]))]


def _lines(result: LinearFit) -> tuple[str, str]:
    if result.keys is None:
        predictions = ", ".join(
            f"{number(float(result.predictions[0, k]), 4)} at {number(float(result.x[k]), 4)}"
            for k in places_of(result)
        )
        return (f"Predicted: {predictions}", "released with noise")
    drawn = "" if result.groups <= MAX_LINES else f", {MAX_LINES} of them drawn"
    return (f"{result.groups:,} groups{drawn}", "released with noise")


def _probes(result: LinearFit) -> tuple[Probe, ...]:
    (left, right), (low, high) = _limits(result)

    def up(value: float) -> float:
        return float(np.clip((value - low) / (high - low), 0.0, 1.0))

    probes = []
    for k in np.argsort(result.x):
        middle = float(result.predictions[0, k])
        ends = [float(end) for end in (result.predictions_lower[0, k], result.predictions_upper[0, k])]
        known = all(finite(end) for end in ends)
        first, last = ends if known else (middle, middle)
        interval = (f"({number(first, 4)} to {number(last, 4)})",) if known else ()
        probes.append(
            Probe(
                x=float((result.x[k] - left) / (right - left)),
                y=up(middle),
                low=up(first),
                high=up(last),
                lines=(f"at {number(float(result.x[k]), 4)}", f"predicted {number(middle, 4)}", *interval),
            )
        )
    return tuple(probes)


def _description(result: LinearFit) -> str:
    if result.keys is None:
        return f"A line in the public box of both values. {_lines(result)[0]}."
    return f"The released lines of {result.groups} groups in the public box of both values."
