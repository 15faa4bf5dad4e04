"""The page of a recalibration: data file, picture of the map, and section of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Number
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.score_figures import Recalibration
from spark_jobs.diagnostics._score_figures.page import UNDEFINED_CLASS, both_intervals, size_measures
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import chart, draw_bands, draw_curve, legend_in
from spark_jobs.publishing.formats import decimals, level, percent
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Plot,
    Rendering,
    Section,
    ValueTable,
)
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS = (0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999)
_OUTERMOST = 1e-4
_WIDEST_SCALE = 2.0
_ROWS = 9


def render(result: Recalibration, request: ReleaseRequest) -> Rendering:
    """The page of a result. Its tables have the same names, columns and number of rows whatever was released."""
    return Rendering(columns=_columns(result), plots=(_plot(result),), section=_section(result, request))


def _defined(result: Recalibration) -> bool:
    return result.status == "ok"


def _columns(result: Recalibration) -> dict[str, Column]:
    nominal = f"pointwise {100 * result.confidence:.4g} % band"
    noise, population = (
        f"of the {nominal} for the map of the same rows without noise",
        f"of the {nominal} for the map of the population",
    )
    curve = result.recalibrated
    return {
        "score": Column(values=result.score, meaning="score of the model"),
        "recalibrated": Column(values=curve.value, meaning="probability that the map gives this score"),
        "lower": Column(values=curve.lower, meaning=f"lower end {noise}"),
        "upper": Column(values=curve.upper, meaning=f"upper end {noise}"),
        "population_lower": Column(values=curve.ends("population").lower, meaning=f"lower end {population}"),
        "population_upper": Column(values=curve.ends("population").upper, meaning=f"upper end {population}"),
    }


def _plot(result: Recalibration) -> Plot:
    def paint(axes: Axes) -> None:
        _scales(axes)
        axes.axline(
            (0, 0), slope=1, color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)), label="score as it is"
        )
        if _defined(result):
            _curve(axes, result)
        else:
            figures.draw_undefined(axes, "a class has too few rows")

    return chart(
        paint,
        name="recalibration",
        title="Recalibration map",
        heading="Recalibration",
        description=_description(result),
        lines=(_line(result), "released with noise"),
        labels=("Score of the model", "Recalibrated probability"),
        legend=legend_in("upper left"),
    )


def _scales(axes: Axes) -> None:
    """Both axes in log-odds, on which the map is a straight line."""
    ends = float(logit(_TICKS[0])) - 0.3, float(logit(_TICKS[-1])) + 0.3
    for axis, limits in ((axes.xaxis, axes.set_xlim), (axes.yaxis, axes.set_ylim)):
        limits(ends)
        axis.set_ticks([float(logit(tick)) for tick in _TICKS], [f"{100 * tick:.3g} %" for tick in _TICKS])
    axes.tick_params(axis="x", labelrotation=45, pad=2)


def _curve(axes: Axes, result: Recalibration) -> None:
    at = logit(result.score)
    bands = {
        "for the population": Ends(*map(_log_odds, result.recalibrated.ends("population"))),
        "for these rows": Ends(*map(_log_odds, result.recalibrated.ends())),
    }
    draw_bands(axes, at, bands, result.confidence)
    draw_curve(axes, at, _log_odds(result.recalibrated.value), label="released map")


def _log_odds(values: FloatArray) -> FloatArray:
    return np.asarray(logit(np.clip(values, _OUTERMOST, 1 - _OUTERMOST)), dtype=np.float64)


def _interval(figure: Number, result: Recalibration, places: int = 3) -> str:
    low, high = figure.ends()
    return f"{level(result.confidence)} interval {decimals(low, places)} to {decimals(high, places)}"


def _line(result: Recalibration) -> str:
    if not _defined(result):
        return "Calibration slope undefined"
    return f"Calibration slope {decimals(result.slope.value, 2)}  ({_interval(result.slope, result, 2)})"


def _description(result: Recalibration) -> str:
    if not _defined(result):
        return "An empty recalibration map: undefined, because a class has too few rows for the noise."
    shown = (0.01, 0.1, 0.5, 0.9)
    mapped = expit(result.intercept.number + result.slope.number * logit(np.clip(shown, result.clip, 1 - result.clip)))
    text = ", ".join(f"{percent(score)} becomes {percent(float(to))}" for score, to in zip(shown, mapped, strict=True))
    return f"Recalibrated probability against the score, both in log-odds: {text}. {_line(result)}."


def _measure(label: str, figure: Number, places: int = 3) -> Measure:
    return Measure(label=label, value=decimals(figure.value, places), note=both_intervals(figure, places))


def _section(result: Recalibration, request: ReleaseRequest) -> Section:
    defined = _defined(result)
    return Section(
        title="Scores as probabilities",
        reading=(
            "The slope says whether scores are too extreme: below 1, high scores are too high and low scores too low; "
            "above 1, all are too cautious. The intercept says by how much log-odds are too low where the score is a "
            "half. A calibrated model has slope 1 and intercept 0.",
            "The Brier score is the mean squared difference of score and outcome; the log loss, the mean negative "
            "logarithm of the probability that the model gave the outcome. Both are lower for better models, and "
            "depend on how frequent positives are.",
            "The map turns a score into a calibrated probability. On the dashed line, both are the same.",
        ),
        headline=_headline(result),
        measures=(
            _measure("Calibration slope", result.slope),
            _measure("Calibration intercept", result.intercept),
            _measure("Brier score", result.brier, 4),
            _measure("Log loss", result.log_loss, 4),
            *size_measures(result.positives, result.negatives, request),
        ),
        table=_table(result),
        legend=(
            ("curve", "released map"),
            ("band", f"{level(result.confidence)} band for these rows"),
            ("band-outer", "for the population"),
            ("chance", "score as it is"),
        ),
        notes=(
            "All numbers are noisy. The first interval of a figure is for the same rows without noise; the one for the "
            f"population accounts for the sampling of the rows as well. Scores below {result.clip:g} and "
            f"above {1 - result.clip:g} are clipped to these for slope, intercept, map and log loss.",
        ),
        notice=None if defined else UNDEFINED_CLASS,
    )


def _headline(result: Recalibration) -> Headline:
    label, scale = "Calibration slope", ("0", f"{_WIDEST_SCALE:g} or more")
    if not _defined(result):
        return Headline(label=label, value="undefined", interval=None, scale=scale)
    low, value, high = (
        min(max(end / _WIDEST_SCALE, 0.0), 1.0) for end in (result.slope.lower, result.slope.number, result.slope.upper)
    )
    return Headline(
        label=label,
        value=decimals(result.slope.value, 2),
        interval=_interval(result.slope, result, 2),
        scale=scale,
        marks=(low, value, high),
        reference=("calibrated model", 1 / _WIDEST_SCALE),
    )


def _table(result: Recalibration) -> ValueTable:
    rows = np.linspace(0, result.score.size - 1, _ROWS).round().astype(int)
    curve = result.recalibrated
    columns = (result.score, curve.value, *curve.ends(), *curve.ends("population"))
    return ValueTable(
        caption=f"The map, with {level(result.confidence)} bands.",
        header=("Score", "Recalibrated", "From", "To", "For the population, from", "To"),
        rows=tuple(tuple(percent(float(values[row])) for values in columns) for row in rows),
    )
