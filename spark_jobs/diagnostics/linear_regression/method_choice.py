"""Which method releases a group's line, by public facts alone.

What decides is ``rows * epsilon``, a group's signal: how many rows it takes to outweigh the noise of one. Rows are the
group's public size, or the size bound that the request gives; epsilon is what the mechanism is run at, half of the
request's where rows are replaced and sizes are private. The rule was read off the benchmark's tables
(docs/contributing/benchmarks/linear-regression.md):

* where sizes are public, from 200 to 20,000, medians over pairs: they alone adapt to points that lie close to a line
  or close together, unless the grid is so coarse that many pairs share their x;
* else noisy sums about the middle of the box, whose lines borrow from one another (``shrinkage``): for sizes that are
  private or unknown, below 200, and beyond 20,000, where pairs cost time and gain nothing;
* but below 50, or with fewer than three rows, a slope is all noise where there are fewer than 16 groups to borrow from:
  the mean of y.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.options.linear import MIN_CELLS_OF_MEDIANS

AUTO = "auto"
MEAN, SUMS, MEDIANS = "noisy_intercept", "noisy_moments", "dp_wide_theil_sen"
MIN_SIGNAL_OF_SLOPE, MIN_SIGNAL_OF_MEDIANS, MAX_SIGNAL_OF_MEDIANS = 50.0, 200.0, 20_000.0
MIN_ROWS = 3
MIN_GROUPS = 16


def choose(
    method: str,
    *,
    epsilon: float,
    groups: int,
    cells: int,
    public_rows: FloatArray | None,
    size_bound: int | None,
) -> NDArray[np.str_]:
    """The method of each group; shape (groups,).

    Args:
        method: as asked for; ``auto`` leaves it to the module's rule.
        epsilon: what the mechanism is run at.
        groups: how many there are.
        cells: of an axis.
        public_rows: group sizes, where they are public; shape (groups,).
        size_bound: a public guess at the size of a group, for where they are not; None: unknown.
    """
    if method != AUTO:
        return np.full(groups, method)
    if public_rows is not None:
        rows = public_rows
    else:
        rows = np.full(groups, np.inf if size_bound is None else float(size_bound))
    signal = np.where(rows < MIN_ROWS, 0.0, rows * epsilon)
    pairing = public_rows is not None and cells >= MIN_CELLS_OF_MEDIANS
    medians = pairing & (signal >= MIN_SIGNAL_OF_MEDIANS) & (signal < MAX_SIGNAL_OF_MEDIANS)
    alone = (signal < MIN_SIGNAL_OF_SLOPE) & ((~medians).sum() < MIN_GROUPS)
    return np.where(alone, MEAN, np.where(medians, MEDIANS, SUMS))
