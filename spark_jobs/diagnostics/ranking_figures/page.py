"""The page of figures of a ranking: data file, pictures of precision-recall and gains, and section of the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics._score_figures.page import UNDEFINED_CLASS, size_measures
from spark_jobs.diagnostics.ranking_figures.result import Ends, RankingFigures
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import ABSENT, decimals, level, percent
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Plot,
    Rendering,
    Section,
    ValueTable,
    ends_of,
    known,
)
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FRAME = figures.Frame(width=5.6, height=5.3, heading=0.95, small=4.7, box=(0.17, 0.145, 0.785, 0.83))
_TICKS = np.linspace(0.0, 1.0, 6)
_MARGIN = 0.01


def render(result: RankingFigures, request: ReleaseRequest) -> Rendering:
    """The page of a result; its names, columns and numbers of rows do not depend on what was released."""
    return Rendering(
        columns=_columns(result), plots=(_precision(result), _gains(result)), section=_section(result, request)
    )


def _defined(result: RankingFigures) -> bool:
    return result.status == "ok"


def _columns(result: RankingFigures) -> dict[str, Column]:
    """One row for each recall and for each depth, twice: gains, then lift."""
    names = np.repeat(["precision", "gain", "lift"], [result.recall.size, *[result.depths.size] * 2])
    nominal = f"{100 * result.confidence:.4g} %"
    noise = f"of the {nominal} interval for what the same rows give without noise"
    population = f"of the {nominal} interval for the population; of a band of the whole curve for the precision"
    band = f"{nominal} simultaneous band of the precision-recall curve; null for gain and lift"

    def joined(end: str) -> FloatArray:
        return np.concatenate([getattr(result, f"{name}{end}") for name in ("precision", "gain", "lift")])

    none = np.full(2 * result.depths.size, np.nan)
    return {
        "figure": Column(values=names, meaning="what the row gives: precision at a recall, gain or lift at a depth"),
        "at": Column(
            values=np.concatenate([result.recall, result.depths, result.depths]), meaning="the recall, or the depth"
        ),
        "value": Column(values=joined(""), meaning="the figure, with noise"),
        "lower": Column(values=joined("_lower"), meaning=f"lower end {noise}"),
        "upper": Column(values=joined("_upper"), meaning=f"upper end {noise}"),
        "lower_everywhere": Column(
            values=np.append(result.precision_lower_everywhere, none),
            meaning=f"lower end of the {band}",
        ),
        "upper_everywhere": Column(
            values=np.append(result.precision_upper_everywhere, none),
            meaning=f"upper end of the {band}",
        ),
        "population_lower": Column(values=joined("_population_lower"), meaning=f"lower end {population}"),
        "population_upper": Column(values=joined("_population_upper"), meaning=f"upper end {population}"),
    }


def _precision(result: RankingFigures) -> Plot:
    def draw(axes: Axes) -> None:
        bands = {
            "of the whole curve": (result.precision_lower_everywhere, result.precision_upper_everywhere),
            "of each point": (result.precision_lower, result.precision_upper),
        }
        _draw(axes, result, result.recall, result.precision, bands)
        share = result.positives / max(result.positives + result.negatives, 1.0)
        _chance(axes, [0, 1], [share, share])

    title = "Precision-recall curve"
    text = ", ".join(
        f"{percent(float(np.interp(at, result.recall, result.precision)))} at a recall of {percent(at)}"
        for at in (0.2, 0.5, 0.8)
    )
    return _plot(result, "ranking_figures", title, ("Recall", "Precision"), f"Precision: {text}.", draw)


def _gains(result: RankingFigures) -> Plot:
    depths = np.concatenate([[0.0], result.depths, [1.0]])

    def whole(values: FloatArray) -> FloatArray:
        return np.concatenate([[0.0], values, [1.0]])

    def draw(axes: Axes) -> None:
        bands = {"of each point": (whole(result.gain_lower), whole(result.gain_upper))}
        _draw(axes, result, depths, whole(result.gain), bands)
        _chance(axes, [0, 1], [0, 1])

    text = ", ".join(
        f"{percent(float(gain))} of the positives in the first {percent(float(depth))} of rows"
        for gain, depth in zip(result.gain, result.depths, strict=True)
    )
    labels = "Share of all rows, highest scores first", "Share of all positives"
    return _plot(result, "ranking_figures_gains", "Cumulative gains", labels, f"Gains: {text}.", draw)


def _plot(
    result: RankingFigures,
    name: str,
    title: str,
    labels: tuple[str, str],
    description: str,
    curve: Callable[[Axes], None],
) -> Plot:
    def draw(alone: bool) -> Figure:
        figure, axes = _FRAME.axes(alone=alone, x_label=labels[0], y_label=labels[1])
        ticks = [f"{100 * tick:.0f} %" for tick in _TICKS]
        axes.set_xticks(_TICKS, ticks)
        axes.set_yticks(_TICKS, ticks)
        axes.set_xlim(-_MARGIN, 1 + _MARGIN)
        axes.set_ylim(-_MARGIN, 1 + _MARGIN)
        if _defined(result):
            curve(axes)
        else:
            figures.draw_undefined(axes, "a class has too few rows")
        if alone:
            if _defined(result):
                axes.legend(fontsize=figures.LEGEND_SIZE, labelcolor=light("ink"), edgecolor="none", framealpha=0.85)
            lines = (_line("KS", result.ks, result.ks_interval, result), "released with noise")
            figures.heading(figure, left=0.03, title=title, lines=lines)
        return figure

    empty = f"{title}: undefined, because a class has too few rows for the noise."
    return Plot(
        name=name, title=title, description=description if _defined(result) else empty, draw=draw, axes=_FRAME.box
    )


def _draw(
    axes: Axes,
    result: RankingFigures,
    at: FloatArray,
    values: FloatArray,
    bands: dict[str, tuple[FloatArray, FloatArray]],
) -> None:
    for (what, (lower, upper)), alpha in zip(bands.items(), (0.13, 0.22)[-len(bands) :], strict=True):
        axes.fill_between(
            at, lower, upper, color=light("curve"), alpha=alpha, linewidth=0,
            label=f"{level(result.confidence)} band {what}",
        )  # fmt: skip
    axes.plot(at, values, color=light("curve"), linewidth=1.8, solid_joinstyle="round", label="released curve")


def _chance(axes: Axes, x: list[float], y: list[float]) -> None:
    axes.plot(x, y, color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)), label="chance")


def _line(name: str, value: float | None, interval: Ends | None, result: RankingFigures) -> str:
    if interval is None:
        return f"{name} undefined"
    return f"{name} {decimals(value)}  ({_interval(interval, result)})"


def _interval(interval: Ends | None, result: RankingFigures) -> str:
    low, high = ends_of(interval)
    return f"{level(result.confidence)} interval {decimals(low)} to {decimals(high)}"


def _measure(label: str, name: str, result: RankingFigures) -> Measure:
    value, interval = getattr(result, name), getattr(result, f"{name}_interval")
    (low, high), (lowest, highest) = ends_of(interval), ends_of(getattr(result, f"{name}_population_interval"))
    share = percent(getattr(result, f"{name}_privacy_share"))
    note = (
        f"{decimals(low)} to {decimals(high)}; for the population {decimals(lowest)} to {decimals(highest)}, of which "
        f"the noise makes {share}"
    )
    return Measure(label=label, value=decimals(value), note=note if interval is not None else "")


def _section(result: RankingFigures, request: ReleaseRequest) -> Section:
    defined = _defined(result)
    low, high = ends_of(result.ks_interval)
    above = (
        "predict no row positive" if known(result.threshold) > 1 else f"score at least {decimals(result.threshold, 4)}"
    )
    errors = result.false_positive_cost, result.false_negative_cost
    costs = "costs {:g} for a false positive, {:g} for a false negative".format(*errors)
    return Section(
        title="Ranking: precision, gains, KS and Gini",
        reading=(
            "Rows are ranked by score. The precision is the share of positives among the rows above a threshold; the "
            "recall says how many of all positives these are. The gain is the share of all positives among the first "
            "rows, and the lift how many times more frequent positives are there than among all rows.",
            "KS is the largest difference between the shares of positives and negatives above a threshold; Gini is "
            "twice the AUC, minus 1. Both are 0 for random scores and 1 for perfect ones.",
        ),
        headline=Headline(
            label="Kolmogorov-Smirnov distance (KS)",
            value=decimals(result.ks) if defined else "undefined",
            interval=_interval(result.ks_interval, result) if defined else None,
            scale=("0 chance", "1 perfect"),
            marks=(low, known(result.ks), high) if defined else None,
        ),
        measures=(
            _measure("Gini", "gini", result),
            Measure(label="Threshold of least cost", value=above if defined else ABSENT, note=costs),
            _measure("Cost of a row there", "cost", result),
            _measure("KS", "ks", result),
            *size_measures(result.positives, result.negatives, request),
        ),
        table=ValueTable(
            caption=f"Gains and lift, with {level(result.confidence)} intervals.",
            header=("First rows", "Gain", "From", "To", "Lift", "From", "To"),
            rows=tuple(
                (
                    percent(float(depth)),
                    *(percent(float(getattr(result, f"gain{end}")[row])) for end in ("", "_lower", "_upper")),
                    *(decimals(float(getattr(result, f"lift{end}")[row]), 2) for end in ("", "_lower", "_upper")),
                )
                for row, depth in enumerate(result.depths)
            ),
        ),
        legend=(
            ("curve", "released curve"),
            ("band", f"{level(result.confidence)} band of each point"),
            ("band-outer", "of the whole curve"),
            ("chance", "chance"),
        ),
        notes=(
            "All numbers are noisy. The bands and the first interval of a figure measure the noise alone; the one for "
            "the population, the sampling of the rows as well.",
        ),
        notice=None if defined else UNDEFINED_CLASS,
    )
