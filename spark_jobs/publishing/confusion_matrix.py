"""Confusion matrices at thresholds: data file, picture and part of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.confusion_matrix import ConfusionMatrix
from spark_jobs.diagnostics.confusion_matrix.result import COUNTS, RATES
from spark_jobs.publishing import drawing
from spark_jobs.publishing.formats import ABSENT, SPACE, count, level, percent
from spark_jobs.publishing.rendering import Column, Measure, Plot, Rendering, Section, ValueTable, finite
from spark_jobs.publishing.tokens import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {"accuracy": "Accuracy", "precision": "Precision", "recall": "Recall", "specificity": "Specificity", "f1": "F1"}
_MEANINGS = {
    "accuracy": "share of all rows that are told rightly",
    "precision": "share of the flagged rows that are positive",
    "recall": "share of the positives that are flagged",
    "specificity": "share of the negatives that are not flagged",
    "f1": "harmonic mean of precision and recall",
}
_WIDTH, _STRIP, _FOOT, _HEADING = 6.4, 0.62, 0.75, 0.95
_TITLE = "Confusion matrix and rates"


def render(result: ConfusionMatrix, request: ReleaseRequest) -> Rendering:
    """Files and report of released confusion matrices; all is the same whatever was released, but for the values."""
    return Rendering(columns=_columns(result), plots=(_plot(result),), section=_section(result, request))


def _columns(result: ConfusionMatrix) -> dict[str, Column]:
    columns = {
        "threshold": Column(values=result.thresholds, meaning="a row is flagged if its score is at least this"),
        **{
            name: Column(values=result.counts[name], meaning=f"noisy number of {name.replace('_', ' ')}")
            for name in COUNTS
        },
    }
    end = f"end of the {100 * result.confidence:.4g} % interval of where the exact rows put it"
    for name in RATES:
        columns[name] = Column(values=result.rates[name], meaning=f"{_MEANINGS[name]}; NaN where nothing is left")
        columns[f"{name}_lower"] = Column(values=result.lower[name], meaning=f"lower {end}")
        columns[f"{name}_upper"] = Column(values=result.upper[name], meaning=f"upper {end}")
    return columns


def _box(height: float) -> tuple[float, float, float, float]:
    return (0.17, _FOOT / height, 0.79, 1 - (_FOOT + 0.1) / height)


def _plot(result: ConfusionMatrix) -> Plot:
    body = _STRIP * len(RATES) + _FOOT + 0.1

    def draw(alone: bool) -> Figure:
        height = body + (_HEADING if alone else 0.0)
        left, bottom, wide, high = _box(body)
        part = body / height
        many = result.thresholds.size > 1
        figure, axes = drawing.new_axes(
            (_WIDTH, height),
            (left, bottom * part, wide, high * part),
            x_label="Score from which a row is flagged" if many else "Share of the rows concerned",
            y_label="",
        )
        (_draw_many if many else _draw_one)(axes, result)
        if alone:
            drawing.heading(figure, left=0.03, title=_TITLE, lines=_lines(result))
        return figure

    return Plot(name="confusion_matrix", title=_TITLE, description=_description(result), draw=draw, axes=_box(body))


def _lines(result: ConfusionMatrix) -> tuple[str, str]:
    at = f"at a score of {result.thresholds[0]:.3f}" if result.thresholds.size == 1 else "each strip from 0 to 100 %"
    return f"with {level(result.confidence)} intervals, {at}", "released with noise"


def _draw_one(axes: Axes, result: ConfusionMatrix) -> None:
    axes.set_xlim(-0.01, 1.01)
    axes.set_ylim(len(RATES) - 0.5, -0.5)
    axes.set_yticks(range(len(RATES)), [NAMES[name] for name in RATES])
    for place, name in enumerate(RATES):
        value, low, high = (float(each[name][0]) for each in (result.rates, result.lower, result.upper))
        axes.plot([low, high], [place, place], color=light("curve"), linewidth=9, alpha=0.25, solid_capstyle="butt")
        if finite(value):
            axes.plot([value], [place], color=light("curve"), marker="o", markersize=8)


def _draw_many(axes: Axes, result: ConfusionMatrix) -> None:
    """One strip for each rate, each from 0 to 1, over the thresholds."""
    at = result.thresholds
    margin = 0.02 * (at[-1] - at[0])
    axes.set_xlim(at[0] - margin, at[-1] + margin)
    axes.set_ylim(len(RATES) - 0.5, -0.5)
    axes.set_yticks(range(len(RATES)), [NAMES[name] for name in RATES])
    axes.grid(axis="y", visible=False)
    for place, name in enumerate(RATES):

        def height(values: np.ndarray, place: int = place) -> np.ndarray:
            return place + 0.4 - 0.8 * values

        axes.fill_between(
            at, height(result.lower[name]), height(result.upper[name]), color=light("curve"), alpha=0.22, linewidth=0
        )
        axes.plot(at, height(result.rates[name]), color=light("curve"), linewidth=1.6, marker="o", markersize=3)
        for edge in (place - 0.4, place + 0.4):
            axes.axhline(edge, color=light("hairline"), linewidth=0.8, zorder=0)


def _description(result: ConfusionMatrix) -> str:
    first = "; ".join(f"{NAMES[name].lower()} {percent(float(result.rates[name][0]))}" for name in RATES)
    return f"Rates with intervals by threshold. At {result.thresholds[0]:.3f}: {first}."


def _cell(result: ConfusionMatrix, name: str, i: int) -> str:
    low, high = float(result.lower[name][i]), float(result.upper[name][i])
    return f"{percent(float(result.rates[name][i]))} ({percent(low)} to {percent(high)})"


def _section(result: ConfusionMatrix, request: ReleaseRequest) -> Section:
    single = result.thresholds.size == 1
    defined = result.status == "ok"
    rows = tuple(
        (
            f"{threshold:.4f}",
            *(count(float(result.counts[name][i])) for name in COUNTS),
            *(_cell(result, name, i) if defined else ABSENT for name in RATES),
        )
        for i, threshold in enumerate(result.thresholds)
    )
    label = request.needed_label
    return Section(
        title=_TITLE,
        reading=(
            "Rows with a score of at least the threshold are flagged as positive. "
            + " ".join(f"{NAMES[name]}: {_MEANINGS[name]}." for name in RATES),
        ),
        measures=(
            *(
                (Measure(label=NAMES[name], value=_cell(result, name, 0), note=_MEANINGS[name]) for name in RATES)
                if single and defined
                else ()
            ),
            Measure(
                label="Positives", value=f"≈{SPACE}{count(result.positives)}", note=f"{label.column} = {label.positive}"
            ),
            Measure(
                label="Negatives", value=f"≈{SPACE}{count(result.negatives)}", note=f"{label.column} = {label.negative}"
            ),
        ),
        table=ValueTable(
            caption=f"Counts and rates, with {level(result.confidence)} intervals.",
            header=("Threshold", *(name.replace("_", " ") for name in COUNTS), *(NAMES[name] for name in RATES)),
            rows=rows,
        ),
        legend=(("curve", "released rate"), ("band", f"{level(result.confidence)} interval")),
        notes=("Counts carry noise. Intervals say how far it may have moved the rates of these rows.",),
        notice=None
        if defined
        else "Undefined: through the noise, one of the two classes is too small to tell. The release has been made and "
        "paid for like any other.",
    )
