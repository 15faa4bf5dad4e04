"""Lines from a noisy covariance and a noisy variance: NoisyStats of Alabi, McMillan, Sarathy, Smith, Vadhan (2022).

The mechanism measures for each group, in this order: ``ncov = sum (x - mean x)(y - mean y)`` and ``nvar = sum (x - mean
x)^2``; the number of rows, if it is private; and, with the slope ``s`` from the first two, the height of the line at
the middle of the box. If the noisy ``nvar`` is not above 0, there is no slope (the paper's bottom). The last part of
the budget then measures the mean of y, which is the height of a line with s = 0. The branch depends only on noisy
values.

Sensitivities. ``REPLACE_ONE``, n public: ncov and nvar move by at most ``1 - 1/n`` each. *Proof.* As a function of row
i alone ncov is ``((n - 1) / n) (x_i - m)(y_i - k) + c``, with the means m, k and a constant c of the other rows. The
product is bilinear, so its extremes are at corners of the box: ``m k``, ``(1 - m)(1 - k)``, ``-m (1 - k)``,
``-k (1 - m)``, and a positive one minus a negative one is ``m``, ``k``, ``1 - m`` or ``1 - k``, at most 1. For nvar
replace y by x. Both can happen at once (all rows are at 0, and one moves from 0 to 1 in both coordinates), so the pair
is charged for twice that. The published text gives about ``1 / epsilon`` as the standard deviation of the noise; with a
third of the budget each it is ``3 sqrt(2) (1 - 1/n) / epsilon``.

``ADD_REMOVE``: a row that is added to m others adds ``(m / (m + 1)) (x - mean x)(y - mean y)``, less than 1 in size;
the number of rows changes by 1; for the height see ``lines.centred_lines``.

ncov and nvar are rounded to a lattice with ``2^30`` steps per sensitivity: from 0 to 1 there are ``2^30`` steps under
``ADD_REMOVE``, and ``2^30 n / (n - 1)`` steps under ``REPLACE_ONE`` in a group of n rows. Groups of all sizes then have
noise of the same scale in steps, which one call of the sampler draws.

Groups are disjoint. Under ``ADD_REMOVE`` a row is in one of them; under ``REPLACE_ONE`` a row is replaced by one of the
same group (otherwise sizes would not be public). Under either relation all groups together cost as much as a single
group.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.regression.lines import LATTICE, Draws, NoisyLines, centred_lines
from spark_jobs.mechanisms.regression.sums import GroupSums, rounded, whole

Shares = tuple[Cost, ...]
SHARES: dict[Neighbours, Shares] = {
    Neighbours.REPLACE_ONE: ("0.45", "0.30", "0.25"),
    Neighbours.ADD_REMOVE: ("0.45", "0.30", "0.05", "0.20"),
}
"""Shares of epsilon: for the covariance, the variance, the number of rows (if it is private), and the height."""
RHO_SHARES: dict[Neighbours, Shares] = {
    Neighbours.REPLACE_ONE: ("0.75", "0.25"),
    Neighbours.ADD_REMOVE: ("0.75", "0.05", "0.20"),
}
"""Shares of rho: for covariance and variance as one vector, the number of rows (if it is private), and the height."""


def noisy_stats(
    sums: GroupSums, *, epsilon: Cost, neighbours: Neighbours, noise: Noise, shares: Shares | None = None
) -> NoisyLines:
    """A line for each group; ``epsilon``-DP under ``neighbours`` (see the module's proof).

    Args:
        sums: exact; under ``REPLACE_ONE`` its ``rows`` must be public, so they must include the rows with missing
            values (``Moments.with_every_row``).
        epsilon: the cost of all groups together.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        shares: the shares of epsilon for each measurement, in the order of ``SHARES``; public.

    Raises:
        InvalidRequest: epsilon is not a finite number above 0.
        ValueError: the number of shares is wrong, or they do not add up to 1.
    """
    parts = _parts(shares, SHARES, neighbours)
    draws = Draws(total=epsilon, shares=parts, gaussian=False, noise=noise)
    covariation, variation, step_size = _on_lattice(sums, neighbours)
    covariance = draws.add(0, covariation, moves=LATTICE)
    variance = draws.add(1, variation, moves=LATTICE)
    scales = draws.scale(0, moves=LATTICE) * step_size, draws.scale(1, moves=LATTICE) * step_size
    return _lines(sums, (covariance, variance), step_size, scales, draws, 2, neighbours)


def noisy_stats_zcdp(
    sums: GroupSums, *, rho: Cost, neighbours: Neighbours, noise: Noise, shares: Shares | None = None
) -> NoisyLines:
    """``noisy_stats`` with Gaussian noise: ``rho``-zCDP under ``neighbours``.

    The covariance and the variance are one vector, of 2-norm sensitivity ``sqrt 2 (1 - 1/n)`` or ``sqrt 2``. Adaptive
    composition: Bun, Steinke, TCC 2016, lemma 2.3.

    Raises:
        InvalidRequest: rho is not a finite number above 0.
        ValueError: as in ``noisy_stats``.
    """
    parts = _parts(shares, RHO_SHARES, neighbours)
    draws = Draws(total=rho, shares=parts, gaussian=True, noise=noise)
    covariation, variation, step_size = _on_lattice(sums, neighbours)
    both = draws.add(0, np.stack([covariation, variation]), moves=LATTICE, together=2)
    scale = draws.scale(0, moves=LATTICE, together=2) * step_size
    return _lines(sums, (both[0], both[1]), step_size, (scale, scale), draws, 1, neighbours)


def _parts(shares: Shares | None, defaults: dict[Neighbours, Shares], neighbours: Neighbours) -> Shares:
    parts = defaults[neighbours] if shares is None else tuple(shares)
    if len(parts) != len(defaults[neighbours]):
        raise ValueError(f"shares: got {len(parts)}; must be {len(defaults[neighbours])} under {neighbours}")
    return parts


def _on_lattice(sums: GroupSums, neighbours: Neighbours) -> tuple[Int64Array, Int64Array, FloatArray]:
    """Covariances and variances in lattice steps, and the size of a step in each group."""
    rows = whole(np.maximum(sums.rows, 1))
    # with at most one row the numerator is 0, and the step size is arbitrary
    others = np.maximum(rows - 1, 1) if neighbours is Neighbours.REPLACE_ONE else rows
    below = sums.steps**2 * others
    worth = (others / rows).astype(np.float64) if neighbours is Neighbours.REPLACE_ONE else np.ones(rows.size)
    return rounded(sums.covariation * LATTICE, below), rounded(sums.variation * LATTICE, below), worth / LATTICE


def _lines(
    sums: GroupSums,
    measured: tuple[Int64Array, Int64Array],
    step_size: FloatArray,
    scales: tuple[FloatArray, FloatArray],
    draws: Draws,
    part: int,
    neighbours: Neighbours,
) -> NoisyLines:
    covariance, variance = measured
    failed = variance <= 0
    along: NDArray[np.object_] = whole(np.where(failed, 0, covariance))
    across: NDArray[np.object_] = whole(np.where(failed, 1, variance))
    if neighbours is Neighbours.ADD_REMOVE:
        exact = rounded(sums.rows, np.ones(failed.size, dtype=np.int64))
        rows = draws.add(part, exact, moves=1).astype(np.float64)
        rows_scale = np.full(failed.size, draws.scale(part, moves=1))
        part += 1
    else:
        rows, rows_scale = sums.rows.astype(np.float64), np.zeros(failed.size)
    centre, centre_scale = centred_lines(sums, along, across, rows, draws, part, neighbours)
    return NoisyLines(
        slope=(along / across).astype(np.float64),
        centre=centre,
        failed=failed,
        rows=rows,
        covariance=covariance * step_size,
        variance=variance * step_size,
        covariance_scale=scales[0],
        variance_scale=scales[1],
        rows_scale=rows_scale,
        centre_scale=centre_scale,
        gaussian=draws.gaussian,
    )
