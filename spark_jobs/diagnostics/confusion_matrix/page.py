"""The page of confusion matrices: data file, picture and section of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.contract.figure import Numbers
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.score_figures import COUNTS, RATES, ConfusionMatrix
from spark_jobs.diagnostics._score_figures.page import UNDEFINED_CLASS, share_measure, size_measures
from spark_jobs.diagnostics.confusion_matrix.plots import NAMES, SHORT, draw_matrix, draw_rates, draw_tiles
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import chart
from spark_jobs.publishing.formats import ABSENT, count, level, percent
from spark_jobs.publishing.rendering import (
    Column,
    Measure,
    Multiples,
    Plot,
    Rendering,
    Section,
    ValueTable,
    figure_columns,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MEANINGS = {
    "accuracy": "share of all rows that are classified correctly",
    "precision": "share of the rows predicted positive that are positive",
    "recall": "share of the positives that are predicted positive",
    "specificity": "share of the negatives that are predicted negative",
    "f1": "harmonic mean of precision and recall",
}
_ONE = figures.Frame(width=5.6, height=5.6, heading=0.95, small=4.7, box=(0.05, 0.03, 0.9, 0.94))
_MANY = figures.Frame(width=5.6, height=4.6, heading=0.95, small=4.7, box=(0.12, 0.15, 0.66, 0.82))
_SMALL = figures.Frame(width=3.2, height=1.9, heading=0.0, small=3.2, box=(0.0, 0.01, 1.0, 0.98))
_MAX_MATRICES = 6
_TITLE = "Confusion matrix and rates"


def render(result: ConfusionMatrix, request: ReleaseRequest) -> Rendering:
    """The page of a result. Its tables have the same names, columns and number of rows whatever was released."""
    return Rendering(
        columns=_columns(result),
        plots=(_plot(result),),
        section=_section(result, request),
        multiples=() if result.thresholds.size == 1 else (_matrices(result),),
    )


def _matrices(result: ConfusionMatrix) -> Multiples:
    """The matrices of several thresholds, at most ``_MAX_MATRICES`` of them, evenly spaced in the list."""
    many = result.thresholds.size
    places = sorted({round(place) for place in np.linspace(0, many - 1, min(many, _MAX_MATRICES))})
    return Multiples(
        heading="Matrices",
        note="The darker, the larger the share of the actual class, which is given in percent."
        + ("" if len(places) == many else f" These are {len(places)} of {many} thresholds; the table has all."),
        plots=tuple(("at a score of", f"{result.requested[place]:.3g}", _matrix(result, place)) for place in places),
        wide=True,
    )


def _matrix(result: ConfusionMatrix, place: int) -> Plot:
    def draw(alone: bool) -> Figure:
        figure, axes = _SMALL.axes(alone=alone, x_label="", y_label="")
        draw_tiles(axes, result, place)
        return figure

    counts = ", ".join(f"{SHORT[name]} {count(float(getattr(result, name)[place]))}" for name in COUNTS)
    return Plot(
        name=f"confusion_matrix_{place}",
        title=_TITLE,
        description=f"At a score of {result.requested[place]:.3g}: {counts}.",
        draw=draw,
        axes=_SMALL.box,
    )


def _columns(result: ConfusionMatrix) -> dict[str, Column]:
    columns = {
        "threshold": Column(values=result.thresholds, meaning="rows with at least this score are predicted positive"),
        "requested": Column(
            values=result.requested,
            meaning="the threshold of the request; in force is the start of its cell of the grid",
        ),
        **{
            name: Column(values=getattr(result, name), meaning=f"noisy number of {name.replace('_', ' ')}")
            for name in COUNTS
        },
    }
    end = f"end of the {100 * result.confidence:.4g} % interval for what the same rows give without noise"
    population = f"end of the {100 * result.confidence:.4g} % interval for the population that the rows are a sample of"
    for name in RATES:
        columns |= figure_columns(
            result, name, f"{_MEANINGS[name]}; NaN where the noise hides the denominator",
            {"interval": end, "population": population},
            share="share of the interval for the population that the noise makes",
        )  # fmt: skip
    return columns


def _plot(result: ConfusionMatrix) -> Plot:
    one = result.thresholds.size == 1
    return chart(
        lambda axes: (draw_matrix if one else draw_rates)(axes, result),
        name="confusion_matrix",
        title=_TITLE,
        description=_description(result),
        lines=_lines(result),
        frame=_ONE if one else _MANY,
        labels=("" if one else "Threshold of the score", ""),
    )


def _lines(result: ConfusionMatrix) -> tuple[str, str]:
    at = f"at a score of {result.requested[0]:.4g}, " if result.thresholds.size == 1 else ""
    return f"{at}with {level(result.confidence)} intervals", "released with noise"


def _description(result: ConfusionMatrix) -> str:
    first = "; ".join(f"{NAMES[name].lower()} {percent(float(_rate(result, name).value[0]))}" for name in RATES)
    return f"Rates with intervals by threshold. At {result.requested[0]:.4g}: {first}."


def _rate(result: ConfusionMatrix, name: str) -> Numbers:
    rate: Numbers = getattr(result, name)
    return rate


def _cell(result: ConfusionMatrix, name: str, i: int) -> str:
    return f"{percent(float(_rate(result, name).value[i]))} ({_interval(result, name, i)})"


def _interval(result: ConfusionMatrix, name: str, i: int) -> str:
    return " to ".join(percent(float(end[i])) for end in _rate(result, name).ends())


def _population(result: ConfusionMatrix, name: str) -> str:
    rate = _rate(result, name)
    low, high = (float(end[0]) for end in rate.ends("population"))
    share = ABSENT if rate.privacy_share is None else percent(float(rate.privacy_share[0]))
    return f"for the population {percent(low)} to {percent(high)}, of which the noise makes {share}"


def _section(result: ConfusionMatrix, request: ReleaseRequest) -> Section:
    single = result.thresholds.size == 1
    defined = result.status == "ok"
    rows = tuple(
        (
            f"{requested:.6g}" if requested == threshold else f"{requested:.6g} (in force {threshold:.7g})",
            *(count(float(getattr(result, name)[i])) for name in COUNTS),
            *(_cell(result, name, i) if defined else ABSENT for name in RATES),
        )
        for i, (requested, threshold) in enumerate(zip(result.requested, result.thresholds, strict=True))
    )
    return Section(
        title=_TITLE,
        reading=(
            "Rows with a score of at least the threshold are predicted positive; in force is the start of the "
            "threshold's cell of the score grid, so that rows at the threshold count. "
            + " ".join(f"{NAMES[name]}: {_MEANINGS[name]}." for name in RATES),
        ),
        measures=(
            *(
                (
                    Measure(
                        label=NAMES[name],
                        value=percent(float(_rate(result, name).value[0])),
                        note=f"{_interval(result, name, 0)}; {_population(result, name)}; {_MEANINGS[name]}",
                    )
                    for name in RATES
                )
                if single and defined
                else ()
            ),
            *(() if single else (share_measure([_rate(result, name) for name in RATES], "rates at all thresholds"),)),
            *size_measures(result.positives, result.negatives, request),
        ),
        table=ValueTable(
            caption=f"Counts and rates, with {level(result.confidence)} intervals.",
            header=("Threshold", *SHORT.values(), *(NAMES[name] for name in RATES)),
            rows=rows,
        ),
        legend=(
            *((("right", "correct"), ("wrong", "incorrect")) if single else ()),
            ("curve", "released rate"),
            ("band", f"{level(result.confidence)} interval"),
        ),
        notes=(
            "All numbers are noisy. The intervals measure the noise alone; those for the population, the sampling of "
            "the rows as well. The data file has both at every threshold.",
        ),
        notice=None if defined else UNDEFINED_CLASS,
    )
