"""The measurement of a ROC curve: the counted cells, and their noisy counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import RocCurveSettings
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics._score_cells import are_tied, auto_cuts, locate_scores, place_cells, takes_few_values
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.diagnostics.roc_curve.histograms import HistogramCells, histogram_cells
from spark_jobs.diagnostics.roc_curve.medians import cells_by_medians
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.cells import (
    NoisyCells,
    equal_width,
    totals,
)
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, noisy_tree
from spark_jobs.mechanisms.trees import best_tree
from spark_jobs.score_grid import cuts_of_values, values_inside
from spark_jobs.statistics import ScoreCounts

CURVE_POINTS = 256
FEW_CELLS = 16


ClassCounts = NoisyTree | HistogramCells


@dataclass(frozen=True, kw_only=True, eq=False)
class RocDraw(Draw):
    """The noisy counts of a ROC curve.

    Attributes:
        method: method of the request.
        thresholds: number of points of the curve, without the one at infinity.
        confidence: nominal level of bands and intervals.
        grid: number of cells of the score grid.
        cuts: the counted cells, as cuts of the grid.
        negatives, positives: noisy counts of each class in these cells.
        located: the noisy histograms that placed the cells.
        steps: number of steps of the scale of the scores, if the scale has a step.
    """

    method: str
    thresholds: int
    confidence: float
    grid: int
    cuts: Int64Array
    negatives: ClassCounts
    positives: ClassCounts
    located: tuple[NoisyCells, ...]
    steps: int | None = field(default=None, metadata={codec.LEFT_OUT: True})

    @property
    def noise_is_known(self) -> bool:
        """Whether the distribution of the counts' errors is public, so that there can be bands."""
        return isinstance(self.negatives, NoisyTree) or self.negatives.noise_is_known

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes."""
        return ClassSizes.of_counts(self.negatives, self.positives) if self.noise_is_known else None

    @property
    def tied(self) -> bool:
        """Whether each cell holds one score, or the histograms look as if scores take few values (``are_tied``)."""
        if self.steps is not None and (values_inside(self.cuts, self.steps, self.grid) <= 1).all():
            return True
        return are_tied(self.located)


def measure_curve(statistic: ScoreCounts, options: RocCurveSettings, terms: Terms, *, finer: int = 1) -> RocDraw:
    """Draw the noise of a ROC curve; ``epsilon``-DP for one row added, removed or replaced.

    Only the method ``recursive_medians`` spends delta: it is ``(epsilon, delta)``-DP, with a delta of 1e-30 for each
    median that a row takes part in.

    Steps compose sequentially: the histograms that place the cells, then the counts of the two classes, which are
    disjoint and share one spending. Cells and shares depend on public facts and on earlier releases alone (adaptive
    composition); the spendings always add up to at most ``epsilon``.

    Args:
        statistic: exact counts of both classes; private.
        options: the settings.
        terms: budget, relation and noise.
        finer: ``auto`` multiplies its number of cells by this if the signal is large; public.

    Raises:
        InvalidRequest: there are more thresholds than cells, or ``recursive_medians`` has no delta.
    """
    meter, neighbours, noise = terms.meter(), terms.neighbours, terms.noise
    counts = np.stack([statistic.negatives, statistic.positives])
    grid = counts.shape[1]
    points = points_for(options, epsilon=float(meter.granted.epsilon), grid=grid)
    cuts, located = _place_cells(
        counts, options.method, points, statistic.steps, finer=finer, meter=meter, neighbours=neighbours, noise=noise
    )
    rest = meter.spend_rest(label=f"counts of both classes in {cuts.size - 1} cells")
    negatives, positives = (
        _noisy_counts(totals(row, cuts), options.histogram, epsilon=rest, neighbours=neighbours, noise=noise)
        for row in counts
    )
    return RocDraw.of(
        terms,
        meter,
        method=options.method,
        thresholds=points,
        confidence=options.confidence,
        grid=grid,
        cuts=cuts,
        negatives=negatives,
        positives=positives,
        located=located,
        steps=statistic.steps,
    )


def _noisy_counts(
    cells: Int64Array, histogram: str | None, *, epsilon: Decimal, neighbours: Neighbours, noise: Noise
) -> ClassCounts:
    if histogram is not None:
        return histogram_cells(cells, method=histogram, epsilon=epsilon, neighbours=neighbours, noise=noise)
    return noisy_tree(cells, tree=best_tree(cells.size), epsilon=epsilon, neighbours=neighbours, noise=noise)


def points_for(options: RocCurveSettings, *, epsilon: float, grid: int) -> int:
    """Number of points of the curve: a function of the request alone, so that it reveals nothing about the rows."""
    if options.thresholds is not None:
        if options.thresholds > grid:
            raise InvalidRequest(
                "thresholds", options.thresholds, f"must be at most the {grid} cells of the score grid",
                "ask for fewer thresholds or a finer grid",
            )  # fmt: skip
        return options.thresholds
    if options.method in ("fixed_cells", "equi_depth"):
        return min(FEW_CELLS, grid)
    if options.method == "recursive_medians":
        return 1 << (min(FEW_CELLS, grid).bit_length() - 1)
    return min(grid, 1 << math.ceil(math.log2(CURVE_POINTS * max(1.0, epsilon))))


def _place_cells(
    counts: Int64Array,
    method: str,
    points: int,
    steps: int | None,
    *,
    finer: int,
    meter: BudgetMeter,
    neighbours: Neighbours,
    noise: Noise,
) -> tuple[Int64Array, tuple[NoisyCells, ...]]:
    """The cells to count, and the noisy histograms that placed them."""
    grid = counts.shape[1]
    if method == "fixed_cells":
        return equal_width(grid, points), ()
    if method == "recursive_medians":
        return cells_by_medians(counts.sum(axis=0), points, meter=meter, neighbours=neighbours, noise=noise), ()
    if method == "tree":
        return equal_width(grid, grid), ()
    if steps is not None and takes_few_values(steps) and method == "auto":
        return cuts_of_values(steps, grid), ()
    rounds, signal = locate_scores(counts, meter=meter, neighbours=neighbours, noise=noise)
    if method == "equi_depth":
        return place_cells(rounds[-1], grid=grid, cells=points), rounds
    return auto_cuts(rounds, signal, grid, finer=finer), rounds
