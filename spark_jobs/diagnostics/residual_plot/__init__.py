"""Private residual plots of a linear model, with a trend, a spread, tests of fit and a Q-Q view.

PriRP (Chen et al. 2017; Chen 2018, algorithm 9), corrected: a noisy number of rows; bounds of residuals and of fitted
values by nested AboveThreshold along chains that end; a grid as fine as the noise of its counts allows; the counts, by
any method of ``mechanisms.histograms``, of the rows beyond the box too. Everything else is made of those counts.

The model must be public, or have been fitted privately: the residuals of a model that was fitted to these very rows
without privacy depend on all of them, and nothing here protects that.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). See ``measure``.
"""

from __future__ import annotations

from spark_jobs.contract.options import ResidualPlotOptions
from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.diagnostics.residual_plot.measurement import Measurement, measure_residuals
from spark_jobs.diagnostics.residual_plot.result import ResidualPlot
from spark_jobs.diagnostics.residual_plot.summary import summarise
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.statistics import ResidualCounts

__all__ = ["Measurement", "ResidualPlot", "measure", "release", "summarise"]

SECURE = SecureNoise()


def measure(
    statistic: ResidualCounts,
    *,
    epsilon: Cost,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    bins: int | None = None,
    coverage: float = 0.95,
    confidence: float = 0.95,
) -> Measurement:
    """Draw the noise of a residual plot; ``epsilon``-DP for one row added, removed or replaced.

    Spendings compose sequentially, each adapted to what was released before it:

    * the number of rows, of sensitivity 1 under either relation (a row may be replaced by one that is not counted);
    * three searches for bounds (``box.noisy_bounds``), by the proof of ``sparse_vector.first_crossing``;
    * the counts of disjoint cells, by the proof of the histogram's method; they are the cells of a grid that is made
      of released numbers, with all rows beyond it in cells around it.

    Args:
        statistic: exact counts; private.
        epsilon: what the release may cost; all of it is spent.
        neighbours: the relation. ``REPLACE_ONE`` doubles all noise but that of the size.
        noise: where the noise comes from.
        method: what releases the counts, a name of ``mechanisms.histograms.METHODS``; ``auto`` for plain integer noise,
            whose law the tests and intervals know best.
        bins: cells of either axis, a power of two from 2 to 256; None lets the noise decide.
        coverage: the part of the rows that the box is meant to hold along either axis.
        confidence: nominal level of intervals; what is left to 1 is the error rate of the verdict.

    Raises:
        RequestRefused: an option is out of its bounds.
    """
    options = ResidualPlotOptions(
        kind="residual_plot",
        outcome="outcome",  # has been counted already
        unit=statistic.unit,
        method=method,
        bins=bins,
        coverage=coverage,
        confidence=confidence,
    )
    return measure_residuals(
        statistic,
        epsilon=epsilon,
        neighbours=neighbours,
        noise=noise,
        method=options.method,
        bins=options.bins,
        coverage=options.coverage,
        confidence=options.confidence,
    )


def release(
    statistic: ResidualCounts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    bins: int | None = None,
    coverage: float = 0.95,
    confidence: float = 0.95,
) -> ResidualPlot:
    """Measure and summarise in one call; ``epsilon``-DP, whatever the rows are.

    Args:
        statistic: exact counts of fitted values and residuals; private.
        epsilon: what the release may cost; all of it is spent.
        delta: accepted for a uniform signature; the release is pure and spends none.
        neighbours: ``ADD_REMOVE`` or ``REPLACE_ONE``; the latter doubles the noise.
        noise: where the noise comes from; ``SeededNoise`` stamps the result NOT PRIVATE.
        method: see ``measure``, as of what follows.
        bins: cells of either axis.
        coverage: the part of the rows within the box, nearly.
        confidence: nominal level of intervals.

    Raises:
        RequestRefused: an option is out of its bounds.

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
    Budget(epsilon=epsilon, delta=delta)
    measurement = measure(
        statistic,
        epsilon=epsilon,
        neighbours=neighbours,
        noise=noise,
        method=method,
        bins=bins,
        coverage=coverage,
        confidence=confidence,
    )
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
