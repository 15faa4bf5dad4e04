"""The page of one figure in [0, 1], AUC or average precision: data file, picture and section of the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from spark_jobs.contract.figure import Number, Numbers
from spark_jobs.contract.figures import UNCHECKED, UNDEFINED
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.score_figures import ScoreFigure
from spark_jobs.diagnostics._score_ends import notice
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import chart
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, percent
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Plot,
    Rendering,
    Section,
    ValueTable,
    finite,
    known,
)
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FRAME = figures.Frame(width=5.6, height=3.3, heading=0.95, small=4.7, box=(0.06, 0.06, 0.88, 0.9))
_WHOLE, _ZOOMED = 0.78, 0.24
"""Heights of the two tracks: the whole scale, and the part of it around the interval."""
UNDEFINED_CLASS = (
    "Undefined: one of the two classes has too few rows for the noise. The release was made and its cost was charged."
)
_BAR, _DOT, _LENS = 14.0, 10.0, 3.0
_MAX_TICKS = 4


@dataclass(frozen=True, kw_only=True)
class Wording:
    """The words in which the pages of the AUC and of the average precision differ.

    Attributes:
        kind: name of the kind, of its files and of its column.
        title: title of the section and the picture.
        label: label of the headline.
        short: short name of the figure.
        reading: paragraphs that explain the figure.
        chance_label: label of the mark at ``chance``.
        chance: expected figure of scores without information; None if it is unknown.
    """

    kind: str
    title: str
    label: str
    short: str
    reading: tuple[str, ...]
    chance_label: str
    chance: Callable[[ScoreFigure], float | None]


def render_figure(result: ScoreFigure, request: ReleaseRequest, wording: Wording) -> Rendering:
    """The page of a result. Its tables have the same names, columns and number of rows whatever was released."""
    return Rendering(
        columns=_columns(result, wording), plots=(_plot(result, wording),), section=_section(result, request, wording)
    )


def _defined(result: ScoreFigure) -> bool:
    return result.status != UNDEFINED and finite(result.figure.value)


def _columns(result: ScoreFigure, wording: Wording) -> dict[str, Column]:
    nominal = f"{100 * result.confidence:.4g} %"
    end = f"end of the {nominal} interval for what the same rows give without noise; null if not paid for"
    beyond = f"end of the {nominal} interval for the population: noise and sampling; null if not paid for"
    sizes = [known(size) for size in (result.positives, result.negatives)]
    return {
        wording.kind: Column(values=np.array([result.figure.number]), meaning=f"{wording.title.lower()}, with noise"),
        **{
            name: Column(values=np.array([value]), meaning=meaning)
            for name, value, meaning in (
                ("lower", result.figure.lower, f"lower {end}"),
                ("upper", result.figure.upper, f"upper {end}"),
                ("population_lower", result.figure.ends("population").lower, f"lower {beyond}"),
                ("population_upper", result.figure.ends("population").upper, f"upper {beyond}"),
            )
        },
        "positives": Column(values=np.array(sizes[:1]), meaning="noisy number of positives; null if not paid for"),
        "negatives": Column(values=np.array(sizes[1:]), meaning="noisy number of negatives; null if not paid for"),
    }


def _plot(result: ScoreFigure, wording: Wording) -> Plot:
    return chart(
        lambda axes: _draw(axes, result, wording),
        name=wording.kind,
        title=wording.title,
        description=f"{_line(result, wording)}.",
        lines=(_line(result, wording), "released with noise"),
        frame=_FRAME,
    )


def _draw(axes: Axes, result: ScoreFigure, wording: Wording) -> None:
    """Draw the figure on the whole scale and, below it, the part of the scale around its interval."""
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    _track(axes, _WHOLE, ((0.0, "0"), (1.0, "1 perfect")))
    chance = wording.chance(result)
    if chance is not None:
        axes.plot(
            [chance] * 2, [_WHOLE - 0.07, _WHOLE + 0.07], color=light("chance"), linewidth=1.6, linestyle=(0, (3, 2))
        )
        _text(axes, chance, _WHOLE + 0.1, wording.chance_label, colour="muted")
    if not _defined(result):
        figures.draw_undefined(axes, "a class has too few rows", height=0.4)
        return
    low, high = result.figure.ends()
    value, with_interval = result.figure.number, finite(low) and finite(high)
    if with_interval:
        axes.plot([low, high], [_WHOLE] * 2, color=light("curve"), linewidth=_BAR, alpha=0.3, solid_capstyle="butt")
        _draw_zoomed(axes, result, (low, high))
    axes.plot([value], [_WHOLE], color=light("curve"), marker="o", markersize=_DOT)
    if not with_interval:
        _text(axes, value, _WHOLE - 0.2, decimals(value, _places(result)), colour="ink")


def _draw_zoomed(axes: Axes, result: ScoreFigure, interval: tuple[float, float]) -> None:
    middle = result.figure.number
    reach = _LENS * max(interval[1] - middle, middle - interval[0], 1e-4)
    first, last = max(0.0, middle - reach), min(1.0, middle + reach)

    def along(value: float) -> float:
        return (value - first) / (last - first)

    axes.fill(
        [first, last, 1, 0], [_WHOLE - 0.05, _WHOLE - 0.05, _ZOOMED + 0.24, _ZOOMED + 0.24],
        color=light("curve"), alpha=0.08, linewidth=0,
    )  # fmt: skip
    axes.fill([0, 1, 1, 0], [_ZOOMED + 0.24] * 2 + [_ZOOMED - 0.07] * 2, color=light("curve"), alpha=0.08, linewidth=0)
    candidates = MaxNLocator(nbins=_MAX_TICKS, steps=[1, 2, 5, 10]).tick_values(first, last)
    ticks = [float(tick) for tick in candidates if 0.04 < along(float(tick)) < 0.96]
    places = max(0, 1 - math.floor(math.log10(max(last - first, 1e-9))))
    _track(axes, _ZOOMED, tuple((along(tick), decimals(tick, places)) for tick in ticks))
    low, high = (along(end) for end in interval)
    axes.plot([low, high], [_ZOOMED] * 2, color=light("curve"), linewidth=_BAR, alpha=0.3, solid_capstyle="butt")
    axes.plot([along(middle)], [_ZOOMED], color=light("curve"), marker="o", markersize=_DOT)
    for place, value in ((low, interval[0]), (high, interval[1])):
        _text(axes, place, _ZOOMED + 0.09, decimals(value, _places(result)), colour="muted")
    axes.text(
        along(middle), _ZOOMED + 0.155, decimals(result.figure.value, _places(result)), color=light("ink"), size=12,
        weight="bold", ha="center", va="bottom",
    )  # fmt: skip


def _track(axes: Axes, height: float, ticks: Sequence[tuple[float, str]]) -> None:
    """Draw a scale with texts below it."""
    axes.plot([0, 1], [height] * 2, color=light("hairline"), linewidth=5, solid_capstyle="round", zorder=1)
    for place, text in ticks:
        axes.plot([place] * 2, [height - 0.035, height + 0.035], color=light("hairline"), linewidth=1.2, zorder=1)
        side = "left" if place == 0 else "right" if place == 1 else "center"
        axes.text(place, height - 0.09, text, color=light("muted"), size=9, ha=side, va="top")


def _text(axes: Axes, place: float, height: float, text: str, *, colour: str) -> None:
    side = "left" if place < 0.08 else "right" if place > 0.92 else "center"
    axes.text(place, height, text, color=light(colour), size=9, ha=side, va="bottom")


def _places(result: ScoreFigure) -> int:
    low, high = result.figure.ends()
    return 4 if high - low < 0.01 else 3


def _line(result: ScoreFigure, wording: Wording) -> str:
    if not _defined(result):
        return f"{wording.short} undefined: a class has too few rows for the noise"
    text = f"{wording.short} {decimals(result.figure.value, _places(result))}"
    return text if result.figure.interval is None else f"{text}  ({_interval(result)})"


def _interval(result: ScoreFigure) -> str:
    low, high = (decimals(end, _places(result)) for end in result.figure.ends())
    return f"{level(result.confidence)} interval {low} to {high}"


def _notes(result: ScoreFigure) -> tuple[str, ...]:
    of_ends = notice(result.status, result.at_ends)
    return (*_notes_on_intervals(result), *([] if of_ends is None else [of_ends]))


def _notes_on_intervals(result: ScoreFigure) -> tuple[str, ...]:
    if result.figure.interval is not None:
        return ("The interval measures the noise alone; that for the population, the sampling of the rows as well.",)
    if result.status == UNCHECKED:
        return ("No interval: the scale of the noise depends on the sizes of the classes, which were not paid for.",)
    return ()


def _section(result: ScoreFigure, request: ReleaseRequest, wording: Wording) -> Section:
    defined, chance = _defined(result), wording.chance(result)
    low, high = result.figure.ends()
    marks = None
    if defined:
        value = result.figure.number
        marks = (low, value, high) if finite(low) and finite(high) else (value, value, value)
    number = partial(decimals, places=_places(result))
    cells = [number(value) if defined else ABSENT for value in (result.figure.value, low, high)]
    return Section(
        title=wording.title,
        reading=wording.reading,
        headline=Headline(
            label=wording.label,
            value=number(result.figure.value) if defined else "undefined",
            interval=_interval(result) if defined and result.figure.interval is not None else None,
            scale=("0", "1 perfect"),
            marks=marks,
            reference=None if chance is None else (wording.chance_label, chance),
        ),
        measures=(
            *size_measures(result.positives, result.negatives, request),
            *population_measures(result.figure, result.confidence, _places(result)),
        ),
        table=ValueTable(
            caption="The figure, and the ends of its interval.",
            header=("Figure", "Value", "From", "To"),
            rows=((wording.short, *cells),),
        ),
        legend=(("curve", "released figure"), ("band", f"{level(result.confidence)} interval"), ("chance", "chance")),
        notes=_notes(result),
        notice=None if defined else UNDEFINED_CLASS,
    )


def population_measures(
    figure: Number, confidence: float, places: int, *, scale: float = 1.0, unit: str = ""
) -> tuple[Measure, ...]:
    """The interval for the population, and the noise's share of its width; empty if there is no interval."""
    low, high = figure.ends("population")
    if not (finite(low) and finite(high)):
        return ()
    share = percent(known(figure.privacy_share))
    return (
        Measure(
            label="For the population",
            value=f"{decimals(scale * low, places)} to {decimals(scale * high, places)}{unit}",
            note=f"{level(confidence)} interval for noise and sampling; noise is {share} of its width",
        ),
    )


