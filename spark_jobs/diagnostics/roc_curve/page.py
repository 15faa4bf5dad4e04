"""The page of a ROC curve: data file, picture and section of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spark_jobs.contract.figure import Ends
from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.curves import RocCurve
from spark_jobs.diagnostics._score_ends import notice
from spark_jobs.diagnostics._score_figures.page import UNDEFINED_CLASS, population_measures, size_measures
from spark_jobs.publishing.chart import draw_bands, draw_curve, draw_undefined_aside
from spark_jobs.publishing.formats import ABSENT, count, decimals, level, percent
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Plot,
    Probe,
    Rendering,
    Section,
    ValueTable,
    figure_columns,
    finite,
)
from spark_jobs.publishing.roc_axes import fraction_at, roc_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READ_AT = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""False positive rates of the rows of the report's table; public, so that every table has the same rows."""
_PROBES = tuple(np.linspace(0.0, 1.0, 51).tolist())
_STEPS = 1500


def render(result: RocCurve, request: ReleaseRequest) -> Rendering:
    """The page of a result. Its tables have the same names, columns and number of rows whatever was released."""
    return Rendering(columns=_columns(result), plots=(_plot(result),), section=_section(result, request))


def _columns(curve: RocCurve) -> dict[str, Column]:
    nominal = f"{100 * curve.confidence:.4g} %"
    bands = {
        "interval": f"{nominal} pointwise band of tpr for what the same rows give without noise",
        "everywhere": f"{nominal} simultaneous band of the whole curve",
        "population": f"{nominal} pointwise band of the curve of the population that the rows are a sample of",
        "population_everywhere": f"{nominal} simultaneous band of the whole curve of that population",
    }
    return {
        "threshold": Column(
            values=curve.thresholds, meaning="a row counts as positive if its score is at least this; first infinity"
        ),
        "fpr": Column(values=curve.fpr, meaning="false positive rate: share of the negatives that count as positive"),
        **figure_columns(
            curve, "tpr", "true positive rate: share of the positives that count as positive",
            {of: f"end of the {band}" for of, band in bands.items()},
        ),
    }  # fmt: skip


def defined_curve(curve: RocCurve) -> bool:
    """Whether there is a curve to draw."""
    return curve.status != UNDEFINED and finite(curve.auc.value)


def _plot(curve: RocCurve) -> Plot:
    return roc_plot(
        lambda axes: _draw_curve(axes, curve),
        name="roc_curve",
        title="ROC curve",
        description=_description(curve),
        lines=(_auc_line(curve), _band_line(curve)),
        probes=_probes(curve) if defined_curve(curve) else (),
    )


def _draw_curve(axes: Axes, curve: RocCurve) -> None:
    if not defined_curve(curve):
        draw_undefined_aside(axes, "a class has too few rows")
        return
    shown = drawn_points(curve)
    bands = {
        "of the whole curve": Ends(*(end[shown] for end in curve.tpr.ends("everywhere"))),
        "of each point": Ends(*(end[shown] for end in curve.tpr.ends())),
    }
    draw_bands(axes, curve.fpr[shown], bands, curve.confidence)
    draw_curve(axes, curve.fpr[shown], curve.tpr.value[shown], label="released curve", solid_joinstyle="round")


def drawn_points(curve: RocCurve) -> NDArray[np.intp]:
    """Indices of enough points to draw the curve to a fraction of a pixel."""
    if len(curve.fpr) <= _STEPS:
        return np.arange(len(curve.fpr))
    along = curve.fpr + curve.tpr.value  # never falls, so that vertical parts keep their points too
    first = np.searchsorted(along, np.linspace(along[0], along[-1], _STEPS))
    return np.unique(np.append(first, len(along) - 1))


def point_at(curve: RocCurve, fpr: float) -> int:
    """Index of the last released point whose false positive rate is at most ``fpr``."""
    return max(0, int(np.searchsorted(curve.fpr, fpr + 1e-12, side="right")) - 1)


def _cut(threshold: float) -> str:
    return f"{threshold:.3f}" if finite(threshold) else "above all"


