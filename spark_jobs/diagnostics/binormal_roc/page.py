"""The page of a symmetric binormal ROC curve: data file, picture and section of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics._score_figures.page import UNDEFINED_CLASS, population_measures, size_measures
from spark_jobs.diagnostics.binormal_roc import BinormalRoc
from spark_jobs.publishing.chart import draw_bands, draw_curve
from spark_jobs.publishing.formats import ABSENT, decimals, level, percent
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Plot,
    Probe,
    Rendering,
    Section,
    ValueTable,
    figure_columns,
)
from spark_jobs.publishing.roc_axes import fraction_at, roc_plot
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

READ_AT = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
_PROBES = 41
_TITLE = "Symmetric binormal ROC curve"


def render(result: BinormalRoc, request: ReleaseRequest) -> Rendering:
    """The page of a result. Its tables have the same names, columns and number of rows whatever was released."""
    return Rendering(columns=_columns(result), plots=(_plot(result),), section=_section(result, request))


def _columns(curve: BinormalRoc) -> dict[str, Column]:
    band = f"{100 * curve.confidence:.4g} % band of the binormal curve with the exact AUC"
    population = f"{band} of the population that the rows are a sample of"
    return {
        "fpr": Column(values=curve.fpr, meaning="false positive rate"),
        **figure_columns(
            curve, "tpr", "true positive rate of the symmetric binormal curve",
            {"interval": f"end of the {band}", "population": f"end of the {population}"},
        ),
    }  # fmt: skip


def _line(curve: BinormalRoc) -> str:
    if curve.status == "undefined":
        return "AUC undefined"
    low, high = (decimals(end) for end in curve.auc.ends())
    return f"AUC {decimals(curve.auc.value)}  ({level(curve.confidence)} interval {low} to {high})"


def _plot(curve: BinormalRoc) -> Plot:
    return roc_plot(
        lambda axes: _draw(axes, curve),
        name="binormal_roc",
        title=_TITLE,
        description=f"Binormal ROC curve from lower left to upper right, made from one released AUC. {_line(curve)}.",
        lines=(_line(curve), "shape by assumption: normal scores of equal variance"),
        probes=_probes(curve) if curve.status != "undefined" else (),
    )


def _probes(curve: BinormalRoc) -> tuple[Probe, ...]:
    probes = []
    for fpr in np.linspace(0.0, 1.0, _PROBES):
        tpr, low, high = (float(np.interp(fpr, curve.fpr, v)) for v in (curve.tpr.value, *curve.tpr.ends()))
        lines = (
            f"FPR {percent(float(fpr))}",
            f"TPR {percent(tpr)}",
            f"({percent(low)} to {percent(high)})",
        )
        probes.append(
            Probe(
                x=fraction_at(float(fpr)), y=fraction_at(tpr), low=fraction_at(low), high=fraction_at(high), lines=lines
            )
        )
    return tuple(probes)


def _draw(axes: Axes, curve: BinormalRoc) -> None:
    if curve.status == "undefined":
        axes.text(0.33, 0.8, "undefined", color=light("muted"), size=20, ha="center", va="center")
        return
    draw_bands(axes, curve.fpr, {"of the whole curve": curve.tpr.ends()}, curve.confidence)
    draw_curve(axes, curve.fpr, curve.tpr.value, label="binormal curve")


def _section(curve: BinormalRoc, request: ReleaseRequest) -> Section:
    defined = curve.status != "undefined"
    rows = []
    for fpr in READ_AT:
        at = [float(np.interp(fpr, curve.fpr, values)) for values in (curve.tpr.value, *curve.tpr.ends())]
        cells = [percent(value) if defined else ABSENT for value in at]
        rows.append((f"{100 * fpr:.0f} %", cells[0], f"{cells[1]} to {cells[2]}"))
    low, high = curve.auc.ends()
    return Section(
        title=_TITLE,
        reading=(
            "Only the AUC was measured. The curve is the one of normal scores with equal variance and this AUC. It is "
            "accurate if the scores of both classes have these distributions; otherwise its shape is wrong.",
        ),
        headline=Headline(
            label="Area under the curve (AUC)",
            value=decimals(curve.auc.value) if defined else "undefined",
            interval=f"{level(curve.confidence)} interval {decimals(low)} to {decimals(high)}" if defined else None,
            scale=("0", "1 perfect"),
            marks=(low, curve.auc.number, high) if defined else None,
            reference=("½ chance", 0.5),
        ),
        measures=(
            Measure(
                label="Separation of the classes",
                value=decimals(curve.separation, 2) if defined else ABSENT,
                note="distance of mean scores, in standard deviations",
            ),
            *size_measures(curve.positives, curve.negatives, request),
            *population_measures(curve.auc, curve.confidence, 3),
        ),
        table=ValueTable(
            caption="The curve in numbers.",
            header=("FPR", "TPR", f"{level(curve.confidence)} band"),
            rows=tuple(rows),
        ),
        legend=(
            ("curve", "binormal curve"),
            ("band", f"{level(curve.confidence)} band of the whole curve"),
            ("chance", "chance"),
        ),
        notes=("The band measures the noise alone; it assumes the binormal shape.",),
        notice=None if defined else UNDEFINED_CLASS,
    )
