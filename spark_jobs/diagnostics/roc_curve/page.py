"""The ROC curve: its data file, its picture and its part of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.roc_curve.result import RocCurve
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, percent
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

READ_AT = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Rates of false positives at which the report reads the curve: public, so that its table always has these rows."""

BAND_OPACITY = (0.13, 0.22)
"""Of the band of the whole curve, and of the band of each point on top of it."""

_PROBES = tuple(np.linspace(0.0, 1.0, 51).tolist())
_STEPS = 1500


def render(result: RocCurve, request: ReleaseRequest) -> Rendering:
    """Files and report of a released ROC curve; names, columns, rows and tables are the same whatever was released."""
    return Rendering(columns=_columns(result), plots=(_plot(result),), section=_section(result, request))


def _columns(curve: RocCurve) -> dict[str, Column]:
    nominal = f"{100 * curve.confidence:.4g} %"
    band = f"{nominal} band of tpr, point by point: where the exact counts of the same rows would put it"
    everywhere = f"{nominal} band that holds the whole curve at once"
    return {
        "threshold": Column(
            values=curve.thresholds, meaning="a row counts as positive if its score is at least this; first infinity"
        ),
        "fpr": Column(values=curve.fpr, meaning="false positive rate: share of the negatives that count as positive"),
        "tpr": Column(values=curve.tpr, meaning="true positive rate: share of the positives that count as positive"),
        "tpr_lower": Column(values=curve.tpr_lower, meaning=f"lower end of the {band}"),
        "tpr_upper": Column(values=curve.tpr_upper, meaning=f"upper end of the {band}"),
        "tpr_lower_everywhere": Column(values=curve.tpr_lower_everywhere, meaning=f"lower end of the {everywhere}"),
        "tpr_upper_everywhere": Column(values=curve.tpr_upper_everywhere, meaning=f"upper end of the {everywhere}"),
    }


def defined_curve(curve: RocCurve) -> bool:
    """Whether there is a curve to draw."""
    return curve.status == "ok" and finite(curve.auc)


def _plot(curve: RocCurve) -> Plot:
    def draw(alone: bool) -> Figure:
        lines = (_auc_line(curve), _band_line(curve))
        return roc_figure(lambda axes: _draw_curve(axes, curve), alone=alone, title="ROC curve", lines=lines)

    return Plot(
        name="roc_curve",
        title="ROC curve",
        description=_description(curve),
        draw=draw,
        axes=FRAME.box,
        probes=_probes(curve) if defined_curve(curve) else (),
    )


def _draw_curve(axes: Axes, curve: RocCurve) -> None:
    if defined_curve(curve):
        shown = drawn_points(curve)
        bands = {
            "of the whole curve": (curve.tpr_lower_everywhere, curve.tpr_upper_everywhere),
            "of each point": (curve.tpr_lower, curve.tpr_upper),
        }
        for (what, (lower, upper)), alpha in zip(bands.items(), BAND_OPACITY, strict=True):
            axes.fill_between(
                curve.fpr[shown],
                lower[shown],
                upper[shown],
                color=light("curve"),
                alpha=alpha,
                linewidth=0,
                label=f"{level(curve.confidence)} band {what}",
            )
        axes.plot(
            curve.fpr[shown],
            curve.tpr[shown],
            color=light("curve"),
            linewidth=1.8,
            solid_joinstyle="round",
            label="released curve",
        )
    else:
        axes.text(0.33, 0.82, "undefined", color=light("muted"), size=20, ha="center", va="center")
        axes.text(0.33, 0.74, "a class is too small to tell", color=light("muted"), size=10, ha="center", va="center")


def drawn_points(curve: RocCurve) -> NDArray[np.intp]:
    """Points that draw the curve to a fraction of a pixel: the first in each small step along it, and the last."""
    if len(curve.fpr) <= _STEPS:
        return np.arange(len(curve.fpr))
    along = curve.fpr + curve.tpr  # never falls, so that upright parts keep their points too
    first = np.searchsorted(along, np.linspace(along[0], along[-1], _STEPS))
    return np.unique(np.append(first, len(along) - 1))


def point_at(curve: RocCurve, fpr: float) -> int:
    """The highest released point whose false positive rate is at most ``fpr``."""
    return max(0, int(np.searchsorted(curve.fpr, fpr + 1e-12, side="right")) - 1)


def _cut(threshold: float) -> str:
    return f"{threshold:.3f}" if finite(threshold) else "above all"


