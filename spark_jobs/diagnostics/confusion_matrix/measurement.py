"""The measurement of confusion matrices: noisy counts of both classes between the thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import ConfusionMatrixSettings
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.prefix_sums import NoisyTree, noisy_tree
from spark_jobs.mechanisms.trees import best_tree
from spark_jobs.score_grid import threshold_cells
from spark_jobs.statistics import ScoreCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfusionDraw(Draw):
    """Noisy counts of both classes in the cells between thresholds.

    Attributes:
        confidence: nominal level of intervals.
        grid: number of cells of the score grid.
        at: for each threshold, the first cell of the grid that reaches it.
        negatives, positives: noisy counts of each class in the cells between distinct thresholds.
        requested: the thresholds of the request; empty in a draw of an earlier version.
    """

    confidence: float
    grid: int
    at: tuple[int, ...]
    negatives: NoisyTree
    positives: NoisyTree
    requested: tuple[float, ...] = ()

    @property
    def cuts(self) -> Int64Array:
        """The counted cells, as cuts of the grid."""
        return cuts_at(self.at, self.grid)

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes."""
        return ClassSizes.of_counts(self.negatives, self.positives)


def cuts_at(at: Sequence[int], grid: int) -> Int64Array:
    """The cells between distinct thresholds, as cuts of the grid."""
    return np.unique(np.array([0, *at, grid], dtype=np.int64))


def measure_counts(statistic: ScoreCounts, options: ConfusionMatrixSettings, terms: Terms) -> ConfusionDraw:
    """Draw the noise of confusion matrices; ``epsilon``-DP for one row added, removed or replaced.

    Cells between thresholds are disjoint, and so are the classes, so each class has a tree at the whole epsilon
    (``mechanisms.prefix_sums``). With one threshold the cells are the four of the matrix, with noise of scale
    ``1 / epsilon`` (``2 / epsilon`` under ``REPLACE_ONE``).

    Args:
        statistic: exact counts of both classes; private.
        options: the settings.
        terms: budget, relation and noise; all of epsilon is spent.
    """
    grid, meter = statistic.cells, terms.meter()
    at = threshold_cells(options.thresholds, grid)
    cuts = cuts_at(at, grid)
    tree = best_tree(cuts.size - 1)
    cost = meter.spend_rest(label=f"counts of both classes in {cuts.size - 1} cells")
    negatives, positives = (
        noisy_tree(totals(row, cuts), tree=tree, epsilon=cost, neighbours=terms.neighbours, noise=terms.noise)
        for row in (statistic.negatives, statistic.positives)
    )
    return ConfusionDraw.of(
        terms,
        meter,
        confidence=options.confidence,
        grid=grid,
        at=at,
        negatives=negatives,
        positives=positives,
        requested=options.thresholds,
    )
