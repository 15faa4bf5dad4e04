"""Private lines through points, one for each group of rows: predictions at given x, slope and intercept.

Methods, after Alabi, McMillan, Sarathy, Smith, Vadhan (PoPETs 2022), corrected (``mechanisms.regression``):
    auto: one of the three marked with a star for each group, by public facts alone (``method_choice``). The default.
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
and y. See ``noisy_lines.measure_lines``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> points = PointCounts.from_arrays([1, 2, 3, 4] * 2000, [10, 30, 50, 70] * 2000, lower=0, upper=(5, 100))
    >>> fit = release(points, epsilon=1, noise=SeededNoise(1))
    >>> fit.predictions.round().tolist(), fit.slope.round().tolist(), fit.methods, fit.guarantee
    ([[15.0, 65.0]], [20.0], ('noisy_moments',), 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options import LinearRegressionOptions, LinearRegressionSettings
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.linear_regression.measurement import LinesDraw
from spark_jobs.diagnostics.linear_regression.noisy_lines import measure_lines
from spark_jobs.diagnostics.linear_regression.result import LinearFit
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
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
