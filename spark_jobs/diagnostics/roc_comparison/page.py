"""The ROC curves of two models: data file, picture of both, and the difference of their areas in the report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.contract.figure import Ends, Number, Part
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.curves import SAME, RocComparison, RocCurve
from spark_jobs.diagnostics._score_figures.page import UNDEFINED_CLASS, size_measures
from spark_jobs.diagnostics.roc_curve.page import READ_AT, drawn_points, point_at
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import draw_band
from spark_jobs.publishing.formats import ABSENT, SPACE, decimals, level, one_line, p_text, percent
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Plot,
    Probe,
    Rendering,
    Section,
    ValueTable,
    finite,
    known,
)
from spark_jobs.publishing.roc_axes import fraction_at, roc_plot
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SURE = 0.05
"""Below this p-value the report says that the AUCs differ."""
_COLOURS = ("curve", "spent")
_STYLES = ("-", (0, (6, 2)))
_PROBES = 41
_TITLE = "ROC curves of two models"
_FIRST_IS_SHARED = (
    " The first curve is that of the release's other diagnostics: rows without a score of the second model count in "
    "it, but not in the difference."
)


def render(result: RocComparison, request: ReleaseRequest) -> Rendering:
    """Files and report of a comparison; names, columns, rows and tables are the same whatever was released."""
    return Rendering(columns=_columns(result), plots=(_plot(result),), section=_section(result, request))


def _names(result: RocComparison) -> tuple[str, str]:
    first, second = (one_line(name, 60) for name in result.names)
    return first, second


def _curves(result: RocComparison) -> tuple[RocCurve, RocCurve]:
    return result.first, result.second


def _columns(result: RocComparison) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for which, curve, name in zip(("first", "second"), _curves(result), _names(result), strict=True):
        of = f"of the {which} model ({name})"
        band = f"{100 * curve.confidence:.4g} % band of tpr, point by point, {of}"
        columns |= {
            f"{which}_threshold": Column(
                values=curve.thresholds, meaning=f"a row counts as positive if its score {of} is at least this"
            ),
            f"{which}_fpr": Column(values=curve.fpr, meaning=f"false positive rate {of}"),
            f"{which}_tpr": Column(values=curve.tpr.value, meaning=f"true positive rate {of}"),
            f"{which}_tpr_lower": Column(values=curve.tpr.lower, meaning=f"lower end of the {band}"),
            f"{which}_tpr_upper": Column(values=curve.tpr.upper, meaning=f"upper end of the {band}"),
        }
    return columns


def _defined(result: RocComparison) -> bool:
    return result.status != "undefined"


def _plot(result: RocComparison) -> Plot:
    return roc_plot(
        lambda axes: _draw(axes, result),
        name="roc_comparison",
        title=_TITLE,
        description=_description(result),
        lines=(_difference_line(result), _verdict(result)),
        probes=_probes(result) if _defined(result) else (),
    )


def _probes(result: RocComparison) -> tuple[Probe, ...]:
    """Both true positive rates at evenly spaced false positive rates: a whisker from one curve to the other."""
    probes = []
    for fpr in np.linspace(0.0, 1.0, _PROBES):
        first, second = (_rate(curve, float(fpr)) for curve in _curves(result))
        x, one, other = (fraction_at(value) for value in (float(fpr), first, second))
        lines = (
            f"FPR at most {percent(float(fpr))}",
            *(f"TPR {percent(tpr)}, {name}" for tpr, name in zip((first, second), _names(result), strict=True)),
        )
        probes.append(Probe(x=x, y=one, low=min(one, other), high=max(one, other), lines=lines))
    return tuple(probes)


def _rate(curve: RocCurve, fpr: float) -> float:
    return float(curve.tpr.value[point_at(curve, fpr)])


def _draw(axes: Axes, result: RocComparison) -> None:
    if not _defined(result):
        figures.draw_undefined(axes, "a class has too few rows")
        return
    for curve, name, colour, style in zip(_curves(result), _names(result), _COLOURS, _STYLES, strict=True):
        shown = drawn_points(curve)
        band = Ends(curve.tpr.lower[shown], curve.tpr.upper[shown])
        draw_band(axes, curve.fpr[shown], band, colour=colour, opacity=0.16)
        axes.plot(
            curve.fpr[shown],
            curve.tpr.value[shown],
            color=light(colour),
            linewidth=1.8,
            linestyle=style,
            label=f"{name}, AUC {decimals(curve.auc.value)}",
        )


def _verdict(result: RocComparison) -> str:
    if not _defined(result):
        return "Undefined: a class has too few rows for the noise"
    verdict = "The AUCs differ" if known(result.auc_p_value) < SURE else "No difference of the AUCs is established"
    return f"{verdict} ({_p(result)})"


def _p(result: RocComparison) -> str:
    return p_text(known(result.auc_p_value), floor=result.p_value_floor)


def _interval(figure: Number, of: Part, confidence: float) -> str:
    low, high = figure.ends(of)
    return f"{level(confidence)} interval {decimals(low)} to {decimals(high)}"


def _difference_line(result: RocComparison) -> str:
    if not _defined(result):
        return "released with noise"
    interval = _interval(result.auc_difference, "population", result.confidence)
    return f"Difference of the AUCs: {decimals(result.auc_difference.value)} ({interval})"


def _description(result: RocComparison) -> str:
    if not _defined(result):
        return "An empty ROC plot: a curve is undefined, because a class has too few rows for the noise."
    areas = " and ".join(
        f"{decimals(curve.auc.value)} ({name})" for curve, name in zip(_curves(result), _names(result), strict=True)
    )
    return f"Two ROC curves with bands, of areas {areas}. {_difference_line(result)}. {_verdict(result)}."


def _table(result: RocComparison) -> ValueTable:
    rows = []
    for fpr in READ_AT:
        cells = [ABSENT] * 5
        if _defined(result):
            rates = [_rate(curve, fpr) for curve in _curves(result)]
            bands = [_band(curve, fpr) for curve in _curves(result)]
            cells = [percent(rates[0]), bands[0], percent(rates[1]), bands[1]]
            cells.append(f"{100 * (rates[0] - rates[1]):+.1f}{SPACE}points")
        rows.append((f"at most {100 * fpr:.0f} %", *cells))
    band = f"{level(result.confidence)} band"
    return ValueTable(
        caption="Both curves in numbers: the true positive rate (TPR) within a limit of the false positive rate (FPR).",
        header=("Limit of FPR", f"TPR, {_names(result)[0]}", band, f"TPR, {_names(result)[1]}", band, "Difference"),
        rows=tuple(rows),
    )


def _band(curve: RocCurve, fpr: float) -> str:
    i = point_at(curve, fpr)
    return f"{percent(float(curve.tpr.lower[i]))} to {percent(float(curve.tpr.upper[i]))}"


def _question(result: RocComparison) -> str:
    if result.rows == SAME:
        return (
            "Both models scored the same rows. Interval and test ask whether their AUCs differ in the population that "
            "the rows are a sample of; they account for the noise, the sampling, and how alike the models err."
        )
    return (
        f"The second curve is that of release {one_line(result.released_by or '', 200)}. Its rows and these are taken "
        "as independent samples; interval and test ask whether the AUCs differ in their populations. If rows are in "
        "both releases, interval and test are usually too cautious. This comparison cannot be paired: to compare two "
        "models on the same rows, name the second one in the request."
    )


def _headline(result: RocComparison) -> Headline:
    defined = _defined(result)
    low, high = result.auc_difference.ends("population")
    marks = tuple(float((1 + bound) / 2) for bound in (low, result.auc_difference.number, high))
    first, second = _names(result)
    return Headline(
        label=f"AUC, {first} less {second}",
        value=decimals(result.auc_difference.value) if defined else "undefined",
        interval=f"{_interval(result.auc_difference, 'population', result.confidence)}, population"
        if defined
        else None,
        scale=("-1", "1"),
        marks=(marks[0], marks[1], marks[2]) if defined else None,
        reference=("0 equal", 0.5),
    )


def _measures(result: RocComparison, request: ReleaseRequest) -> tuple[Measure, ...]:
    defined = _defined(result)
    low, high = result.auc_difference.ends()
    share = percent(result.auc_difference.privacy_share)
    areas = (
        Measure(
            label=f"AUC, {name}",
            value=decimals(curve.auc.value) if defined and finite(curve.auc.value) else ABSENT,
            note=f"{_interval(curve.auc, 'interval', curve.confidence)}, noise alone" if defined else "",
        )
        for curve, name in zip(_curves(result), _names(result), strict=True)
    )
    return (
        Measure(
            label="Difference, noise alone",
            value=f"{decimals(low)} to {decimals(high)}" if defined else ABSENT,
            note=f"{level(result.confidence)} interval for what the same rows give without noise; the noise makes "
            f"{share} of the interval for the population",
        ),
        Measure(
            label="Test of equal AUCs",
            value=_p(result) if defined else ABSENT,
            note="accounts for noise and sampling",
        ),
        Measure(
            label="Largest difference of TPR",
            value=f"{100 * known(result.largest_difference):.1f}{SPACE}points" if defined else ABSENT,
            note="of the released curves, at equal FPR + TPR",
        ),
        *areas,
        *_sizes(result, request),
    )


def _sizes(result: RocComparison, request: ReleaseRequest) -> tuple[Measure, ...]:
    sizes = size_measures(result.positives, result.negatives, request)
    if not result.first_is_shared:
        return sizes
    return tuple(replace(size, note=f"{size.note}, of the rows with both scores") for size in sizes)


def _section(result: RocComparison, request: ReleaseRequest) -> Section:
    first, second = _names(result)
    return Section(
        title=_TITLE,
        reading=(
            "Each point is a threshold of a score: the share of the positives at or above it (TPR, vertical) against "
            f"that share of the negatives (FPR, horizontal). The request's own model is “{first}”.",
            f"{_verdict(result)}. {_question(result)}",
        ),
        headline=_headline(result),
        measures=_measures(result, request),
        table=_table(result),
        legend=(("curve", f"{first}, with band"), ("second", f"{second}, with band"), ("chance", "chance")),
        notes=(
            "All numbers are noisy. Bands and intervals of single AUCs measure the noise alone. The difference has two "
            "intervals: for the population, and for these rows, which the noise alone makes uncertain. "
            + (
                "It is measured on its own, more precisely than the two AUCs, and need not equal their difference."
                + (_FIRST_IS_SHARED if result.first_is_shared else "")
                if result.rows == SAME
                else "It is the difference of the two AUCs."
            ),
        ),
        notice=None if _defined(result) else UNDEFINED_CLASS,
    )
