"""The pictures of a stream: its newest steps, sums over its whole length, and one small picture for each count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics.count_stream.summary import BandedSums, StreamHistory
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import count, level
from spark_jobs.publishing.rendering import Plot, Probe
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.time_axis import TimeAxis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_RECENT, MAX_SUMS, MAX_SMALL = 240, 400, 120
"""The most steps or windows of each kind of picture."""
_FRAME = figures.Frame(width=7.2, height=3.7, heading=0.95, small=5.2, box=(0.15, 0.15, 0.825, 0.81))
_SMALL = figures.Frame(width=2.4, height=1.05, heading=0.0, small=2.4, box=(0.01, 0.04, 0.98, 0.9))
_ROOM = 1.08


def recent_plot(history: StreamHistory, place: int, *, axis: TimeAxis, confidence: float | None) -> Plot:
    """The newest steps of one count: noisy counts, estimates and their bands."""
    shown = min(history.steps, MAX_RECENT)
    first, part = history.steps - shown, slice(history.steps - shown, None)
    at = np.arange(first, history.steps, dtype=np.float64) + 0.5
    estimates = history.estimates[part, place]
    noisy = np.where(history.measured[part, place], history.noisy[part, place], np.nan)
    bands = _bands(history, place, part)
    top = _top(estimates, *bands)

    def draw(alone: bool) -> Figure:
        figure, axes = _time_axes(alone, axis, (first, history.steps), top, "Count in a step")
        if bands:
            _band(axes, at, *bands)
        axes.plot(at, noisy, color=light("chance"), linestyle="none", marker=".", markersize=3.2, zorder=1)
        axes.plot(at, estimates, color=light("curve"), linewidth=1.7)
        if alone:
            figures.heading(figure, left=0.03, title="The newest steps", lines=("estimates of the counts",))
        return figure

    return Plot(
        name="stream_recent",
        title="The newest steps",
        description=f"Released counts of the last {shown:,} steps, from {axis.text(first)} on; "
        f"the newest estimate is {count(float(estimates[-1]))}.",
        draw=draw,
        axes=_FRAME.box,
        probes=tuple(
            _probe(axis, first + i, (first, history.steps), top, float(estimates[i]), [float(end[i]) for end in bands])
            for i in range(shown)
        ),
        legend=(
            ("curve", "estimate"),
            *((("band", f"{level(confidence)} band of a step"),) if bands and confidence is not None else ()),
            ("speck", "noisy count"),
        ),
    )


def sums_plot(sums: BandedSums, place: int, *, axis: TimeAxis, confidence: float, length: str) -> Plot:
    """Sums of one count over consecutive windows, over the whole stream, with their bands."""
    ends, middle = int(sums.ends[-1]), sums.ends.astype(np.float64) - sums.width / 2
    begins = int(sums.ends[0]) - sums.width
    values, low, high = (part[:, place] for part in (sums.sums, sums.lower, sums.upper))
    top = _top(high)
    title = f"Sums over each {length}"

    def draw(alone: bool) -> Figure:
        figure, axes = _time_axes(alone, axis, (begins, ends), top, f"Sum over each {length}")
        _band(axes, middle, low, high)
        many = values.size > 40
        axes.plot(
            middle, values, color=light("curve"), linewidth=1.5, marker=None if many else "o", markersize=4,
            markeredgewidth=0,
        )  # fmt: skip
        if alone:
            figures.heading(figure, left=0.03, title=title, lines=(f"with {level(confidence)} bands",))
        return figure

    return Plot(
        name="stream_sums",
        title=title,
        description=f"Sums over each {length} from {axis.text(begins)} to {axis.text(ends)}, each with a band.",
        draw=draw,
        axes=_FRAME.box,
        probes=tuple(
            _probe(axis, int(end) - sums.width, (begins, ends), top, float(values[i]), [float(low[i]), float(high[i])],
                   at=float(middle[i]))
            for i, end in enumerate(sums.ends)
        ),
        legend=(("curve", "sum of noisy counts"), ("band", f"{level(confidence)} band of a sum")),
    )  # fmt: skip


def small_plot(history: StreamHistory, place: int, *, top: float) -> Plot:
    """The newest estimates of one count, as a small picture without ticks; ``top`` is the upper end of its scale."""
    part = slice(max(history.steps - MAX_SMALL, 0), None)
    estimates, bands = history.estimates[part, place], _bands(history, place, part)
    at = np.arange(estimates.size, dtype=np.float64) + 0.5

    def draw(alone: bool) -> Figure:
        figure, axes = _SMALL.axes(alone=False, x_label="", y_label="")
        axes.set_xlim(0, estimates.size)
        axes.set_ylim(0, top * _ROOM)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        if bands:
            _band(axes, at, *bands)
        axes.plot(at, estimates, color=light("curve"), linewidth=1.4)
        return figure

    return Plot(
        name=f"stream_small_{place}",
        title="Newest estimates",
        description=f"The last {estimates.size:,} estimates, up to {count(float(estimates.max()))}; "
        f"the newest is {count(float(estimates[-1]))}.",
        draw=draw,
        axes=_SMALL.box,
    )


def top_of(history: StreamHistory, place: int, *, minimum: float) -> float:
    """The upper end of a small picture's scale, at least ``minimum``, so that noise does not fill the picture."""
    part = slice(max(history.steps - MAX_SMALL, 0), None)
    return max(minimum, _top(history.estimates[part, place], *_bands(history, place, part)))


def _bands(history: StreamHistory, place: int, part: slice) -> tuple[FloatArray, ...]:
    if history.lower is None or history.upper is None:
        return ()
    return history.lower[part, place], history.upper[part, place]


def _top(*values: FloatArray) -> float:
    return max(1.0, *(float(np.nanmax(one, initial=0.0)) for one in values))


def _time_axes(alone: bool, axis: TimeAxis, across: tuple[int, int], top: float, y_label: str) -> tuple[Figure, Axes]:
    figure, axes = _FRAME.axes(alone=alone, x_label="", y_label=y_label)
    figures.set_ticks(axes, (float(across[0]), float(across[1])), (0.0, top * _ROOM))
    places, labels = axis.ticks(*across, limit=7 if alone else 5)
    axes.set_xticks(places, labels)
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    return figure, axes


def _short(value: float) -> str:
    """A tick that fits beside the plot: ``12,000``, ``250k``, ``1.5M``."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(size, 1e5):
            return f"{value / size:,.10g}{letter}"
    return f"{value:,.10g}"


def _band(axes: Axes, at: FloatArray, low: FloatArray, high: FloatArray) -> None:
    axes.fill_between(at, low, high, color=light("curve"), alpha=0.22, linewidth=0)


def _probe(
    axis: TimeAxis, step: int, across: tuple[int, int], top: float, value: float, band: list[float],
    *, at: float | None = None,
) -> Probe:  # fmt: skip
    def up(height: float) -> float:
        return float(np.clip(np.nan_to_num(height) / (top * _ROOM), 0.0, 1.0))

    low, high = band or (value, value)
    lines = [axis.text(step), "not measured" if np.isnan(value) else f"{value:,.4g}"]
    if band and not np.isnan(low):
        lines.append(f"{count(low)} to {count(high)}")
    middle = step + 0.5 if at is None else at
    return Probe(
        x=(middle - across[0]) / (across[1] - across[0]), y=up(value), low=up(low), high=up(high), lines=tuple(lines)
    )
