"""Average precision from noisy counts of both classes and one noisy sum over all rows, whose weights the counts choose.

There are three rounds: histograms that locate the scores, as for a ROC curve; counts of both classes in a few cells,
which are narrow at the highest scores; and a weighted sum over all rows. A row's weight is its influence on the average
precision of the counts (``weights``). The counts cost three tenths of the budget that the histograms leave, and the sum
costs the rest.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.figure import Figure
from spark_jobs.contract.options import RocCurveSettings
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import _score_cells as score_cells
from spark_jobs.diagnostics._score_figures.densities import expected_rows, fine_cuts, narrow_at_top
from spark_jobs.diagnostics._score_figures.smoothing_prior import as_observation, posterior_of_counts
from spark_jobs.diagnostics._score_figures.ties import NoisyValues, measure_values
from spark_jobs.diagnostics._score_figures.weights import choose_weights, draw_copies, precision_given
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.roc_curve import measurement as roc
from spark_jobs.diagnostics.roc_curve.trace import Trace
from spark_jobs.mechanisms.cells import NoisyCells, equal_width, totals
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, noisy_tree, rows_changed
from spark_jobs.mechanisms.trees import Tree, best_tree
from spark_jobs.mechanisms.weighted_sums import WeightedSum, weighted_sum
from spark_jobs.statistics import ScoreCounts

FINER = 2
"""Factor of the number of cells over a ROC curve's: the precision changes most at the highest scores."""
COUNTS_SHARE = Decimal("0.3")
"""Share for the counts of what the histograms leave; the weighted sum corrects most of the counts' error."""
MIN_SIGNAL = 1_100
"""Rows times epsilon from which the sum is worth its cost; below, the prior of the counts is more informative."""
FULL_GRID_EPSILON, FULL_GRID_SIGNAL = 10, 200_000
"""Epsilon, and rows times epsilon, from which counts on the whole grid have a smaller error than the remainder of the
linear correction."""
MAX_CELLS, NEAREST, PART = 128, 20.0, 0.5
"""Largest number of cells; ``nearest``, in rows times epsilon, and ``part`` of ``narrow_at_top``."""
WEIGHTS_SEED = 1


def measure_precision(
    statistic: ScoreCounts,
    *,
    method: str,
    meter: BudgetMeter,
    neighbours: Neighbours,
    noise: Noise,
    confidence: float,
) -> tuple[roc.RocDraw, WeightedSum | None, NoisyValues | None]:
    """Noisy counts of both classes, a noisy weighted sum, and a noisy number of different scores.

    All of the meter's epsilon is spent. Rounds compose sequentially: the histograms, the number of different scores,
    the counts of disjoint cells, the sum. Each round depends on public facts and on earlier releases alone (adaptive
    composition).

    In some cases, which the noisy histograms decide, everything is spent on counts and the sum is None: if scores take
    few values; if the whole grid can be counted (many rows and a large epsilon); and with ``auto``, if rows are few. If
    such counts could not tell the size of a class from noise, no figure would be defined; in this case ``auto`` spends
    what is left on counts under a common total, which tell the sizes better.

    Args:
        statistic: exact counts; private.
        method: ``auto`` or ``weighted_counts``.
        meter: pays for all rounds.
        neighbours: the relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        confidence: nominal level of the interval.
    """
    counts = np.stack([statistic.negatives, statistic.positives])
    grid, epsilon = counts.shape[1], float(meter.granted.epsilon)
    full_grid_from = FULL_GRID_SIGNAL if epsilon >= FULL_GRID_EPSILON else math.inf
    located, signal = score_cells.locate_scores(
        counts, meter=meter, neighbours=neighbours, noise=noise, enough_signal=full_grid_from
    )
    options = RocCurveSettings(confidence=confidence)
    points = roc.points_for(options, epsilon=epsilon, grid=grid)
    few = method == "auto" and signal < MIN_SIGNAL
    with_ties = signal >= full_grid_from or score_cells.are_tied(located)
    # silos show sums alone, and how many scores differ is none
    values = None if with_ties or not noise.joint else measure_values(counts, meter=meter, noise=noise)
    alone = few or with_ties

    trees = None
    if not alone:
        cuts = _cells(located, signal, grid=grid, epsilon=epsilon / rows_changed(neighbours))
        portion = COUNTS_SHARE * meter.remaining / meter.granted.epsilon
        cost = meter.spend_share(round(portion, 6), label=f"counts of both classes in {cuts.size - 1} cells")
        # a flat tree: at the highest scores single cells matter
        flat = Tree(cells=cuts.size - 1, branching=cuts.size - 1, root="absent")
        trees = _trees(counts, cuts, flat, epsilon=cost, neighbours=neighbours, noise=noise)
        alone = method == "auto" and not ClassSizes.of_counts(*trees).are_known
    if trees is None or alone:
        whole = signal >= full_grid_from
        cuts = equal_width(grid, grid) if whole else score_cells.auto_cuts(located, signal, grid, finer=FINER)
        cost = meter.spend_rest(label=f"counts of both classes in {cuts.size - 1} cells")
        tree = best_tree(cuts.size - 1)
        trees = _trees(counts, cuts, tree, epsilon=cost, neighbours=neighbours, noise=noise)
    counted = _drawn(
        trees, cuts, located, grid=grid, points=points, confidence=confidence, steps=statistic.steps,
        meter=meter, neighbours=neighbours, noise=noise,
    )  # fmt: skip
    if alone:
        return counted, None, values
    cost = meter.remaining
    weights = choose_weights(counted, epsilon=float(cost), seed=WEIGHTS_SEED)
    meter.spend_rest(label="weighted sum of rows")
    summed = weighted_sum(counts, weights, epsilon=cost, neighbours=neighbours, noise=noise)
    return counted, summed, values


