"""One private quantile of a column or of scores, with an interval; the whole budget is spent on this one number.

The value is chosen by ``mechanisms.quantiles.private_quantile``. A released value says nothing about its own error. So
half of epsilon pays for an interval, unless the request does without: counts of the rows around the value, within
distances of 1, 3, 7, 15, ... cells on each side, which show between which values the exact quantile lies.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``). See
``measure_quantile``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> amounts = ValueCounts.from_arrays([1.0, 2.0, 3.0, 4.0, 5.0] * 2000, lower=0, upper=8, cells=64)
    >>> released = release(amounts, epsilon=1, level=0.5, noise=SeededNoise(1))
    >>> released.value, tuple(released.interval), released.guarantee
    (3.0, (3.0, 3.125), 'NOT PRIVATE')
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, UNCHECKED, UNDEFINED
from spark_jobs.contract.options import QuantileOptions, QuantileSettings
from spark_jobs.contract.results.values import SingleQuantile
from spark_jobs.diagnostics.diagnostic import Diagnostic, Draw, Measurement, Terms
from spark_jobs.diagnostics.ecdf.measurement import ends_of, line_of
from spark_jobs.diagnostics.ecdf.noise_model import NoiseModel
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, noisy_tree
from spark_jobs.mechanisms.quantiles import private_quantile, rings
from spark_jobs.mechanisms.trees import Tree
from spark_jobs.statistics import ScoreCounts, ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid

__all__ = ["DIAGNOSTIC", "QuantileDraw", "SingleQuantile", "measure", "release", "summarise"]

VALUE_SHARE = Decimal("0.5")
"""The share of the budget for the value if it has an interval."""
COPIES = 1000


class QuantileChoices(QuantileSettings):
    """The settings, and the name of the values.

    Attributes:
        named: name of the values in the report.
    """

    named: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantileDraw(Draw):
    """A released cell, and noisy counts around it.

    Attributes:
        named: name of the values; None for scores.
        level, confidence: as requested.
        grid: the public grid on which the rows were counted.
        cell: the cell that was chosen for the quantile.
        around: noisy counts of the rings of cells around it, left to right (``rings``); None without an interval.
    """

    named: str | None
    level: float
    confidence: float
    grid: ValueGrid
    cell: int
    around: NoisyTree | None


def measure_quantile(
    statistic: ValueCounts | ScoreCounts, options: QuantileChoices | QuantileOptions, terms: Terms
) -> QuantileDraw:
    """Choose a cell and count around it; ``epsilon``-DP for one row added, removed or replaced.

    The choice is private by ``private_quantile``, at its share of epsilon. Given the released cell, the rings around it
    are a fixed partition of the cells, so that their counts change by 1 in 1-norm when a row is added or removed, and
    by at most 2 when one is replaced (``prefix_sums.noisy_tree``). The two steps compose sequentially and adaptively.

    Args:
        statistic: exact counts of values, or of both classes' scores; private.
        options: the settings.
        terms: budget, relation and noise; all of epsilon is spent.
    """
    meter, neighbours, noise = terms.meter(), terms.neighbours, terms.noise
    counts, grid = line_of(statistic, refined=True)
    share = VALUE_SHARE if options.interval else Decimal(1)
    cost = meter.spend_share(share, label="the quantile")
    cell = private_quantile(counts, level=options.level, epsilon=cost, neighbours=neighbours, noise=noise)
    around = None
    if options.interval:
        cuts = rings(cell, counts.size)
        around = noisy_tree(
            np.add.reduceat(counts, cuts[:-1]),
            tree=Tree(cells=cuts.size - 1, branching=max(2, cuts.size - 1), root="absent"),
            epsilon=meter.spend_rest(label="counts around it, for the interval"),
            neighbours=neighbours,
            noise=noise,
        )
    return QuantileDraw.of(
        terms,
        meter,
        named=options.named,
        level=options.level,
        confidence=options.confidence,
        grid=grid,
        cell=cell,
        around=around,
    )


def summarise(draw: QuantileDraw, *, seed: int) -> SingleQuantile:
    """The quantile of a draw, with its interval; the same draw and seed give the same result."""
    edges = draw.grid.edges
    result = SingleQuantile(
        figure=Figure(value=float(edges[draw.cell])),
        level=draw.level,
        rows=None,
        bounds=(float(edges[0]), float(edges[-1])),
        named=draw.named,
        status=UNCHECKED,
        confidence=draw.confidence,
        **draw.stated,
    )
    if draw.around is None:
        return result
    noisy = draw.around.prefix_counts()
    model = NoiseModel(tree=draw.around.tree, scale=draw.around.scale, rows=1.0)
    first, last = _ends(draw, noisy, model, seed)
    low, high = ends_of(draw.grid, min(first, draw.cell), max(last, draw.cell), draw.rounding)
    return replace(
        result,
        figure=replace(result.figure, interval=Ends(float(low), float(high))),
        rows=round(max(float(noisy[-1]), 0.0), 9),
        status=OK if noisy[-1] >= max(1.0, DEFINED_ABOVE * model.total_stddev) else UNDEFINED,
    )


def _ends(draw: QuantileDraw, noisy: FloatArray, model: NoiseModel, seed: int) -> tuple[int, int]:
    """The first and the last cell that the exact quantile may lie in.

    Let D be the number of rows below an edge, less ``level`` times the number of all rows: the quantile lies below the
    edge if and only if ``D >= 0``. The noise in D has a public distribution, whatever the released cell is. From either
    end of the line, edges are tested inwards until a test does not reject. Each test has the whole error rate, because
    the interval holds the released cell: a quantile to the left of it can be missed by the lower end alone, and one to
    the right by the upper end. No correction for many tests is needed: which rejections are wrong is decided by the
    first edge beyond the quantile, and that is one fixed edge.
    """
    cuts = rings(draw.cell, draw.grid.size)
    spread = np.concatenate(list(model.errors(np.full(cuts.size - 1, draw.level), SeededNoise(seed), copies=COPIES)))
    tail = 1 - draw.confidence
    inner = slice(1, -1)
    excess = (noisy - draw.level * noisy[-1])[inner]
    low, high = np.quantile(spread[:, :-1], [tail, 1 - tail], axis=0)
    above, below = excess < low, excess > high
    first = int(np.argmin(np.append(above, False)))
    last = int(np.argmin(np.append(below[::-1], False)))
    return int(cuts[first]), int(cuts[cuts.size - 1 - last]) - 1


class Call(QuantileChoices, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=QuantileOptions,
    call=Call,
    measurement=Measurement[ValueCounts | ScoreCounts, QuantileDraw](draw=QuantileDraw, measure=measure_quantile),
    summarise=summarise,
    of_population=False,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
