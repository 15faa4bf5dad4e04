"""The draw of confusion matrices, taken from a measurement that several diagnostics share; post-processing."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import ConfusionMatrixSettings
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.confusion_matrix.measurement import ConfusionDraw
from spark_jobs.score_grid import threshold_cells


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedConfusion(ConfusionDraw):
    """Noisy counts of both classes in groups of scores, some of whose edges are the thresholds.

    Attributes:
        edges: the edges of the groups, as cuts of the grid.
    """

    edges: Int64Array

    @property
    def cuts(self) -> Int64Array:
        """The counted cells, as cuts of the grid."""
        return self.edges


def confusion_of_groups(options: ConfusionMatrixSettings, shared: SharedGroups) -> GroupedConfusion:
    """The draw of confusion matrices from a shared measurement, which has an edge at every threshold."""
    negatives, positives = shared.trees
    return GroupedConfusion(
        **shared.origin,
        confidence=options.confidence,
        grid=shared.groups.grid,
        at=threshold_cells(options.thresholds, shared.groups.grid, shared.rounding),
        requested=options.thresholds,
        negatives=negatives,
        positives=positives,
        edges=shared.groups.cuts,
    )
