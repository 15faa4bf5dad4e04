"""The draw of a figure, derived from a measurement that several diagnostics share; post-processing."""

from __future__ import annotations

from spark_jobs.contract.options import (
    AucSettings,
    AveragePrecisionSettings,
    BinormalRocSettings,
    RocCurveSettings,
)
from spark_jobs.diagnostics._score_figures.measurement import Figure, FigureDraw
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.roc_curve.shared import curve_of_groups


def figure_of_groups(
    options: AucSettings | AveragePrecisionSettings | BinormalRocSettings, shared: SharedGroups, *, figure: Figure
) -> FigureDraw:
    """The draw of one figure from the noisy counts of the shared groups, as the method ``counts`` would give it."""
    return FigureDraw(
        **shared.origin,
        figure=figure,
        method="counts",
        confidence=options.confidence,
        counts=curve_of_groups(RocCurveSettings(confidence=options.confidence), shared),
    )
