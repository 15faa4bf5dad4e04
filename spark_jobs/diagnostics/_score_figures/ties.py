"""How many different scores the rows have, and by how much ties among them lower an average precision.

The order of the rows within a wide cell is unknown, and is taken as random. But if scores are rounded, say to two
decimals, a cell holds only a few different scores, and rows with the same score are tied: all of their positives have
the precision at the lower end of the score, as in scikit-learn. Suppose that a figure would drop by D if each cell were
one score. Then with m scores in each cell it drops by about D / m, since the precision is close to linear within a
cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.figure import DECIMALS, Ends, Figure
from spark_jobs.diagnostics._score_figures.precision import average_precision_of
from spark_jobs.diagnostics.roc_curve.shape import Edges
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise, laplace_scale, laplace_variance

VALUES_SHARE = Decimal("0.01")
"""The share of the budget for the number of different scores."""
NOISE_ALLOWED = 2.0
"""Standard deviations of its noise that an interval allows for."""
UNEVEN = 0.8
"""The part of what ties lower the figure by that an interval allows for, as cells have more and fewer scores."""


@dataclass(frozen=True, kw_only=True)
class NoisyValues:
    """The noisy number of different scores of both classes, on the grid of scores.

    Attributes:
        count: the number of cells of the grid that have rows, with noise.
        scale: scale of the two-sided geometric noise.
    """

    count: int
    scale: float


def different_scores(counts: Int64Array) -> int:
    """The number of cells of the grid with rows of either class; ``counts`` of both classes have shape (2, grid).

    Sensitivity: 1 if a row is added, removed or replaced. A row that leaves can empty one cell, and one that comes can
    fill one.
    """
    return int(np.count_nonzero(counts.sum(axis=0)))


def measure_values(counts: Int64Array, *, meter: BudgetMeter, noise: Noise) -> NoisyValues:
    """The noisy number of different scores; spends ``VALUES_SHARE`` of the budget."""
    cost = meter.spend_share(VALUES_SHARE, label="how many different scores there are")
    exact = np.array([different_scores(counts)], dtype=np.int64)
    return NoisyValues(count=int(noise.laplace(exact, epsilon=cost, l1_sensitivity=1)[0]), scale=laplace_scale(cost, 1))


def lowered_by_ties(
    figure: Figure[float], curve: Edges, sizes: tuple[float, float], values: NoisyValues
) -> Figure[float]:
    """An average precision, computed for random order within cells, lowered by the effect of ties; deterministic.

    Args:
        figure: the figure with its intervals.
        curve: the curve of the counted cells.
        sizes: released sizes of the classes, negatives first.
        values: the noisy number of different scores.
    """
    false, true = curve.fpr * sizes[0], curve.tpr * sizes[1]
    wide, cells = ~curve.alone, true.size - 1
    untied, tied = (float(average_precision_of(false, true, ~wide | as_one)) for as_one in (False, True))
    spread = NOISE_ALLOWED * math.sqrt(laplace_variance(values.scale))
    larger, shift, smaller = (
        (untied - tied) / max((values.count + off) / cells, 1.0) for off in (-spread, 0.0, spread)
    )
    uneven = UNEVEN * shift
    below, above = uneven + larger - shift, uneven + shift - smaller

    def around(ends: Ends[float]) -> Ends[float]:
        down, up = math.hypot(figure.number - ends.lower, below), math.hypot(ends.upper - figure.number, above)
        return Ends(round(max(value - down, 0.0), DECIMALS), round(min(value + up, 1.0), DECIMALS))

    value = min(max(figure.number - shift, 0.0), 1.0)
    interval, population = (around(figure.ends(of)) for of in ("interval", "population"))
    of_sampling = (1.0 - (figure.privacy_share or 0.0)) * _width(figure.ends("population"))
    share = round(1.0 - min(of_sampling / max(_width(population), 1e-12), 1.0), DECIMALS)
    return replace(figure, value=value, interval=interval, population=population, privacy_share=share)


def _width(ends: Ends[float]) -> float:
    return ends.upper - ends.lower
