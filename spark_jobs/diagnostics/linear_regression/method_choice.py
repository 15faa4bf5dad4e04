"""The choice of the method for each group, from public facts alone.

The choice depends on a group's signal, ``rows * epsilon``. The rows are the group's public size, or the size bound in
the request; epsilon is that of the mechanism, which is half of the request's if rows are replaced and sizes private.
The rule follows the benchmarks (docs/contributing/benchmarks/linear-regression.md):

* a signal from 200 to 20,000 with public sizes: medians over pairs, the only method that adapts to points close to a
  line or close together, unless the grid is so coarse that many pairs share their x;
* otherwise noisy sums about the middle of the box, whose lines are shrunk towards each other (``shrinkage``): for
  private or unknown sizes, below 200, and above 20,000, where pairs take time and gain nothing;
* but a signal below 50, or fewer than three rows, and fewer than 16 groups to share information: the mean of y,
  because a slope would be all noise.
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
        method: the requested method; ``auto`` applies the module's rule.
        epsilon: epsilon of the mechanism.
        groups: number of groups.
        cells: number of cells per axis.
        public_rows: group sizes, shape (groups,), if they are public; otherwise None.
        size_bound: public estimate of the size of a group, used if sizes are private; None if unknown.
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
