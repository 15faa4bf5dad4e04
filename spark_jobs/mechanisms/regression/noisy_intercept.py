"""Lines without a slope: a noisy mean of y, NoisyIntercept of Alabi, McMillan, Sarathy, Smith, Vadhan (2022).

It is meant for groups so small that a slope would consist of noise. The mechanism measures ``sum (y - 1/2)``, which
changes by at most 1/2 if a row is added or removed and by at most 1 if one is replaced. If the number of rows is
private, the mechanism measures this number too, which changes by 1 if a row is added or removed.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.regression.lines import Draws, NoisyLines, centred_lines
from spark_jobs.mechanisms.regression.sums import GroupSums, rounded, whole

SHARES: dict[Neighbours, tuple[Cost, ...]] = {
    Neighbours.REPLACE_ONE: ("1",),
    Neighbours.ADD_REMOVE: ("0.30", "0.70"),
}
"""Shares of epsilon: for the number of rows (if it is private), and for the sum."""


def noisy_intercept(sums: GroupSums, *, epsilon: Cost, neighbours: Neighbours, noise: Noise) -> NoisyLines:
    """A mean of y for each group; ``epsilon``-DP under ``neighbours`` for all groups together.

    Proof: sequential composition of Laplace noise on the sum and on the number of rows (see the module); groups are
    disjoint (``noisy_stats``). If n is public, the noise in the mean has scale ``1 / (epsilon n)``.

    Args:
        sums: exact; under ``REPLACE_ONE`` its ``rows`` must be public (``Moments.with_every_row``).
        epsilon: the cost of all groups together.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        InvalidRequest: epsilon is not a finite number above 0.
    """
    draws = Draws(total=epsilon, shares=SHARES[neighbours], gaussian=False, noise=noise)
    nothing = np.zeros(sums.rows.size)
    rows, rows_scale, part = sums.rows.astype(np.float64), nothing, 0
    if neighbours is Neighbours.ADD_REMOVE:
        rows = draws.add(0, rounded(sums.rows, np.ones(nothing.size, dtype=np.int64)), moves=1).astype(np.float64)
        rows_scale, part = np.full(nothing.size, draws.scale(0, moves=1)), 1
    zeros, ones = whole(nothing.astype(np.int64)), whole(np.ones(nothing.size, dtype=np.int64))
    centre, centre_scale = centred_lines(sums, zeros, ones, rows, draws, part, neighbours)
    return NoisyLines(
        slope=nothing,
        centre=centre,
        failed=np.zeros(nothing.size, dtype=bool),
        rows=rows,
        covariance=nothing,
        variance=nothing,
        covariance_scale=nothing,
        variance_scale=nothing,
        rows_scale=rows_scale,
        centre_scale=centre_scale,
    )
