"""Plots of released lines: all lines in one box, and the first groups against each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection

from spark_jobs.arrays import BoolArray
from spark_jobs.contract.figures import OK
from spark_jobs.contract.results.lines import LinearFit
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import along, chart
from spark_jobs.publishing.formats import level, one_line
from spark_jobs.publishing.rendering import Plot, Probe, finite
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.value_axis import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRAME = figures.Frame(width=6.0, height=4.6, heading=0.95, small=5.0, box=(0.16, 0.155, 0.77, 0.82))
_ONE_LINE = replace(_FRAME, heading=1.17)
_ROOM = 0.02
MAX_LINES = 400
MAX_ROWS = 40
_ROW_HEIGHT, _FOOT, _LABELS = 0.26, 0.62, 1.35
_HIDING_SHARE = 0.8
_KEY_CHARACTERS = 16
_MAX_PLACES = 3


def places_of(result: LinearFit) -> list[int]:
    """Indices of at most three places for a short table: the first, the last, and one in between."""
    many = result.at.size
    return list(range(many)) if many <= _MAX_PLACES else [0, many // 2, many - 1]


def all_lines_plot(result: LinearFit, x_name: str, y_name: str) -> Plot:
    """The lines in the public box; at most ``MAX_LINES``, evenly spaced in the list."""
    one = result.keys is None

    def paint(axes: Axes) -> None:
        figures.set_ticks(axes, *_limits(result))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: number(value, 4, plain_below=6))
        shown = np.unique(np.linspace(0, result.groups - 1, min(result.groups, MAX_LINES)).astype(int))
        opacity = max(0.1, min(1.0, (14.0 / len(shown)) ** 0.7))
        hidden = hidden_groups(result)
        for hides, token, dashes in ((True, "chance", (0, (3, 2))), (False, "curve", "solid")):
            ends = [_ends(result, int(g)) for g in shown if hidden[g] == hides]
            if ends:  # drawn one by one, so that overlapping lines are darker
                style = {"color": light(token), "linestyle": dashes, "alpha": opacity}
                axes.add_collection(LineCollection(ends, linewidth=1.8 if one else 1.0, **style), autolim=False)
        if one:
            _dots(axes, result, 0, size=6.0)

    return chart(
        paint,
        name="linear_regression",
        title="Released line" if one else "Released lines",
        heading="Linear regression",
        description=_description(result),
        lines=_lines(result),
        frame=_ONE_LINE if one else _FRAME,
        labels=(one_line(x_name, 40), one_line(y_name, 40)),
        probes=_probes(result) if one else (),
    )


def groups_plot(result: LinearFit, x_name: str, y_name: str) -> Plot:
    """The first groups of the list compared: one row each, with the line's heights at the first and the last place.

    Whiskers are drawn in full within the public range of y. A group is grey if each of its whiskers, or a missing
    interval, covers most of this range, so that the noise hides where its line lies.
    """
    shown = min(result.groups, MAX_ROWS)
    body = shown * _ROW_HEIGHT + _FOOT + 0.12
    box = (_LABELS / _FRAME.width, _FOOT / body, 1 - (_LABELS + 0.25) / _FRAME.width, 1 - (_FOOT + 0.1) / body)
    places = sorted({int(np.argmin(result.x)), int(np.argmax(result.x))}, key=lambda place: float(result.x[place]))
    at = " and ".join(number(float(result.x[place]), 4) for place in places)

    def draw(alone: bool) -> Figure:
        height = body + (_FRAME.heading if alone else 0.0)
        figure, axes = figures.new_axes(
            (_FRAME.width if alone else _FRAME.small, height),
            (box[0], box[1] * body / height, box[2], box[3] * body / height),
            x_label=one_line(f"{y_name} at {x_name} = {at}", 60),
            y_label="",
        )
        _draw_rows(axes, result, places, shown)
        if alone:
            which = f"{shown} groups" if shown == result.groups else f"the first {shown} of {result.groups:,} groups"
            figures.heading(figure, left=0.03, title="Groups", lines=(which, "released with noise"))
        return figure

    return Plot(
        name="linear_regression_groups",
        title="Groups",
        description=f"Predictions of {shown} of {result.groups} groups with their intervals, one row each.",
        draw=draw,
        axes=box,
        legend=(
            ("point", f"predicted, with interval, at {number(float(result.x[places[0]]), 4)}"),
            *((("outlier", f"at {number(float(result.x[places[-1]]), 4)}"),) if len(places) > 1 else ()),
            ("zone", "the noise hides the line"),
        ),
    )


def hidden_groups(result: LinearFit) -> BoolArray:
    """Groups whose intervals all cover most of the public range of y, or that have no slope; shape (groups,)."""
    low, high = result.y_bounds
    narrow = result.predictions.upper - result.predictions.lower < _HIDING_SHARE * (high - low)
    without = np.isnan(result.predictions.lower).all(axis=1)
    hidden: BoolArray = (np.array(result.status) != OK) | ~(narrow.any(axis=1) | without)
    return hidden


def _draw_rows(axes: Axes, result: LinearFit, places: list[int], shown: int) -> None:
    figures.set_ticks(axes, _limits(result)[1], (shown - 0.5, -0.5))
    axes.xaxis.set_major_formatter(lambda value, _: number(value, 4, plain_below=6))
    keys = [one_line(str(key), _KEY_CHARACTERS) for key in (result.keys or ("",))[:shown]]
    axes.set_yticks(range(shown), keys)
    axes.grid(axis="y", visible=False)
    hidden = hidden_groups(result)[:shown]
    apart = 0.17 if len(places) > 1 else 0.0
    for side, place, token, marker in ((-apart, places[0], "curve", "o"), (apart, places[-1], "spent", "D")):
        rows = np.arange(shown) + side
        value, low, high = (ends[:shown, place] for ends in (result.predictions.value, *result.predictions.ends()))
        for grey in (False, True):
            kept = hidden == grey
            colour = light("chance" if grey else token)
            known = kept & ~np.isnan(low)
            axes.hlines(rows[known], low[known], high[known], color=colour, linewidth=1.4, alpha=0.45 if grey else 1)
            axes.plot(value[kept], rows[kept], color=colour, marker=marker, markersize=4.5, linestyle="none")


def _dots(axes: Axes, result: LinearFit, g: int, *, size: float) -> None:
    low, high = result.predictions.lower[g], result.predictions.upper[g]
    known = ~(np.isnan(low) | np.isnan(high))
    axes.vlines(result.x[known], low[known], high[known], color=light("curve"), linewidth=1.4, zorder=3)
    axes.plot(
        result.x, result.predictions.value[g], color=light("curve"), marker="o", markersize=size,
        markeredgecolor="white", markeredgewidth=0.7, linestyle="none", zorder=4,
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
    heights = result.intercept.value[g] + result.slope.value[g] * at
    if np.isnan(heights).any():  # undefined slope: through the predictions
        order = np.argsort(result.x)
        heights = np.interp(at, result.x[order], result.predictions.value[g][order])
    heights = np.clip(heights, low, high)
    inside = np.flatnonzero((heights > low) & (heights < high))
    first, last = (0, at.size - 1) if inside.size == 0 else (max(inside[0] - 1, 0), min(inside[-1] + 1, at.size - 1))
    return [(float(at[first]), float(heights[first])), (float(at[last]), float(heights[last]))]


def _lines(result: LinearFit) -> tuple[str, ...]:
    if result.keys is None:
        return _slope_line(result), _prediction_line(result), "released with noise"
    drawn = "" if result.groups <= MAX_LINES else f", {MAX_LINES} of them drawn"
    return (f"{result.groups:,} groups{drawn}", "released with noise")


def _slope_line(result: LinearFit) -> str:
    """The slope of a single line, with its interval if it has one."""
    slope, low, high = (float(ends[0]) for ends in (result.slope.value, *result.slope.ends()))
    if not finite(slope):
        return "Slope: undefined"
    known = finite(low) and finite(high)
    interval = f" ({level(result.confidence)} interval {number(low, 4)} to {number(high, 4)})" if known else ""
    return f"Slope: {number(slope, 4)}{interval}"


def _prediction_line(result: LinearFit) -> str:
    predictions = ", ".join(
        f"{number(float(result.predictions.value[0, k]), 4)} at {number(float(result.x[k]), 4)}"
        for k in places_of(result)
    )
    return f"Predicted: {predictions}"


def _probes(result: LinearFit) -> tuple[Probe, ...]:
    across, upwards = _limits(result)
    probes = []
    for k in np.argsort(result.x):
        middle = float(result.predictions.value[0, k])
        ends = [float(end) for end in result.predictions.at((0, k)).ends()]
        known = all(finite(end) for end in ends)
        first, last = ends if known else (middle, middle)
        interval = (f"({number(first, 4)} to {number(last, 4)})",) if known else ()
        probes.append(
            Probe(
                x=along(result.x[k], across),
                y=along(middle, upwards),
                low=along(first, upwards),
                high=along(last, upwards),
                lines=(f"at {number(float(result.x[k]), 4)}", f"predicted {number(middle, 4)}", *interval),
            )
        )
    return tuple(probes)


def _description(result: LinearFit) -> str:
    if result.keys is None:
        return f"A line in the public box of both values. {_slope_line(result)}. {_prediction_line(result)}."
    return f"The released lines of {result.groups} groups in the public box of both values."
