"""The ROC curves of two models: data file, picture of both and of their difference, and part of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.roc_comparison.result import RocComparison
from spark_jobs.diagnostics.roc_curve.page import READ_AT, drawn_points, point_at
from spark_jobs.diagnostics.roc_curve.result import RocCurve
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, percent, simulated_p
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Plot,
    Probe,
    Rendering,
    Section,
    ValueTable,
    ends_of,
    finite,
    known,
)
from spark_jobs.publishing.roc_axes import FRAME, fraction_at, roc_figure
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SURE = 0.05
"""Below this p-value the report says that the curves differ."""
_COLOURS = {"first": "curve", "second": "spent"}
_STYLES = {"first": "-", "second": (0, (6, 2))}
_PROBES = 41
_TITLE = "ROC curves of two models"


def render(result: RocComparison, request: ReleaseRequest) -> Rendering:
    """Files and report of a comparison; names, columns, rows and tables are the same whatever was released."""
    return Rendering(columns=_columns(result), plots=(_plot(result),), section=_section(result, request))


def _curves(result: RocComparison) -> dict[str, RocCurve]:
    return {"first": result.first, "second": result.second}


def _columns(result: RocComparison) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for which, curve in _curves(result).items():
        of = f"of the {which} model"
        band = f"{100 * curve.confidence:.4g} % band of tpr, point by point, {of}"
        columns |= {
            f"{which}_threshold": Column(
                values=curve.thresholds, meaning=f"a row counts as positive if its score {of} is at least this"
            ),
            f"{which}_fpr": Column(values=curve.fpr, meaning=f"false positive rate {of}"),
            f"{which}_tpr": Column(values=curve.tpr, meaning=f"true positive rate {of}"),
            f"{which}_tpr_lower": Column(values=curve.tpr_lower, meaning=f"lower end of the {band}"),
            f"{which}_tpr_upper": Column(values=curve.tpr_upper, meaning=f"upper end of the {band}"),
        }
    return columns


def _defined(result: RocComparison) -> bool:
    return result.status == "ok"


def _plot(result: RocComparison) -> Plot:
    def draw(alone: bool) -> Figure:
        lines = (_verdict(result), _difference_line(result))
        return roc_figure(lambda axes: _draw(axes, result), alone=alone, title=_TITLE, lines=lines)

    return Plot(
        name="roc_comparison",
        title=_TITLE,
        description=_description(result),
        draw=draw,
        axes=FRAME.box,
        probes=_probes(result) if _defined(result) else (),
    )


def _probes(result: RocComparison) -> tuple[Probe, ...]:
    """What each curve catches, at evenly spaced shares of mistakes: a whisker from one curve to the other."""
    probes = []
    for fpr in np.linspace(0.0, 1.0, _PROBES):
        first, second = (float(_caught(curve, float(fpr))[0]) for curve in (result.first, result.second))
        x, one, other = (fraction_at(value) for value in (float(fpr), first, second))
        lines = (
            f"at most {percent(float(fpr))} by mistake",
            f"first catches {percent(first)}",
            f"second catches {percent(second)}",
        )
        probes.append(Probe(x=x, y=one, low=min(one, other), high=max(one, other), lines=lines))
    return tuple(probes)


def _draw(axes: Axes, result: RocComparison) -> None:
    if _defined(result):
        for which, curve in _curves(result).items():
            shown, colour = drawn_points(curve), light(_COLOURS[which])
            axes.fill_between(
                curve.fpr[shown], curve.tpr_lower[shown], curve.tpr_upper[shown], color=colour, alpha=0.16, linewidth=0
            )
            axes.plot(
                curve.fpr[shown],
                curve.tpr[shown],
                color=colour,
                linewidth=1.8,
                linestyle=_STYLES[which],
                label=f"{which} model, AUC {decimals(curve.auc)}",
            )
    else:
        figures.draw_undefined(axes, "a class is too small to tell")


def _verdict(result: RocComparison) -> str:
    if not _defined(result):
        return "Undefined: too few rows to tell through the noise"
    if known(result.comparison.p_value) < SURE:
        return f"The curves differ on these rows (p {simulated_p(known(result.comparison.p_value))})"
    return f"No difference of the curves can be told from the noise (p {simulated_p(known(result.comparison.p_value))})"


def _interval(result: RocComparison) -> str:
    low, high = ends_of(result.comparison.auc_interval)
    return f"{level(result.comparison.confidence)} interval {decimals(low)} to {decimals(high)}"


def _difference_line(result: RocComparison) -> str:
    if not _defined(result):
        return "released with noise"
    return (
        f"AUC of the first less that of the second: {decimals(result.comparison.auc_difference)} ({_interval(result)})"
    )


def _description(result: RocComparison) -> str:
    if not _defined(result):
        return (
            "An empty ROC plot: one of the curves is undefined, because a class is too small to tell through the noise."
        )
    areas = " and ".join(f"{decimals(curve.auc)} of the {which} model" for which, curve in _curves(result).items())
    return f"Two ROC curves with bands, of areas {areas}. {_verdict(result)}. {_difference_line(result)}."


def _caught(curve: RocCurve, fpr: float) -> FloatArray:
    i = point_at(curve, fpr)
    return np.array([curve.tpr[i], curve.tpr_lower[i], curve.tpr_upper[i]])


def _table(result: RocComparison) -> ValueTable:
    rows = []
    for fpr in READ_AT:
        cells = [ABSENT] * 5
        if _defined(result):
            first, second = (_caught(curve, fpr) for curve in (result.first, result.second))
            cells = [
                percent(float(first[0])),
                f"{percent(float(first[1]))} to {percent(float(first[2]))}",
                percent(float(second[0])),
                f"{percent(float(second[1]))} to {percent(float(second[2]))}",
                f"{100 * float(first[0] - second[0]):+.1f}{SPACE}points",
            ]
        rows.append((f"at most {100 * fpr:.0f} %", *cells))
    band = f"{level(result.comparison.confidence)} band"
    return ValueTable(
        caption="Both curves in numbers: what each catches within a bound on false positives.",
        header=("Allowed by mistake", "First catches", band, "Second catches", band, "Difference"),
        rows=tuple(rows),
    )


def _section(result: RocComparison, request: ReleaseRequest) -> Section:
    defined, compared = _defined(result), result.comparison
    low, high = ends_of(compared.auc_interval)
    marks = tuple(float((1 + bound) / 2) for bound in (low, known(compared.auc_difference), high))
    return Section(
        title=_TITLE,
        reading=(
            "Each curve shows what a model catches against what it flags by mistake; the first is the request's own "
            "model, the second the one it is compared with.",
            f"{_verdict(result)}. The test asks whether the exact curves of these rows are equal; of other rows it "
            "says nothing.",
        ),
        headline=Headline(
            label="AUC of the first model less that of the second",
            value=decimals(compared.auc_difference) if defined else "undefined",
            interval=_interval(result) if defined else None,
            scale=("-1 second perfect", "1 first perfect"),
            marks=(marks[0], marks[1], marks[2]) if defined else None,
            reference=("0 equal", 0.5),
        ),
        measures=(
            Measure(
                label="Curves differ",
                value=f"p {simulated_p(known(compared.p_value))}" if defined else ABSENT,
                note="by their largest difference",
            ),
            Measure(
                label="Areas differ",
                value=f"p {simulated_p(known(compared.auc_p_value))}" if defined else ABSENT,
                note="by their AUCs",
            ),
            *(
                Measure(
                    label=f"AUC, {which} model",
                    value=decimals(curve.auc) if defined and finite(curve.auc) else ABSENT,
                    note=" to ".join(map(decimals, ends_of(curve.auc_interval))) if defined else "",
                )
                for which, curve in _curves(result).items()
            ),
            Measure(
                label="Positives",
                value=f"≈{SPACE}{count(result.first.positives)}",
                note=f"{request.needed_label.column} = {request.needed_label.positive}",
            ),
            Measure(
                label="Negatives",
                value=f"≈{SPACE}{count(result.first.negatives)}",
                note=f"{request.needed_label.column} = {request.needed_label.negative}",
            ),
        ),
        table=_table(result),
        legend=(("curve", "first model, with band"), ("second", "second model, with band"), ("chance", "chance")),
        notes=(
            "Bands, interval and p-values account for the noise of this release alone: they speak of these rows. The "
            "curves are read with a prior where noise is large; the test is made without it.",
        ),
        notice=None
        if defined
        else "Undefined: through the noise, one of the two classes is too small to tell how a model ranks it. "
        "The release has been made and paid for like any other.",
    )
