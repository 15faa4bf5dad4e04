"""Private lines through points, one for each group of rows: predictions at given x, slope and intercept.

Methods, after Alabi, McMillan, Sarathy, Smith, Vadhan (PoPETs 2022), corrected (``mechanisms.regression``):
    auto: one of the three marked with a star for each group, by public facts alone (``choosing``). The default.
    noisy_moments*: least squares from noisy sums about the middle of the box, with lines that are drawn to one of all
        groups as far as the noise drowns them (``shrinkage``); pure. ``noisy_moments_zcdp``: with Gaussian noise, for a
        delta.
    noisy_stats: least squares from a noisy covariance and variance (NoisyStats); pure. ``noisy_stats_zcdp``: as above.
    noisy_intercept*: the mean of y, as a level line.
    dp_exp_theil_sen, dp_wide_theil_sen*, dp_ss_theil_sen: medians over pairs of rows, by the exponential mechanism, by
        the same widened by half a cell, so that pairs may agree, by noise that fits a smooth bound. For public group
        sizes.
    dp_grad_descent, dp_grad_descent_zcdp: noisy gradients; to compare with.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``);
``(epsilon, delta)``-DP for methods of zCDP. All groups together cost what one does. With ``public_sizes`` under
``REPLACE_ONE``, which rows are in which group is public, and a replacement stays in its group: what is protected are x
and y. See ``measure``.
"""

from __future__ import annotations

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.linear_regression.drawing import PLACES, SECURE, measure
from spark_jobs.diagnostics.linear_regression.measurement import Measurement
from spark_jobs.diagnostics.linear_regression.result import LinearFit
from spark_jobs.diagnostics.linear_regression.summary import summarise
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.statistics import Moments, PointCounts

__all__ = ["LinearFit", "Measurement", "measure", "release", "summarise"]


def release(
    points: PointCounts | Moments,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    at: tuple[float, ...] = PLACES,
    size_bound: int | None = None,
    matchings: int | None = None,
    confidence: float = 0.9,
    public_sizes: bool = False,
) -> LinearFit:
    """Measure and summarise in one call; private whatever the rows are.

    Args:
        points: exact counts of points; private. ``Moments`` are enough for methods that need no single points.
        epsilon: what the release may cost; all of it is spent.
        delta: of the methods of zCDP, which spend all of it; the others spend none.
        neighbours: the relation.
        noise: where the noise comes from; ``SeededNoise`` stamps the result NOT PRIVATE.
        method: see the package.
        at: where lines are evaluated, in parts of the way from the lower bound of x to the upper one.
        size_bound: a public guess at the rows of a group, for ``auto`` where sizes are private.
        matchings: how many partners a row gets, of Theil-Sen methods; None: all in groups of at most 256, else 10.
        confidence: nominal level of intervals.
        public_sizes: under ``REPLACE_ONE``, whether group sizes and members are public; False, as in a request.

    Raises:
        RequestRefused: an option is out of its bounds, a budget is none or too small for the method, or the method
            needs public sizes or single points and there are none.

    Example:
        >>> from spark_jobs.mechanisms.noise import SeededNoise
        >>> points = PointCounts.from_arrays([1, 2, 3, 4] * 2000, [10, 30, 50, 70] * 2000, lower=0, upper=(5, 100))
        >>> fit = release(points, epsilon=1, noise=SeededNoise(1))
        >>> fit.predictions.round().tolist(), fit.slope.round().tolist(), fit.methods, fit.guarantee
        ([[15.0, 65.0]], [20.0], ('noisy_moments',), 'NOT PRIVATE')
    """
    measurement = measure(
        points,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        noise=noise,
        method=method,
        at=at,
        size_bound=size_bound,
        matchings=matchings,
        confidence=confidence,
        public_sizes=public_sizes,
    )
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
