"""Private lines through points, one for each group of rows: predictions at given x, slope and intercept.

Methods, after Alabi, McMillan, Sarathy, Smith, Vadhan (PoPETs 2022), corrected (``mechanisms.regression``):
    auto: the default; chooses one of the three methods marked * for each group, by public facts alone
        (``method_choice``).
    noisy_moments*: least squares from noisy sums about the middle of the box; where noise dominates, lines are shrunk
        towards a common line of all groups (``shrinkage``). Pure DP; ``noisy_moments_zcdp`` has Gaussian noise and
        spends delta.
    noisy_stats: least squares from a noisy covariance and variance (NoisyStats). Pure DP; ``noisy_stats_zcdp`` has
        Gaussian noise and spends delta.
    noisy_intercept*: a level line at the noisy mean of y.
    dp_exp_theil_sen, dp_wide_theil_sen*, dp_ss_theil_sen: Theil-Sen medians over pairs of rows, by the exponential
        mechanism, by the exponential mechanism widened by half a cell (for pairs with equal values), and by smooth
        sensitivity. They need public group sizes.
    dp_grad_descent, dp_grad_descent_zcdp: noisy gradient descent, for comparison.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``);
``(epsilon, delta)``-DP for zCDP methods. All groups together cost as much as one (parallel composition). With
``public_sizes`` under ``REPLACE_ONE``, it is public which rows are in which group, and a replaced row stays in its
group: only x and y are protected. See ``noisy_lines.measure_lines``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> points = PointCounts.from_arrays([1, 2, 3, 4] * 2000, [10, 30, 50, 70] * 2000, lower=0, upper=(5, 100))
    >>> fit = release(points, epsilon=1, noise=SeededNoise(1))
    >>> fit.predictions.value.round().tolist(), fit.slope.value.round().tolist(), fit.methods, fit.guarantee
    ([[15.0, 65.0]], [20.0], ('noisy_moments',), 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options import LinearRegressionOptions, LinearRegressionSettings
from spark_jobs.contract.results.lines import LinearFit
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.linear_regression.measurement import LinesDraw
from spark_jobs.diagnostics.linear_regression.noisy_lines import measure_lines
from spark_jobs.diagnostics.linear_regression.summary import summarise
from spark_jobs.statistics import Moments, PointCounts

__all__ = ["DIAGNOSTIC", "LinearFit", "LinesDraw", "measure", "release", "summarise"]


class Call(LinearRegressionSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=LinearRegressionOptions,
    call=Call,
    measurement=Measurement[PointCounts | Moments, LinesDraw](draw=LinesDraw, measure=measure_lines),
    summarise=summarise,
    of_population=False,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
