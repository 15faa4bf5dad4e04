"""The random part of points of a distribution function: noisy numbers of rows below edges of a public grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.grids import EARLIEST_ROUNDING, ROUNDING
from spark_jobs.contract.options import CdfPointsOptions, CdfPointsSettings
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.diagnostics.ecdf.measurement import line_of
from spark_jobs.mechanisms.noise import laplace_scale
from spark_jobs.mechanisms.paid_counts import PaidCounts, paid_counts
from spark_jobs.statistics import ScoreCounts, ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid


class CdfPointsChoices(CdfPointsSettings):
    """The settings, and the name of the values.

    Attributes:
        named: name of the values in the report.
    """

    named: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class CdfPointsDraw(Draw):
    """Noisy numbers of rows, with the public facts that are needed to interpret them.

    Attributes:
        named: name of the values; None for scores.
        confidence, levels: as requested.
        grid: the public grid on which the rows were counted.
        thresholds: for each requested threshold, the number of the edge that ends the cell of the threshold; in a draw
            with the earliest rounding rule, the number of the first edge at or after the threshold.
        cells: the cell that the search found for each level.
        edges: the numbers of all edges that were evaluated; the first one is the last edge of the grid, below which all
            rows lie.
        counts: the noisy numbers of rows below these edges.
        evaluations: how many evaluations are paid for.
        scale: scale of the noise in each number.
    """

    named: str | None
    confidence: float
    levels: tuple[float, ...]
    grid: ValueGrid
    thresholds: tuple[int, ...]
    cells: tuple[int, ...]
    edges: Int64Array
    counts: Int64Array
    evaluations: int
    scale: float


def measure_points(
    statistic: ValueCounts | ScoreCounts, options: CdfPointsChoices | CdfPointsOptions, terms: Terms
) -> CdfPointsDraw:
    """Evaluate the number of all rows, the numbers of rows below the thresholds, and one bisection for each level.

    Guarantee: ``epsilon``-DP for one row added, removed or replaced (``mechanisms.paid_counts``).

    Args:
        statistic: exact counts of values, or of both classes' scores; private.
        options: the settings.
        terms: budget, relation and noise; all of epsilon is spent, whether or not all evaluations are used.
    """
    counts, grid = line_of(statistic)
    evaluations, epsilon = options.evaluations(grid.size), terms.meter().remaining
    paid = paid_counts(counts, epsilon=epsilon, evaluations=evaluations, capacity=options.silo_rows, noise=terms.noise)
    return points_of(paid, grid, options, terms)


def points_of(
    paid: PaidCounts,
    grid: ValueGrid,
    options: CdfPointsChoices | CdfPointsOptions,
    terms: Terms,
    *,
    earlier: Iterable[int] = (),
    rounding: str = ROUNDING,
) -> CdfPointsDraw:
    """The draw of the requested points, from evaluations that are already paid for.

    Args:
        paid: evaluates edges of the grid.
        grid: the public grid.
        options: the settings.
        terms: as for ``measure_points``; the budget is what all evaluations cost together.
        earlier: edges that were evaluated before, and so are answered again at no cost.
        rounding: the rounding rule of the release that paid for the evaluations.

    Raises:
        InvalidRequest: too few evaluations are left.
    """
    meter = terms.meter()
    evaluations = paid.left
    epsilon = meter.spend_rest(label=f"{evaluations:,} evaluations")
    thresholds = edges_at(grid, options.thresholds, rounding)
    paid.ask([grid.size, *earlier, *thresholds])
    rows = paid.below(grid.size)
    scale = laplace_scale(epsilon, evaluations)
    cells = tuple(paid.first_cell(level * rows, scale=scale) for level in options.quantiles)
    edges, numbers = zip(*paid.answers.items(), strict=True)
    return CdfPointsDraw.of(
        terms,
        meter,
        named=options.named,
        confidence=options.confidence,
        levels=options.quantiles,
        grid=grid,
        thresholds=thresholds,
        cells=cells,
        edges=np.array(edges, dtype=np.int64),
        counts=np.array(numbers, dtype=np.int64),
        evaluations=evaluations,
        scale=scale,
        rounding=rounding,
    )


def edges_at(grid: ValueGrid, thresholds: Sequence[float], rounding: str = ROUNDING) -> tuple[int, ...]:
    """For each threshold, the number of the edge such that the rows below the edge count as at most the threshold."""
    if rounding == EARLIEST_ROUNDING:
        return tuple(np.searchsorted(grid.edges, thresholds).tolist())
    return tuple((grid.at_most(thresholds) + 1).tolist())