def _probes(curve: RocCurve) -> tuple[Probe, ...]:
    probes = []
    for fpr in _PROBES:
        i = point_at(curve, fpr)
        tpr, low, high = float(curve.tpr[i]), float(curve.tpr_lower[i]), float(curve.tpr_upper[i])
        probes.append(
            Probe(
                x=fraction_at(float(curve.fpr[i])),
                y=fraction_at(tpr),
                low=fraction_at(low if finite(low) else tpr),
                high=fraction_at(high if finite(high) else tpr),
                lines=(
                    f"score at least {_cut(float(curve.thresholds[i]))}",
                    f"catches {percent(tpr)} ({_range(low, high)})",
                    f"flags {percent(float(curve.fpr[i]))} by mistake",
                ),
            )
        )
    return tuple(probes)


def _range(low: float, high: float) -> str:
    return f"{percent(low)} to {percent(high)}" if finite(low) and finite(high) else ABSENT


def _table(curve: RocCurve) -> ValueTable:
    rows = []
    for fpr in READ_AT:
        i = point_at(curve, fpr)
        cells = (
            (
                percent(float(curve.fpr[i])),
                percent(float(curve.tpr[i])),
                _range(float(curve.tpr_lower[i]), float(curve.tpr_upper[i])),
                _cut(float(curve.thresholds[i])),
            )
            if defined_curve(curve)
            else (ABSENT,) * 4
        )
        rows.append((f"at most {100 * fpr:.0f} %", *cells))
    return ValueTable(
        caption="The curve in numbers: for each bound on false positives, the last released point that keeps it.",
        header=(
            "Allowed by mistake",
            "Flagged by mistake",
            "Caught",
            f"{level(curve.confidence)} band",
            "Score at least",
        ),
        rows=tuple(rows),
    )


def _auc(curve: RocCurve) -> str:
    return decimals(curve.auc, _places(curve))


def _places(curve: RocCurve) -> int:
    """As many places as the interval can tell apart."""
    low, high = ends_of(curve.auc_interval)
    return 3 if not high - low < 0.01 else 4


def _auc_line(curve: RocCurve) -> str:
    if not defined_curve(curve):
        return "AUC undefined"
    return f"AUC {_auc(curve)}  ({_interval(curve)})"


def _interval(curve: RocCurve) -> str:
    (low, high), places = ends_of(curve.auc_interval), _places(curve)
    return f"{level(curve.confidence)} interval {decimals(low, places)} to {decimals(high, places)}"


def _band_line(curve: RocCurve) -> str:
    return f"released with noise; class sizes about {count(curve.positives)} and {count(curve.negatives)}"


def _description(curve: RocCurve) -> str:
    if not defined_curve(curve):
        return "An empty ROC plot: the curve is undefined because a class is too small to tell through the noise."
    points = "; ".join(
        f"at {percent(fpr)} it catches {percent(float(curve.tpr[point_at(curve, fpr)]))}" for fpr in (0.1, 0.2, 0.5)
    )
    return (
        "ROC curve from lower left to upper right: share of the positives caught against share of the negatives "
        f"flagged by mistake; {points}. {_auc_line(curve)}."
    )


def _section(curve: RocCurve, request: ReleaseRequest) -> Section:
    defined = defined_curve(curve)
    low, high = ends_of(curve.auc_interval)
    meaning = f" \N{EN DASH} here about {round(100 * known(curve.auc))} times in 100" if defined else ""
    return Section(
        title="ROC curve",
        reading=(
            "Each point is a cut-off on the score: how many of the positives it catches (upwards) and how many of the "
            "negatives it flags by mistake (to the right); the bands show where the curve without noise may run.",
            f"The AUC is how often a positive row, picked at random, scores above a negative one{meaning}; one half "
            "is the toss of a coin, one is perfect.",
        ),
        headline=Headline(
            label="Area under the curve (AUC)",
            value=_auc(curve) if defined else "undefined",
            interval=_interval(curve) if defined else None,
            scale=("0", "1 perfect"),
            marks=(float(low), known(curve.auc), float(high)) if defined else None,
            reference=("½ chance", 0.5),
        ),
        measures=(
            Measure(
                label="Positives",
                value=f"≈{SPACE}{count(curve.positives)}",
                note=f"{request.needed_label.column} = {request.needed_label.positive}",
            ),
            Measure(
                label="Negatives",
                value=f"≈{SPACE}{count(curve.negatives)}",
                note=f"{request.needed_label.column} = {request.needed_label.negative}",
            ),
        ),
        table=_table(curve),
        legend=(
            ("curve", "released curve"),
            ("band", f"{level(curve.confidence)} band of each point"),
            ("band-outer", "of the whole curve"),
            ("chance", "chance"),
        ),
        notes=(
            "Counts carry noise, like everything here. Bands and interval say how far the noise may have moved the "
            "curve of these rows, not which other rows might have been in the table. Where no band is seen, it is "
            "narrower than the line.",
        ),
        notice=None
        if defined
        else "Undefined: through the noise, one of the two classes is too small to tell how the scores rank it. "
        "The release has been made and paid for like any other.",
    )
