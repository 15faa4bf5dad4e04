"""The page of a private fit: table of coefficients, picture and section of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from spark_jobs.contract.figures import SHRUNK, UNDEFINED
from spark_jobs.contract.results.fits import PrivateFit, PrivateLinearFit, PrivateLogisticFit
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, one_line, percent, visible
from spark_jobs.publishing.rendering import (
    Column,
    Measure,
    Plot,
    Probe,
    Rendering,
    Section,
    ValueTable,
    figure_columns,
    finite,
    known,
)
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.value_axis import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"linear": "Private linear fit", "logistic": "Private logistic fit"}
_WIDTH, _SMALL, _STRIP, _FOOT, _HEADING = 6.4, 5.2, 0.36, 0.75, 0.95
_LABELS, _OF_CHARACTER, _EDGE = 2.3, 0.095, 0.24
"""Inches: largest room for the names of terms on the left, width of a character, and margin on the right."""
_MAX_SHOWN = 40
"""Largest number of terms in the picture, in the order of the request; the table and the data file have all terms."""
_LABEL_CHARACTERS = 26
_ROOM = 0.06
_MAX_TICKS = 5


def render_fit(result: PrivateFit, outcome: str) -> Rendering:
    """The page of a released model; it has a row for each term of the request, whatever was released.

    Args:
        result: the released model.
        outcome: the outcome, as the request names it.
    """
    return Rendering(columns=_columns(result), plots=(_plot(result, outcome),), section=_section(result, outcome))


def _columns(result: PrivateFit) -> dict[str, Column]:
    """The columns of the data file, with a row for each term, the intercept first."""
    noisy = f"{level(result.confidence)} interval for what the same rows give without noise"
    both = f"{level(result.confidence)} interval for noise and sampling together"
    ends = {"interval": f"end of the {noisy}", "population": f"end of the {both}"}
    coefficients = figure_columns(result, "coefficients", "in the column's own units", ends)
    return {
        "term": Column(values=np.array(result.terms, dtype=object), meaning="feature, or column = level"),
        "coefficient": coefficients.pop("coefficients"),
        **coefficients,
        "span": Column(values=result.spans, meaning="range of the term by its public bounds; 1 for a level"),
    }


def _shown(result: PrivateFit) -> int:
    return min(len(result.terms) - 1, _MAX_SHOWN)


def _plot(result: PrivateFit, outcome: str) -> Plot:
    body = _STRIP * _shown(result) + _FOOT + 0.15
    moved = "log odds" if result.kind == "logistic" else one_line(outcome, 24)

    def draw(alone: bool) -> Figure:
        width, height = (_WIDTH, body + _HEADING) if alone else (_SMALL, body)
        left, bottom, wide, high = _box(result, width, body)
        share = body / height
        figure, axes = figures.new_axes(
            (width, height),
            (left, bottom * share, wide, high * share),
            x_label=f"Change of {moved} over the range",
            y_label="",
        )
        _draw(axes, result)
        if alone:
            lines = (f"with {level(result.confidence)} intervals", "released with noise")
            figures.heading(figure, left=0.03, title=TITLES[result.kind], lines=lines)
        return figure

    return Plot(
        name=f"{result.kind}_fit",
        title=TITLES[result.kind],
        description=_description(result),
        draw=draw,
        axes=_box(result, _SMALL, body),
        probes=_probes(result),
    )


def _box(result: PrivateFit, width: float, body: float) -> tuple[float, float, float, float]:
    longest = max(len(one_line(term, _LABEL_CHARACTERS)) for term in result.terms[: 1 + _shown(result)])
    labels = min(_LABELS, 0.3 + _OF_CHARACTER * longest)
    return labels / width, _FOOT / body, 1 - (labels + _EDGE) / width, 1 - (_FOOT + 0.1) / body


def _effects(result: PrivateFit) -> tuple[np.ndarray, ...]:
    """Coefficients and the ends of both intervals of the shown terms, multiplied by their spans; five arrays."""
    figure = result.coefficients
    arrays = (figure.value, *figure.ends(), *figure.ends("population"))
    last = 1 + _shown(result)
    return tuple((array * result.spans)[1:last] for array in arrays)


def _limits(result: PrivateFit) -> tuple[float, float]:
    if result.status == UNDEFINED:
        return -1.0, 1.0
    _, _, _, low, high = _effects(result)
    ends = float(min(low.min(), 0.0)), float(max(high.max(), 0.0))
    room = _ROOM * (ends[1] - ends[0]) or 1.0
    return ends[0] - room, ends[1] + room


def _draw(axes: Axes, result: PrivateFit) -> None:
    value, low, high, lowest, highest = _effects(result)
    names = [one_line(term, _LABEL_CHARACTERS) for term in result.terms[1 : 1 + value.size]]
    low_end, high_end = _limits(result)
    axes.set_xlim(low_end, high_end)
    ticks = MaxNLocator(nbins=_MAX_TICKS, steps=[1, 2, 5, 10]).tick_values(low_end, high_end)
    ticks = [tick for tick in ticks if low_end <= tick <= high_end]
    axes.set_xticks(ticks, [number(tick, 4, plain_below=6) for tick in ticks])
    if result.status == UNDEFINED:
        axes.set_xticks([])
    axes.set_ylim(value.size - 0.5, -0.5)
    axes.set_yticks(range(value.size), names)
    axes.grid(axis="y", visible=False)
    axes.axvline(0.0, color=light("chance"), linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    if result.status == UNDEFINED:
        axes.text(
            0.5, 0.5, "undefined", color=light("muted"), size=13, ha="center", va="center", transform=axes.transAxes
        )
        return
    places = np.arange(value.size)
    colour = light("curve")
    axes.hlines(places, lowest, highest, color=colour, linewidth=1.2, zorder=2)
    axes.hlines(places, low, high, color=colour, linewidth=7, alpha=0.28, zorder=2)
    axes.plot(value, places, color=colour, marker="o", markersize=6, linestyle="none", zorder=3)


def _probes(result: PrivateFit) -> tuple[Probe, ...]:
    if result.status == UNDEFINED:
        return ()
    value = _effects(result)[0]
    first, last = _limits(result)

    def along(x: float) -> float:
        return float(np.clip((x - first) / (last - first), 0.0, 1.0))

    probes = []
    for place in range(value.size):
        up = 1 - (place + 0.5) / value.size
        figure = result.coefficients.at(1 + place)
        lines = (
            one_line(result.terms[1 + place], _LABEL_CHARACTERS),
            number(figure.number, 4),
            _interval(*figure.ends()),
        )
        probes.append(Probe(x=along(float(value[place])), y=up, low=up, high=up, lines=lines))
    return tuple(sorted(probes, key=lambda probe: probe.x))


def _description(result: PrivateFit) -> str:
    if result.status == UNDEFINED:
        return "An empty plot of coefficients: undefined, because there are too few rows for the noise."
    listed = "; ".join(
        f"{one_line(term, _LABEL_CHARACTERS)} {number(float(value), 4)}"
        for term, value in list(zip(result.terms, result.coefficients.value, strict=True))[1:7]
    )
    more = "" if len(result.terms) <= 7 else f"; and {len(result.terms) - 7} more"
    return f"Coefficients with intervals, each multiplied by the range of its feature. {listed}{more}."


def _section(result: PrivateFit, outcome: str) -> Section:
    linear = result.kind == "linear"
    what = one_line(outcome, 60)
    moved = what if linear else f"log odds of {what}"
    return Section(
        title=f"{TITLES[result.kind]} of {what}" if linear else TITLES[result.kind],
        reading=(
            f"A coefficient is the change of the {moved} per unit of the feature, with all other features fixed. The "
            "coefficient of a level is its difference from the reference level. The picture shows each coefficient "
            "multiplied by the public range of its feature, so that features in different units can be compared.",
            f"The wide bars are {level(result.confidence)} intervals for the same rows without noise; the thin lines "
            "include the sampling of the rows.",
            "The model may score the same table: it is differentially private, so a diagnostic of it costs only its "
            "own budget. Because the model was fitted to these rows, such a diagnostic is slightly optimistic.",
        ),
        measures=_measures(result),
        table=_table(result),
        legend=(("point", "released coefficient"), ("band", "interval for the noise; thin: with sampling")),
        notes=_notes(result),
        notice=_notice(result),
    )


def _measures(result: PrivateFit) -> tuple[Measure, ...]:
    rows = Measure(label="Rows", value=f"≈{SPACE}{count(result.rows)}", note="noisy")
    if isinstance(result, PrivateLogisticFit):
        return (rows, Measure(label="Positives", value=percent(result.positives), note="noisy"))
    if not isinstance(result, PrivateLinearFit):
        return (rows,)
    return (
        rows,
        Measure(label="R²", value=decimals(result.r_squared.value), note=_note_on_r_squared(result)),
        Measure(label="Residuals", value=number(known(result.residual_stddev), 4), note="standard deviation"),
    )


def _note_on_r_squared(result: PrivateLinearFit) -> str:
    low, high = result.r_squared.ends("population")
    known = f"{decimals(low)} to {decimals(high)} with noise and sampling; " if finite(low) else ""
    return f"{known}share of the outcome's variance explained"


def _table(result: PrivateFit) -> ValueTable:
    defined = result.status != UNDEFINED
    rows = tuple(
        (
            visible(term),
            number(figure.number, 4) if defined else ABSENT,
            _interval(*figure.ends()),
            _interval(*figure.ends("population")),
            number(figure.number * float(result.spans[i]), 4) if defined and i else ABSENT,
        )
        for i, term in enumerate(result.terms)
        for figure in (result.coefficients.at(i),)
    )
    return ValueTable(
        caption=f"Coefficients, with {level(result.confidence)} intervals.",
        header=("Term", "Coefficient", "Interval: noise", "Interval: noise and sampling", "Over the range"),
        rows=rows,
    )


def _interval(low: float, high: float) -> str:
    return f"{number(float(low), 4)} to {number(float(high), 4)}" if finite(low) and finite(high) else ABSENT


def _notes(result: PrivateFit) -> tuple[str, ...]:
    notes = [
        "Values are clipped to the public bounds of the request before they are summed; the model clips the values "
        "that it scores in the same way.",
    ]
    if result.model is not None:
        notes.append(f"The manifest has the model in the form of a request, under results, {result.kind}_fit, model.")
    if result.kind == "logistic":
        notes.append(
            "The fit approaches maximum likelihood by noisy Newton steps. With status shrunk, probabilities are less "
            "accurate than the ranks of rows; check them with a calibration."
        )
    if result.ridge > 0:
        notes.append(f"A ridge of {number(result.ridge, 3)} rows shrinks the slopes towards 0.")
    return tuple(notes)


def _notice(result: PrivateFit) -> str | None:
    if result.status == UNDEFINED:
        return (
            "Undefined: there are too few rows for the noise, so there are no coefficients. The release was made and "
            "its cost was charged."
        )
    if result.status == SHRUNK and result.kind == "logistic":
        return (
            "The noise is too large for the maximum likelihood fit: the slopes are shrunk towards 0, or the steps end "
            "before it. The intervals do not include this. Fewer features, tighter bounds or more budget help."
        )
    if result.status == SHRUNK:
        return (
            "The noise is too large for ordinary least squares, so the slopes are shrunk towards 0. The intervals are "
            "for the same shrinkage without noise. Fewer features, tighter bounds or more budget reduce it."
        )
    return None
