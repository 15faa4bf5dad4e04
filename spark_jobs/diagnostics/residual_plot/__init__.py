"""Private residual plots of a linear model, with trend, spread, lack-of-fit tests and a Q-Q plot.

PriRP (Chen et al. 2017; Chen 2018, algorithm 9), corrected. It releases a noisy number of rows; bounds of residuals and
of fitted values, by AboveThreshold along finite chains of nested sets; and the counts of a grid that is as fine as
their noise allows, rows beyond its box included, by any method of ``mechanisms.histograms``. Everything else is
post-processing of these counts.

The model must be public or privately fitted. If it was fitted to these rows without privacy, its residuals depend on
all of them, and the guarantee does not cover that.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). See ``measurement.measure_residuals``.

Example:
    >>> import numpy as np
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> random = np.random.default_rng(1)
    >>> fitted = random.uniform(0, 50, 5000)
    >>> residuals = random.normal(0, 1 + fitted / 50)
    >>> statistic = ResidualCounts.from_arrays(fitted, residuals)
    >>> plot = release(statistic, epsilon=1, noise=SeededNoise(2))
    >>> plot.status, plot.bins, plot.findings, plot.guarantee
    ('ok', 16, ('variance',), 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options import ResidualPlotOptions, ResidualPlotSettings
from spark_jobs.contract.results.lines import ResidualPlot
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.residual_plot.measurement import ResidualDraw, measure_residuals
from spark_jobs.diagnostics.residual_plot.summary import summarise
from spark_jobs.statistics import ResidualCounts

__all__ = ["DIAGNOSTIC", "ResidualDraw", "ResidualPlot", "measure", "release", "summarise"]


class Call(ResidualPlotSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=ResidualPlotOptions,
    call=Call,
    measurement=Measurement[ResidualCounts, ResidualDraw](draw=ResidualDraw, measure=measure_residuals),
    summarise=summarise,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
