"""A private quantile in each cell of a table, and counts around it from which its interval follows.

A row lies in one cell of the table, and its value in one of the ``size`` cells of a line, which is the same for all
cells of the table.

Privacy. ``ADD_REMOVE``: a row is in one cell of the table, and no other cell's choice or counts depend on it. In this
cell the choice is ``epsilon``-DP (``quantiles.private_quantile``). Given the chosen cells, the rings (the parts of the
line whose rows are counted, at growing distances from the chosen cell) are a fixed partition of the line, so that one
count changes by 1: geometric noise of scale ``1 / epsilon`` is ``epsilon``-DP. The two compose, adaptively.
``REPLACE_ONE`` runs at half of both costs: a replaced row is one row removed and one row added, in any two cells.

The number of random words depends on the public sizes alone, except where the first 64 bits of a coin do not decide,
and where drawing one of the accepted candidates takes several attempts.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours, exact_decimal, share
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.quantiles import rings, sparse_quantile


@dataclass(frozen=True, kw_only=True, eq=False)
class ValuesByCell:
    """Exact counts of values in each cell of a table; private.

    Attributes:
        cells: the number of cells of the table.
        size: the number of cells of the line.
        keys: ``cell * size + value`` for each pair of cells that has rows, ascending; shape (k,).
        counts: the number of rows of each pair, above 0; shape (k,).
    """

    cells: int
    size: int
    keys: Int64Array
    counts: Int64Array

    def bounds(self) -> Int64Array:
        """The index in ``keys`` at which each cell's keys begin, and last the number of keys; shape (cells + 1,)."""
        return np.searchsorted(self.keys, self.size * np.arange(self.cells + 1)).astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyQuantiles:
    """The chosen cell of the line in each cell of a table, and noisy counts of the ranges around it (``rings``).

    Attributes:
        selected: the chosen cell of the line, for each cell of the table; shape (cells,).
        around: the noisy counts of all rings of the table's first cell, left to right, then those of the next cell, and
            so on; shape (r,).
        epsilon: the cost of the counts for one added or removed row. A replaced row costs twice as much.
    """

    selected: Int64Array
    around: Int64Array
    epsilon: Decimal


def choose_quantiles(
    values: ValuesByCell, *, level: Cost, epsilon: Cost, neighbours: Neighbours, noise: Noise
) -> Int64Array:
    """The cell of the line with the ``level`` quantile, in each cell of a table; ``epsilon``-DP for all together.

    Args:
        values: exact counts; private.
        level: a number in [0, 1], with a denominator of at most 10^6.
        epsilon: the cost of all cells together.
        neighbours: the neighbouring relation.
        noise: source of the random bits (``SecureNoise`` in production).

    Raises:
        InvalidRequest: ``level`` or ``epsilon`` is out of bounds.
    """
    cost, bounds = cost_of_row(epsilon, neighbours), values.bounds().tolist()
    selected = np.zeros(values.cells, dtype=np.int64)
    for cell, (first, last) in enumerate(pairwise(bounds)):
        selected[cell] = sparse_quantile(
            values.keys[first:last] - cell * values.size,
            values.counts[first:last],
            size=values.size,
            level=level,
            epsilon=cost,
            neighbours=Neighbours.ADD_REMOVE,  # a replaced row is one less and one more, each at half, wherever
            noise=noise,
        )
    return selected


def count_around(
    values: ValuesByCell, selected: Int64Array, *, epsilon: Cost, neighbours: Neighbours, noise: Noise
) -> NoisyQuantiles:
    """Noisy counts of the rings around chosen cells; ``epsilon``-DP for all cells of the table together.

    Args:
        values: exact counts; private.
        selected: the chosen cells of the line, one for each cell of the table; released, or to be released.
        epsilon: the cost of all counts together.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    cost, bounds, exact = cost_of_row(epsilon, neighbours), values.bounds().tolist(), []
    for cell, at in enumerate(selected.tolist()):
        first, last = bounds[cell : cell + 2]
        upto = np.concatenate([[0], np.cumsum(values.counts[first:last])])
        cuts = cell * values.size + rings(at, values.size)
        exact.append(np.diff(upto[np.searchsorted(values.keys[first:last], cuts)]))
    around = noise.laplace(np.concatenate(exact), epsilon=cost, l1_sensitivity=1)
    return NoisyQuantiles(selected=selected, around=around, epsilon=cost)


def cost_of_row(epsilon: Cost, neighbours: Neighbours) -> Decimal:
    """The cost of an added or removed row: epsilon, or half of it where the guarantee is for a replaced row."""
    cost = exact_decimal(epsilon, what="epsilon")
    return share(cost, 2) if neighbours is Neighbours.REPLACE_ONE else cost
