"""The draw of a ROC curve, taken from a measurement that several diagnostics share; post-processing."""

from __future__ import annotations

from spark_jobs.contract.options import RocCurveSettings
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw, points_for


def curve_of_groups(options: RocCurveSettings, shared: SharedGroups) -> RocDraw:
    """The draw of a ROC curve whose cells are the shared groups of scores."""
    groups, (negatives, positives) = shared.groups, shared.trees
    return RocDraw(
        **shared.origin,
        method="auto",
        thresholds=points_for(options, epsilon=float(shared.epsilon), grid=groups.grid),
        confidence=options.confidence,
        grid=groups.grid,
        cuts=groups.cuts,
        negatives=negatives,
        positives=positives,
        located=shared.located,
        steps=shared.steps,
    )
