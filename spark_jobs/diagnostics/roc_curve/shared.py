"""The draw of a ROC curve from a measurement that several diagnostics share; post-processing."""

from __future__ import annotations

from spark_jobs.contract.options import RocCurveSettings
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw, points_for
from spark_jobs.mechanisms.noise import laplace_scale
from spark_jobs.mechanisms.prefix_sums import NoisyTree, rows_changed
from spark_jobs.mechanisms.trees import Tree


def curve_of_groups(options: RocCurveSettings, shared: SharedGroups) -> RocDraw:
    """The draw of a ROC curve, whose cells are the groups."""
    groups, counted = shared.groups, shared.spendings[-1].epsilon
    flat = Tree(cells=groups.positives.size, branching=max(2, groups.positives.size), root="absent")
    scale = laplace_scale(counted, rows_changed(shared.neighbours))
    return RocDraw(
        method="auto",
        thresholds=points_for(options, epsilon=float(shared.epsilon), grid=groups.grid),
        confidence=options.confidence,
        neighbours=shared.neighbours,
        guarantee=shared.guarantee,
        spendings=shared.spendings,
        grid=groups.grid,
        cuts=groups.cuts,
        negatives=NoisyTree(tree=flat, nodes=(groups.negatives,), scale=scale),
        positives=NoisyTree(tree=flat, nodes=(groups.positives,), scale=scale),
        located=shared.located,
    )
