"""The random part of an ECDF release: the choice of cells, and their noisy counts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import EARLIEST_ROUNDING, LINEAR_SCORE_CELLS, SCORE_CELLS
from spark_jobs.contract.options import EarlierFunction, EcdfOptions, EcdfSettings, ReferenceDistribution
from spark_jobs.contract.options.values import GridScale
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.diagnostics.ecdf.earlier import Earlier
from spark_jobs.diagnostics.ecdf.private_bounds import between_bounds
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.prefix_sums import NoisyTree, noisy_tree
from spark_jobs.mechanisms.trees import Tree, best_tree
from spark_jobs.score_grid import linear_cuts
from spark_jobs.statistics import ScoreCounts, ValueCounts
from spark_jobs.statistics.value_grid import SCORE, ValueGrid


@dataclass(frozen=True, kw_only=True, eq=False)
class EcdfDraw(Draw):
    """The draw: the noisy counts of one ECDF release, with the public facts that are needed to interpret them.

    Attributes:
        named: name of the values, for plots; None for scores.
        points, smoothing, confidence, quantiles, reference, compare_with: as requested (``EcdfSettings``).
        grid: the public grid on which the rows were counted.
        cuts: indices of the grid's edges at which the N counted cells begin and end, shape (N + 1,).
        tree: noisy counts of those cells.
        bounds_found: whether the bounds are private (released) values; otherwise they are public.
        searched: the bounds of the grid on which private bounds were searched; None if they are those of ``grid``.
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
    searched: tuple[float, float] | None = field(default=None, metadata={codec.ABSENT: None})


class EcdfChoices(EcdfSettings):
    """The settings, and the choices that a request derives from its column and bounds.

    Attributes:
        find_bounds: None to use the bounds of the grid. Otherwise private bounds are found within the grid, which must
            be logarithmic, and this is the spacing of the cells between them: ``linear`` or ``log``.
        size_public: whether the number of counted rows is public and therefore exact. Only for ``REPLACE_ONE``, and
            only if *no* row can be left out: replacing a row by a null or a filtered one would change the number.
        named: name of the values in plots.
    """

    find_bounds: GridScale | None = None
    size_public: bool = False
    named: str | None = None


def measure_function(
    statistic: ValueCounts | ScoreCounts, options: EcdfChoices | EcdfOptions, terms: Terms
) -> EcdfDraw:
    """Draw the noise of a distribution function; ``epsilon``-DP for one row added, removed or replaced.

    The cells are disjoint and one tree is measured over them (``mechanisms.prefix_sums``: sensitivity and proof). If
    private bounds are found first, they cost about a quarter of the budget and the tree the rest (sequential
    composition).

    Args:
        statistic: exact counts of values, or of both classes' scores; private.
        options: the settings, and where the values come from.
        terms: budget, relation and noise; all of epsilon is spent. ``REPLACE_ONE`` doubles all noise.

    Raises:
        InvalidRequest: ``size_public`` under ``ADD_REMOVE``, or an earlier release on another grid.
    """
    neighbours, noise, find_bounds = terms.neighbours, terms.noise, options.find_bounds
    _check_size(neighbours, size_public=options.size_public)
    meter = terms.meter()
    counts, grid = line_of(statistic)
    _check_earlier(options.compare_with, None if find_bounds is not None else grid)
    cuts, searched = np.arange(grid.size + 1), None
    if find_bounds is not None and isinstance(statistic, ValueCounts):
        inside = between_bounds(statistic, find_bounds, meter=meter, neighbours=neighbours, noise=noise)
        searched = None if inside.grid == grid else (float(grid.edges[0]), float(grid.edges[-1]))
        counts, grid, cuts = _within(inside.counts, inside.cuts), inside.grid, inside.cuts
    shape = _shape(cuts.size - 1, size_public=options.size_public)
    rest = meter.spend_rest(label=f"counts in {cuts.size - 1:,} cells")
    return EcdfDraw.of(
        terms,
        meter,
        named=options.named,
        points=min(options.points, cuts.size - 1),
        smoothing=options.smoothing,
        confidence=options.confidence,
        quantiles=options.quantiles,
        reference=options.reference,
        compare_with=options.compare_with,
        grid=grid,
        cuts=cuts,
        tree=noisy_tree(counts, tree=shape, epsilon=rest, neighbours=neighbours, noise=noise),
        bounds_found=find_bounds is not None,
        searched=searched,
    )


def _check_size(neighbours: Neighbours, *, size_public: bool) -> None:
    if size_public and neighbours is not Neighbours.REPLACE_ONE:
        raise InvalidRequest(
            "size_public", True, "needs neighbours replace_one",
            "leave it out: adding or removing a row changes the size",
        )  # fmt: skip


def _check_earlier(earlier: EarlierFunction | None, grid: ValueGrid | None) -> None:
    """Reject an earlier release that is not on ``grid``; a grid of None has private bounds and fits no release."""
    if earlier is not None and (grid is None or Earlier.of(earlier).grid != grid):
        raise InvalidRequest(
            "compare_with", earlier.released_by, "must be on this release's own grid, with public bounds",
            "release both with the same bounds, scale, unit and cells",
        )  # fmt: skip


def line_of(statistic: ValueCounts | ScoreCounts, *, refined: bool = False) -> tuple[Int64Array, ValueGrid]:
    """The counts and their grid; for scores, the counts of both classes together.

    Scores are counted in equal cells, like those of earlier releases and of federations, unless ``refined`` selects the
    grid that is finer towards 0 and 1.
    """
    if not isinstance(statistic, ScoreCounts):
        return statistic.counts, statistic.grid
    rows, cells = statistic.negatives + statistic.positives, statistic.cells
    if cells == SCORE_CELLS and refined:
        return rows, ValueGrid(lower=0.0, upper=1.0, scale=SCORE)
    if cells == SCORE_CELLS:
        rows, cells = np.add.reduceat(rows, linear_cuts()), LINEAR_SCORE_CELLS
    return rows, ValueGrid(lower=0.0, upper=1.0, cells=cells)


def ends_of(grid: ValueGrid, first: ArrayLike, last: ArrayLike, rounding: str) -> tuple[FloatArray, FloatArray]:
    """The interval of a value that lies in the cells from ``first`` to ``last``, under the draw's rounding rule."""
    if rounding == EARLIEST_ROUNDING:
        return grid.edges[np.asarray(first)], grid.edges[np.asarray(last)]
    return grid.ends(first, last)


def _within(counts: Int64Array, cuts: Int64Array) -> Int64Array:
    """Counts of the cells between cuts; rows beyond the first and the last cut count in the cells at the ends."""
    starts = np.concatenate([[0], cuts[1:-1]])
    return np.add.reduceat(counts, starts).astype(np.int64)


def _shape(cells: int, *, size_public: bool) -> Tree:
    """The tree whose *fractions* have the smallest variance: the best one for a public total, in either case.

    A fraction is a count divided by the estimated total, and the noise that both share cancels.
    """
    best = best_tree(cells, public_total=True)
    return best if size_public else Tree(cells=cells, branching=best.branching, root="absent")
