"""The pictures of a profile: how complete each column is, what it contains, and two columns together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figures import OK
from spark_jobs.contract.results.profile import ColumnProfile, PairProfile, Profile
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import level, one_line, percent
from spark_jobs.publishing.rendering import Legend, Plot
from spark_jobs.publishing.shaded_table import MAX_COLUMNS, MAX_ROWS, ShadedTable
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.value_axis import number
from spark_jobs.publishing.whisker_rows import rows_axes, rows_box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Profile of the table"
MAX_BARS, MAX_LISTED, MAX_DRAWN = 32, 10, 30
"""The most bars of a histogram, listed values, and columns of the overview; the data files have all."""
PARTS: Legend = (("curve", "has a value"), ("before", "another value"), ("spent", "missing, or not readable"))
BARS: Legend = (("curve", "share of the rows"), ("chance", "weak column: may be noise"))
SHADES: Legend = (("right", "the stronger, the more rows"), ("wrong", "below 0: the stronger, the lower"))
_SIZE, _BOX = (3.4, 2.1), (0.15, 0.17, 0.81, 0.75)
_CHARACTERS, _LABELS, _FEW, _LONG = 14, 1.25, 4, 8


def overview(result: Profile) -> Plot:
    """A bar for each column: the shares of rows with a listed value, with another one, and with none."""
    columns = result.columns[:MAX_DRAWN]
    absent = [_share(one.missing.number) + _share(one.unparsed.number) for one in columns]
    outside = [_share(one.outside.number) for one in columns]

    def draw(alone: bool) -> Figure:
        figure, axes = rows_axes(len(columns), alone=alone, label="Share of all rows")
        figures.set_ticks(axes, (0.0, 1.0), (len(columns) - 0.5, -0.5))
        axes.set_yticks(range(len(columns)), [one_line(one.column, 2 * _CHARACTERS) for one in columns])
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        axes.grid(axis="y", visible=False)
        for place, (one, gone, other) in enumerate(zip(columns, absent, outside, strict=True)):
            whole = 1.0 if one.status == OK else 0.0
            start = 0.0
            for width, token in ((max(whole - gone - other, 0.0), "curve"), (other, "before"), (gone, "spent")):
                if width > 0:  # a legend names what is drawn
                    axes.barh(place, width, left=start, height=0.62, color=light(token), linewidth=0)
                start += width
            if not whole:
                axes.text(0.02, place, "weak", color=light("muted"), size=9, va="center")
        if alone:
            lines = ("blue: has a value; grey: another value; orange: missing, or not readable", "released with noise")
            figures.heading(figure, left=0.03, title=TITLE, lines=lines)
        return figure

    return Plot(
        name="profile",
        title=TITLE,
        description=f"Of {len(columns)} columns the shares of rows with a value, with another one, and with none.",
        draw=draw,
        axes=rows_box(len(columns)),
        legend=PARTS,
    )


def column_plot(one: ColumnProfile, place: int, confidence: float) -> Plot:
    """The contents of a column: its most frequent values with intervals, or a histogram with its mean and median."""
    listed = one.form == "values"
    what = f"most frequent values with {level(confidence)} intervals" if listed else "histogram"

    def draw(alone: bool) -> Figure:
        return _values(one) if listed else _histogram(one)

    return Plot(
        name=f"profile_column_{place}",
        title="What the column holds",
        description=f"The {what}; {percent(one.missing.value)} of the rows have no value.",
        draw=draw,
        axes=_BOX,
        legend=BARS,
    )


def _histogram(one: ColumnProfile) -> Figure:
    figure, axes = figures.new_axes(_SIZE, _BOX, x_label="", y_label="")
    heights, joined = merged(np.maximum(one.count.value, 0.0) if one.status != OK else one.shares.value)
    axes.bar(np.arange(heights.size) + 0.5, np.maximum(heights, 0.0), width=0.92, color=_colour(one), linewidth=0)
    if one.quantiles.value.size and one.status == OK:
        _mark_middle(axes, one, joined)
    top = float(max(heights.max(), 0.0)) or 1.0
    figures.set_ticks(axes, (0.0, float(heights.size)), (0.0, 1.12 * top))
    starts = [label.split(" to ")[0] for label in one.cells]
    texts = [_short(starts[at * joined]) for at in range(heights.size)]
    step = -(-heights.size // (_FEW if max(map(len, texts)) < _LONG else _FEW // 2))
    shown = range(0, heights.size, step)
    axes.set_xticks([at + 0.5 for at in shown], [texts[at] for at in shown])
    axes.set_yticks(axes.get_yticks()[::2])
    if one.status == OK:
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    else:
        axes.yaxis.set_major_formatter(lambda value, _: number(value, 2))
    axes.grid(axis="x", visible=False)
    return figure


def _mark_middle(axes: Axes, one: ColumnProfile, joined: int) -> None:
    """A line at the mean, and a band of the interval of the median, between the bars' places."""
    starts = np.array([float(label.split(" to ")[0]) for label in one.cells])
    ends = float(one.cells[-1].split(" to ")[-1])

    def place(value: float) -> float:
        marks = np.append(starts, ends if ends > starts[-1] else ends + (starts[-1] - starts[0]) / len(starts))
        return float(np.interp(value, marks, np.arange(marks.size))) / joined + (
            0.5 / joined if ends == starts[-1] else 0
        )

    axes.axvline(place(one.mean.number), color=light("spent"), linewidth=1.6, linestyle=(0, (4, 2)))