def _drawn(
    trees: tuple[NoisyTree, NoisyTree],
    cuts: Int64Array,
    located: tuple[NoisyCells, ...],
    *,
    grid: int,
    points: int,
    confidence: float,
    steps: int | None,
    meter: BudgetMeter,
    neighbours: Neighbours,
    noise: Noise,
) -> roc.RocDraw:
    """The noisy counts as those of a ROC curve, at what has been spent so far."""
    return roc.RocDraw(
        method="auto",
        thresholds=points,
        confidence=confidence,
        neighbours=neighbours,
        guarantee=noise.guarantee,
        spendings=meter.spendings,
        grid=grid,
        cuts=cuts,
        negatives=trees[0],
        positives=trees[1],
        located=located,
        steps=steps,
    )


def _trees(
    counts: Int64Array, cuts: Int64Array, tree: Tree, *, epsilon: Decimal, neighbours: Neighbours, noise: Noise
) -> tuple[NoisyTree, NoisyTree]:
    """Noisy counts of both classes, which are disjoint, in the same cells; ``epsilon``-DP."""
    negatives, positives = (
        noisy_tree(totals(row, cuts), tree=tree, epsilon=epsilon, neighbours=neighbours, noise=noise) for row in counts
    )
    return negatives, positives


def _cells(located: tuple[NoisyCells, ...], signal: float, *, grid: int, epsilon: float) -> Int64Array:
    cells = min(score_cells.cells_for(signal), MAX_CELLS, grid)
    if located[-1].counts.ndim == 1:  # too few rows for a histogram of each class
        return score_cells.place_cells(located[-1], grid=grid, cells=cells)
    observations = [as_observation(cells) for cells in located]
    cuts = fine_cuts(grid, *(observation.cuts for observation in observations))
    prior_rows = posterior_of_counts(tuple(observations[::-1]), grid=grid).expected_by_laws(cuts)
    rows = expected_rows(prior_rows, cuts, observations)
    return narrow_at_top(rows, cuts, grid=grid, cells=cells, nearest=NEAREST / epsilon, part=PART)


def precision_from_sum(
    counts: roc.RocDraw, weighted: WeightedSum, traced: Trace, *, seed: int, effect: float = 1.0
) -> Figure[float]:
    """The average precision of a defined curve, with its intervals.

    Args:
        counts: noisy counts.
        weighted: the noisy weighted sum.
        traced: the curve of the counts.
        seed: public seed of the posterior draws.
        effect: the design effect of the sampling.
    """
    copies = draw_copies(counts, seed=seed, cuts=weighted.weights.cuts)
    return precision_given(
        copies,
        weighted.weights,
        weighted.total,
        scale=weighted.scale,
        confidence=counts.confidence,
        effect=effect,
    )
