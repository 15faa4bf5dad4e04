"""The random part of an ECDF release: on which cells rows are counted, and their noisy counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import EarlierFunction, EcdfOptions, EcdfSettings, ReferenceDistribution
from spark_jobs.contract.options.values import GridScale
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.diagnostics.ecdf.earlier import Earlier
from spark_jobs.diagnostics.ecdf.private_bounds import private_cuts
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, noisy_tree
from spark_jobs.mechanisms.trees import Tree, best_tree
from spark_jobs.statistics import ScoreCounts, ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid


@dataclass(frozen=True, kw_only=True, eq=False)
class EcdfDraw(Draw):
    """The draw: the noisy counts of one ECDF release, and the public facts needed to read them.

    Attributes:
        named: the column, in words for plots; None for scores.
        points, smoothing, confidence, quantiles, reference, compare_with: as requested (``EcdfSettings``).
        grid: the public grid that rows were counted on.
        cuts: the counted cells, as cuts of the grid; all of it, unless bounds were found.
        tree: noisy counts of those cells.
        bounds_found: whether the bounds are released values rather than public ones.
    """

    named: str | None
    points: int
    smoothing: str
    confidence: float
    quantiles: tuple[float, ...]
    reference: ReferenceDistribution | None
    compare_with: EarlierFunction | None
    grid: ValueGrid
    cuts: Int64Array
    tree: NoisyTree
    bounds_found: bool


class EcdfChoices(EcdfSettings):
    """What a distribution function is made of, beside its settings: a request takes it from its column and bounds.

    Attributes:
        find_bounds: None if the grid's bounds are good; else ``linear`` or ``log``, the scale of the cells between
            bounds that are found privately within those of a logarithmic grid.
        size_public: whether the number of counted rows is public, and so exact; under ``REPLACE_ONE`` alone, and only
            if *no* row can be left out: a replacement by a null or a filtered row would change the number.
        named: what the values are called in plots.
    """

    find_bounds: GridScale | None = None
    size_public: bool = False
    named: str | None = None


def measure_function(
    statistic: ValueCounts | ScoreCounts, options: EcdfChoices | EcdfOptions, terms: Terms
) -> EcdfDraw:
    """Draw the noise of a distribution function; ``epsilon``-DP for one row added, removed or replaced.

    The cells are disjoint and one tree is measured over them (``mechanisms.prefix_sums``: sensitivity and proof). Where
    bounds are found first, by a quarter of the budget, the tree has the rest (sequential composition).

    Args:
        statistic: exact counts of values, or of both classes' scores; private.
        options: the settings, with what the values are.
        terms: budget, relation and noise; all of epsilon is spent. ``REPLACE_ONE`` doubles all noise.

    Raises:
        InvalidRequest: the size is called public where it is not, or the earlier release is on another grid.
    """
    neighbours, noise, find_bounds = terms.neighbours, terms.noise, options.find_bounds
    _check_size(neighbours, size_public=options.size_public)
    meter = terms.meter()
    counts, grid = _line(statistic)
    _check_earlier(options.compare_with, None if find_bounds is not None else grid)
    counts, cuts = _located(counts, grid, find_bounds, meter=meter, neighbours=neighbours, noise=noise)
    shape = _shape(cuts.size - 1, size_public=options.size_public)
    rest = meter.spend_rest(label=f"counts in {cuts.size - 1:,} cells")
    return EcdfDraw(
        named=options.named,
        points=min(options.points, cuts.size - 1),
        smoothing=options.smoothing,
        confidence=options.confidence,
        quantiles=options.quantiles,
        reference=options.reference,
        compare_with=options.compare_with,
        neighbours=neighbours,
        guarantee=noise.guarantee,
        spendings=meter.spendings,
        grid=grid,
        cuts=cuts,
        tree=noisy_tree(counts, tree=shape, epsilon=rest, neighbours=neighbours, noise=noise),
        bounds_found=find_bounds is not None,
    )


def _check_size(neighbours: Neighbours, *, size_public: bool) -> None:
    if size_public and neighbours is not Neighbours.REPLACE_ONE:
        raise InvalidRequest(
            "size_public", value=True, requirement="is for replace_one", remedy="leave it out: one row changes the size"
        )


def _check_earlier(earlier: EarlierFunction | None, grid: ValueGrid | None) -> None:
    """Refuse an earlier release on another grid than this one's; ``None`` is one that is yet to be found."""
    if earlier is not None and (grid is None or Earlier.of(earlier).grid != grid):
        raise InvalidRequest(
            "compare_with", value=earlier.released_by,
            requirement="must be on this release's own grid, of public bounds",
            remedy="release both with the same bounds, scale, unit and cells",
        )  # fmt: skip


def grid_fields(grid: ValueGrid) -> dict[str, Any]:
    """What a grid is made of, in plain JSON types."""
    return {name: getattr(grid, name) for name in ("lower", "upper", "cells", "scale", "unit")}


def _line(statistic: ValueCounts | ScoreCounts) -> tuple[Int64Array, ValueGrid]:
    """The counts on one line of cells: for scores, of both classes together."""
    if isinstance(statistic, ScoreCounts):
        return statistic.negatives + statistic.positives, ValueGrid(lower=0.0, upper=1.0, cells=statistic.cells)
    return statistic.counts, statistic.grid


def _located(
    counts: Int64Array, grid: ValueGrid, find: str | None, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise
) -> tuple[Int64Array, Int64Array]:
    """The counts and the cuts of their cells: those of the grid, or those between bounds that are found."""
    if find is None:
        return counts, np.arange(grid.size + 1)
    cuts = private_cuts(counts, grid, find, meter=meter, neighbours=neighbours, noise=noise)
    return _within(counts, cuts), cuts


def _within(counts: Int64Array, cuts: Int64Array) -> Int64Array:
    """Counts of the cells between cuts; rows beyond the first and the last of them are in the cells at the ends."""
    starts = np.concatenate([[0], cuts[1:-1]])
    return np.add.reduceat(counts, starts).astype(np.int64)


def _shape(cells: int, *, size_public: bool) -> Tree:
    """The tree whose *fractions* vary least: that of counts with a public total, whether or not the total is public.

    A fraction is a count divided by the estimated total, and the noise that it shares with the total cancels.
    """
    best = best_tree(cells, public_total=True)
    return best if size_public else Tree(cells=cells, branching=best.branching, root="absent")
