"""The choice of the method for each group, from public facts alone.

The choice depends on a group's signal, ``rows * epsilon``. The rows are the group's public size, or the size bound in
the request; epsilon is that of the mechanism, which is half of the request's if rows are replaced and sizes private.
The rule follows a benchmark on tables drawn at random (docs/contributing/benchmarks/linear-regression.md):

* the mean of y, if there are fewer than 16 groups to share information and the signal is below 20 or there are fewer
  than three rows, because a slope would be all noise;
* otherwise, noisy sums about the middle of the box, whose lines are shrunk towards each other (``shrinkage``).

Medians over pairs of rows, which need public sizes, are never chosen: they estimate another line than least squares
where outcomes are discrete or skewed, and have no interval. They are better for points very close to a line, or in a
small part of the box. Public facts do not show whether points are like this, but the author of a request may know it,
and can name the method.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray

AUTO = "auto"
MEAN, SUMS = "noisy_intercept", "noisy_moments"
MIN_SIGNAL_OF_SLOPE = 20.0
MIN_ROWS = 3
MIN_GROUPS = 16


def choose(
    method: str,
    *,
    epsilon: float,
    groups: int,
    public_rows: FloatArray | None,
    size_bound: int | None,
) -> NDArray[np.str_]:
    """The method of each group; shape (groups,).

    Args:
        method: the requested method; ``auto`` applies the module's rule.
        epsilon: epsilon of the mechanism.
        groups: number of groups.
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
    return np.where((signal < MIN_SIGNAL_OF_SLOPE) & (groups < MIN_GROUPS), MEAN, SUMS)