def _values(one: ColumnProfile) -> Figure:
    weak = one.status != OK
    shown = one.count if weak else one.shares
    order = np.argsort(-shown.value, kind="stable")[:MAX_LISTED]
    height = 0.24 * len(order) + 0.5
    box = (_LABELS / _SIZE[0], 0.38 / height, 1 - (_LABELS + 0.2) / _SIZE[0], 1 - 0.45 / height)
    figure, axes = figures.new_axes((_SIZE[0], height), box, x_label="", y_label="")
    ends = shown.ends()
    rows = np.arange(len(order))
    axes.barh(rows, np.maximum(shown.value[order], 0.0), height=0.66, color=_colour(one), linewidth=0, alpha=0.55)
    axes.hlines(rows, ends.lower[order], ends.upper[order], color=light("ink"), linewidth=1.3)
    top = float(max(ends.upper[order].max(), 0.0)) or 1.0
    figures.set_ticks(axes, (0.0, 1.05 * top), (len(order) - 0.5, -0.5))
    axes.set_yticks(rows, [one_line(one.cells[at], _CHARACTERS) for at in order])
    axes.set_xticks(axes.get_xticks()[::2])
    axes.xaxis.set_major_formatter(lambda value, _: number(value, 2) if weak else f"{100 * value:.3g} %")
    axes.grid(axis="y", visible=False)
    return figure


def pair_plot(pair: PairProfile, place: int) -> Plot:
    """Two columns together, as a shaded table."""
    rows, across = ([one_line(label, _CHARACTERS) for label in keys] for keys in pair.keys)
    values = pair.count.value.reshape(len(rows), len(across))[:MAX_ROWS, :MAX_COLUMNS]
    table = ShadedTable(
        values=values,
        weak=np.asarray(values < pair.ok_from),
        rows=rows[:MAX_ROWS],
        columns=across[:MAX_COLUMNS],
        write=lambda value: number(value, 3, plain_below=5),
    )

    def draw(alone: bool) -> Figure:
        figure, _ = table.draw(alone=alone, label=one_line(pair.columns[1], 2 * _CHARACTERS))
        return figure

    return Plot(
        name=f"profile_pair_{place}",
        title="Two columns together",
        description=f"Rows by two columns, {len(rows)} by {len(across)} cells, as a shaded table.",
        draw=draw,
        axes=table.box,
        legend=SHADES,
    )


def merged(values: FloatArray) -> tuple[FloatArray, int]:
    """Sums over runs of neighbouring cells, at most ``MAX_BARS`` of them, and the number of cells in a run."""
    joined = -(-values.size // MAX_BARS)
    return np.add.reduceat(values, np.arange(0, values.size, joined)), joined


def _colour(one: ColumnProfile) -> str:
    return light("curve" if one.status == OK else "chance")


def _share(value: float) -> float:
    return value if value == value else 0.0


def _short(text: str) -> str:
    try:
        return number(float(text), 3, plain_below=5)
    except ValueError:
        return text
