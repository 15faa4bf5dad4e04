"""One figure of a classifier, the AUC or the average precision: data file, picture and part of the report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.publishing import drawing
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level
from spark_jobs.publishing.rendering import Column, Headline, Measure, Plot, Rendering, Section, ValueTable, finite
from spark_jobs.publishing.tokens import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT, _HEADING = 6.4, 1.7, 0.95
_BOX = (0.05, 0.36, 0.9, 0.5)
_BAR, _DOT = 11.0, 9.0


class FigureValues(Protocol):
    """The released values of one figure in [0, 1]."""

    @property
    def value(self) -> float: ...  # noqa: D102
    @property
    def interval(self) -> tuple[float, float] | None: ...  # noqa: D102
    @property
    def positives(self) -> float | None: ...  # noqa: D102
    @property
    def negatives(self) -> float | None: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def confidence(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What differs between the figures: names and sentences."""

    kind: str
    title: str
    label: str
    short: str
    reading: tuple[str, ...]
    chance_label: str


AUC = Wording(
    kind="auc",
    title="Area under the ROC curve",
    label="Area under the curve (AUC)",
    short="AUC",
    reading=(
        "The AUC is how often a positive row, picked at random, scores above a negative one, ties counting half: one "
        "half is the toss of a coin, one is perfect.",
    ),
    chance_label="½ chance",
)
AVERAGE_PRECISION = Wording(
    kind="average_precision",
    title="Average precision",
    label="Average precision",
    short="AP",
    reading=(
        "Go down the rows from the highest score, and note at each positive row which share of the rows so far are "
        "positive: the average precision is the mean of these shares. Scores that say nothing give the share of "
        "positives in the whole table; one is perfect.",
    ),
    chance_label="chance",
)


def render_auc(result: FigureValues, request: ReleaseRequest) -> Rendering:
    """Files and report of a released AUC."""
    return _render(result, request, AUC)


def render_average_precision(result: FigureValues, request: ReleaseRequest) -> Rendering:
    """Files and report of a released average precision."""
    return _render(result, request, AVERAGE_PRECISION)


def _render(result: FigureValues, request: ReleaseRequest, wording: Wording) -> Rendering:
    return Rendering(
        columns=_columns(result, wording), plots=(_plot(result, wording),), section=_section(result, request, wording)
    )


def _defined(result: FigureValues) -> bool:
    return result.status == "ok" and finite(result.value)


def _ends(result: FigureValues) -> tuple[float, float]:
    return (np.nan, np.nan) if result.interval is None else result.interval


def _chance(result: FigureValues, wording: Wording) -> float | None:
    """What scores that say nothing would reach: one half, or the noisy share of positives if it is known."""
    if wording.kind == "auc":
        return 0.5
    if result.positives is None or result.negatives is None:
        return None
    share = result.positives / max(result.positives + result.negatives, 1.0)
    return min(max(share, 0.0), 1.0) if finite(share) else None


def _columns(result: FigureValues, wording: Wording) -> dict[str, Column]:
    low, high = _ends(result)
    end = f"end of the {100 * result.confidence:.4g} % interval of where the exact rows put it; NaN if not paid for"
    sizes = [np.nan if size is None else size for size in (result.positives, result.negatives)]
    return {
        wording.kind: Column(values=np.array([result.value]), meaning=f"{wording.title.lower()}, with noise"),
        "lower": Column(values=np.array([low]), meaning=f"lower {end}"),
        "upper": Column(values=np.array([high]), meaning=f"upper {end}"),
        "positives": Column(values=np.array(sizes[:1]), meaning="noisy number of positives; NaN if not paid for"),
        "negatives": Column(values=np.array(sizes[1:]), meaning="noisy number of negatives; NaN if not paid for"),
    }


def _plot(result: FigureValues, wording: Wording) -> Plot:
    def draw(alone: bool) -> Figure:
        height = _HEIGHT + (_HEADING if alone else 0.0)
        left, bottom, wide, high = _BOX
        part = _HEIGHT / height
        figure, axes = drawing.new_axes(
            (_WIDTH, height), (left, bottom * part, wide, high * part), x_label=wording.label, y_label=""
        )
        _draw(axes, result, wording)
        if alone:
            drawing.heading(
                figure, left=0.03, title=wording.title, lines=(_line(result, wording), "released with noise")
            )
        return figure

    return Plot(
        name=wording.kind,
        title=wording.title,
        description=f"{_line(result, wording)}.",
        draw=draw,
        axes=_BOX,
        probes=(),
    )


def _draw(axes: Axes, result: FigureValues, wording: Wording) -> None:
    axes.set_xlim(-0.01, 1.01)
    axes.set_ylim(-1, 1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    chance = _chance(result, wording)
    if chance is not None:
        axes.plot([chance, chance], [-0.8, 0.8], color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)))
    if not _defined(result):
        axes.text(0.75, 0, "undefined", color=light("muted"), size=16, ha="center", va="center")
        return
    low, high = _ends(result)
    if finite(low) and finite(high):
        axes.plot([low, high], [0, 0], color=light("curve"), linewidth=_BAR, alpha=0.25, solid_capstyle="butt")
    axes.plot([result.value], [0], color=light("curve"), marker="o", markersize=_DOT)


def _places(result: FigureValues) -> int:
    low, high = _ends(result)
    return 4 if high - low < 0.01 else 3


def _line(result: FigureValues, wording: Wording) -> str:
    if not _defined(result):
        return f"{wording.short} undefined: a class is too small to tell through the noise"
    told = f"{wording.short} {decimals(result.value, _places(result))}"
    return told if result.interval is None else f"{told}  ({_interval(result)})"


def _interval(result: FigureValues) -> str:
    low, high = (decimals(end, _places(result)) for end in _ends(result))
    return f"{level(result.confidence)} interval {low} to {high}"


def _section(result: FigureValues, request: ReleaseRequest, wording: Wording) -> Section:
    defined, chance = _defined(result), _chance(result, wording)
    low, high = _ends(result)
    marks = None
    if defined:
        ends = (low, high) if finite(low) and finite(high) else (result.value, result.value)
        marks = (ends[0], result.value, ends[1])
    number = partial(decimals, places=_places(result))
    cells = [number(value) if defined else ABSENT for value in (result.value, low, high)]
    sizes = (
        ("Positives", result.positives, request.needed_label.positive),
        ("Negatives", result.negatives, request.needed_label.negative),
    )
    return Section(
        title=wording.title,
        reading=wording.reading,
        headline=Headline(
            label=wording.label,
            value=number(result.value) if defined else "undefined",
            interval=_interval(result) if defined and result.interval is not None else None,
            scale=("0", "1 perfect"),
            marks=marks,
            reference=None if chance is None else (wording.chance_label, chance),
        ),
        measures=tuple(
            Measure(label=label, value=f"≈{SPACE}{count(size)}", note=f"{request.needed_label.column} = {value}")
            for label, size, value in sizes
            if size is not None
        ),
        table=ValueTable(
            caption="The figure and its interval.",
            header=("Figure", "Value", "From", "To"),
            rows=((wording.short, *cells),),
        ),
        legend=(("curve", "released figure"), ("band", f"{level(result.confidence)} interval"), ("chance", "chance")),
        notes=(
            "The interval says how far the noise may have moved the figure of these rows, not which other rows might "
            "have been in the table."
            if result.interval is not None
            else "No interval: how wide the noise is depends on the sizes of the classes, which were not paid for.",
        ),
        notice=None
        if defined
        else "Undefined: through the noise, one of the two classes is too small to tell. The release has been made and "
        "paid for like any other.",
    )
