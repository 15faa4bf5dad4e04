"""The page of figures of a ranking: data file, pictures of precision-recall and gains, and section of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Number, Numbers
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.curves import RankingFigures
from spark_jobs.diagnostics._score_figures.page import UNDEFINED_CLASS, both_intervals, size_measures
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import chart, draw_bands, draw_curve, draw_reference, legend_in, share_ticks
from spark_jobs.publishing.formats import ABSENT, decimals, level, percent
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Plot,
    Rendering,
    Section,
    ValueTable,
    known,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGIN = 0.01


def render(result: RankingFigures, request: ReleaseRequest) -> Rendering:
    """The page of a result. Its tables have the same names, columns and number of rows whatever was released."""
    return Rendering(
        columns=_columns(result), plots=(_precision(result), _gains(result)), section=_section(result, request)
    )


def _defined(result: RankingFigures) -> bool:
    return result.status != "undefined"


def _columns(result: RankingFigures) -> dict[str, Column]:
    """One row for each recall and for each depth, twice: gains, then lift."""
    names = np.repeat(["precision", "gain", "lift"], [result.recall.size, *[result.depths.size] * 2])
    nominal = f"{100 * result.confidence:.4g} %"
    noise = f"end of the {nominal} interval for what the same rows give without noise"
    population = f"end of the {nominal} interval for the population; of a band of the whole curve for the precision"
    band = f"end of the {nominal} simultaneous band of the precision-recall curve; null for gain and lift"
    figures: tuple[Numbers, ...] = (result.precision, result.gain, result.lift)
    none = np.full(2 * result.depths.size, np.nan)
    columns = {
        "figure": Column(values=names, meaning="what the row gives: precision at a recall, gain or lift at a depth"),
        "at": Column(
            values=np.concatenate([result.recall, result.depths, result.depths]), meaning="the recall, or the depth"
        ),
        "value": Column(values=np.concatenate([one.value for one in figures]), meaning="the figure, with noise"),
    }
    for place, end in enumerate(("lower", "upper")):
        columns[end] = Column(values=np.concatenate([one.ends()[place] for one in figures]), meaning=f"{end} {noise}")
    for place, end in enumerate(("lower", "upper")):
        everywhere = np.append(result.precision.ends("everywhere")[place], none)
        columns[f"{end}_everywhere"] = Column(values=everywhere, meaning=f"{end} {band}")
    for place, end in enumerate(("lower", "upper")):
        ends = np.concatenate([one.ends("population")[place] for one in figures])
        columns[f"population_{end}"] = Column(values=ends, meaning=f"{end} {population}")
    return columns


def _precision(result: RankingFigures) -> Plot:
    def draw(axes: Axes) -> None:
        bands = {
            "of the whole curve": result.precision.ends("everywhere"),
            "of each point": result.precision.ends(),
        }
        _draw(axes, result, result.recall, result.precision.value, bands)
        share = result.positives / max(result.positives + result.negatives, 1.0)
        draw_reference(axes, [0, 1], [share, share], label="chance")

    title = "Precision-recall curve"
    text = ", ".join(
        f"{percent(float(np.interp(at, result.recall, result.precision.value)))} at a recall of {percent(at)}"
        for at in (0.2, 0.5, 0.8)
    )
    return _plot(result, "ranking_figures", title, ("Recall", "Precision"), f"Precision: {text}.", draw)


def _gains(result: RankingFigures) -> Plot:
    depths = np.concatenate([[0.0], result.depths, [1.0]])

    def whole(values: FloatArray) -> FloatArray:
        return np.concatenate([[0.0], values, [1.0]])

    def draw(axes: Axes) -> None:
        bands = {"of each point": Ends(whole(result.gain.lower), whole(result.gain.upper))}
        _draw(axes, result, depths, whole(result.gain.value), bands)
        draw_reference(axes, [0, 1], [0, 1], label="chance")

    text = ", ".join(
        f"{percent(float(gain))} of the positives in the first {percent(float(depth))} of rows"
        for gain, depth in zip(result.gain.value, result.depths, strict=True)
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
    defined = _defined(result)

    def paint(axes: Axes) -> None:
        share_ticks(axes, margin=_MARGIN)
        if defined:
            curve(axes)
        else:
            figures.draw_undefined(axes, "a class has too few rows")

    return chart(
        paint,
        name=name,
        title=title,
        description=description if defined else f"{title}: undefined, because a class has too few rows for the noise.",
        lines=(_line("KS", result.ks, result), "released with noise"),
        labels=labels,
        legend=legend_in(),
    )


def _draw(
    axes: Axes, result: RankingFigures, at: FloatArray, values: FloatArray, bands: Mapping[str, Ends[FloatArray]]
) -> None:
    draw_bands(axes, at, bands, result.confidence)
    draw_curve(axes, at, values, label="released curve", solid_joinstyle="round")


def _line(name: str, figure: Number, result: RankingFigures) -> str:
    if figure.interval is None:
        return f"{name} undefined"
    return f"{name} {decimals(figure.value)}  ({_interval(figure, result)})"


def _interval(figure: Number, result: RankingFigures) -> str:
    low, high = figure.ends()
    return f"{level(result.confidence)} interval {decimals(low)} to {decimals(high)}"


def _measure(label: str, figure: Number) -> Measure:
    return Measure(label=label, value=decimals(figure.value), note=both_intervals(figure))


def _section(result: RankingFigures, request: ReleaseRequest) -> Section:
    defined = _defined(result)
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
            value=decimals(result.ks.value) if defined else "undefined",
            interval=_interval(result.ks, result) if defined else None,
            scale=("0 chance", "1 perfect"),
            marks=(result.ks.lower, result.ks.number, result.ks.upper) if defined else None,
        ),
        measures=(
            _measure("Gini", result.gini),
            Measure(label="Threshold of least cost", value=above if defined else ABSENT, note=costs),
            _measure("Cost of a row there", result.cost),
            _measure("KS", result.ks),
            *size_measures(result.positives, result.negatives, request),
        ),
        table=ValueTable(
            caption=f"Gains and lift, with {level(result.confidence)} intervals.",
            header=("First rows", "Gain", "From", "To", "Lift", "From", "To"),
            rows=tuple(
                (
                    percent(float(depth)),
                    *(percent(float(values[row])) for values in (result.gain.value, *result.gain.ends())),
                    *(decimals(float(values[row]), 2) for values in (result.lift.value, *result.lift.ends())),
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