def both_intervals(figure: Number, places: int = 3) -> str:
    """Both intervals of a figure as a note, for the same rows and for the population; empty if there are none."""
    if figure.interval is None:
        return ""
    (low, high), (lowest, highest) = (
        (decimals(end, places) for end in figure.ends(of)) for of in ("interval", "population")
    )
    share = percent(figure.privacy_share)
    return f"{low} to {high}; for the population {lowest} to {highest}, of which the noise makes {share}"


def share_measure(figures: Sequence[Numbers], of: str) -> Measure:
    """The median, over several figures, of the noise's share of the interval for the population.

    Args:
        figures: several figures, whose shares are NaN where they are undefined.
        of: what the figures are, in the plural.
    """
    shares = np.stack([one.privacy_share for one in figures if one.privacy_share is not None])
    there = shares[np.isfinite(shares)]
    return Measure(
        label="Share of the noise",
        value=percent(float(np.median(there)) if there.size else None),
        note=f"of the interval for the population, median of the {of}",
    )


def size_measures(positives: float | None, negatives: float | None, request: ReleaseRequest) -> tuple[Measure, ...]:
    """The noisy sizes of both classes, as far as they were paid for."""
    label = request.needed_label
    sizes = (("Positives", positives, label.positive), ("Negatives", negatives, label.negative_text))
    return tuple(
        Measure(label=name, value=f"≈{SPACE}{count(size)}", note=f"{label.column} = {value}")
        for name, size, value in sizes
        if size is not None
    )