def _probes(curve: RocCurve) -> tuple[Probe, ...]:
    probes = []
    for fpr in _PROBES:
        i = point_at(curve, fpr)
        tpr, low, high = (float(line[i]) for line in (curve.tpr.value, *curve.tpr.ends()))
        probes.append(
            Probe(
                x=fraction_at(float(curve.fpr[i])),
                y=fraction_at(tpr),
                low=fraction_at(low if finite(low) else tpr),
                high=fraction_at(high if finite(high) else tpr),
                lines=(
                    f"score at least {_cut(float(curve.thresholds[i]))}",
                    f"TPR {percent(tpr)} ({_range(low, high)})",
                    f"FPR {percent(float(curve.fpr[i]))}",
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
                percent(float(curve.tpr.value[i])),
                *(_range(*(float(line[i]) for line in curve.tpr.ends(of))) for of in ("interval", "population")),
                _cut(float(curve.thresholds[i])),
            )
            if defined_curve(curve)
            else (ABSENT,) * 5
        )
        rows.append((f"at most {100 * fpr:.0f} %", *cells))
    return ValueTable(
        caption="The curve in numbers: for each limit of the false positive rate, the last released point within it.",
        header=(
            "Limit of FPR",
            "FPR",
            "TPR",
            f"{level(curve.confidence)} band",
            "For the population",
            "Score at least",
        ),
        rows=tuple(rows),
    )


def _auc(curve: RocCurve) -> str:
    return decimals(curve.auc.value, _places(curve))


def _places(curve: RocCurve) -> int:
    """Decimal places that suit the width of the interval."""
    low, high = curve.auc.ends()
    return 3 if not high - low < 0.01 else 4


def _auc_line(curve: RocCurve) -> str:
    if not defined_curve(curve):
        return "AUC undefined"
    return f"AUC {_auc(curve)}  ({_interval(curve)})"


def _interval(curve: RocCurve) -> str:
    (low, high), places = curve.auc.ends(), _places(curve)
    return f"{level(curve.confidence)} interval {decimals(low, places)} to {decimals(high, places)}"


def _band_line(curve: RocCurve) -> str:
    return f"released with noise; class sizes about {count(curve.positives)} and {count(curve.negatives)}"


def _description(curve: RocCurve) -> str:
    if not defined_curve(curve):
        return "An empty ROC plot: the curve is undefined, because a class has too few rows for the noise."
    points = "; ".join(
        f"at {percent(fpr)} it is {percent(float(curve.tpr.value[point_at(curve, fpr)]))}" for fpr in (0.1, 0.2, 0.5)
    )
    return (
        "ROC curve from lower left to upper right: true positive rate against false positive rate; "
        f"{points}. {_auc_line(curve)}."
    )


def _section(curve: RocCurve, request: ReleaseRequest) -> Section:
    defined = defined_curve(curve)
    meaning = f" \N{EN DASH} here about {round(100 * curve.auc.number)} times in 100" if defined else ""
    return Section(
        title="ROC curve",
        reading=(
            "Each point is a threshold of the score. Its true positive rate (TPR, vertical) is the share of positives "
            "with a score of at least the threshold, its false positive rate (FPR, horizontal) that share of the "
            "negatives. The bands show where the curve without noise may run.",
            "The AUC is the probability that a random positive row scores higher than a random negative "
            f"one{meaning}; 0.5 is no better than chance, 1 is perfect.",
        ),
        headline=Headline(
            label="Area under the curve (AUC)",
            value=_auc(curve) if defined else "undefined",
            interval=_interval(curve) if defined else None,
            scale=("0", "1 perfect"),
            marks=(curve.auc.lower, curve.auc.number, curve.auc.upper) if defined else None,
            reference=("½ chance", 0.5),
        ),
        measures=(
            *size_measures(curve.positives, curve.negatives, request),
            *population_measures(curve.auc, curve.confidence, _places(curve)),
        ),
        table=_table(curve),
        legend=(
            ("curve", "released curve"),
            ("band", f"{level(curve.confidence)} band of each point"),
            ("band-outer", "of the whole curve"),
            ("chance", "chance"),
        ),
        notes=(
            "All numbers are noisy. The bands and the interval measure the noise alone; those for the "
            "population, the sampling of the rows as well. Where no band is visible, it is narrower than the line.",
        ),
        notice=notice(curve.status, curve.at_ends) if defined else UNDEFINED_CLASS,
    )
