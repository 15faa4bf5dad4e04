"""Intervals of means of the population that the rows of a cell are a sample of, where a variance is released.

The interval inverts a test, as for the rows themselves (``ratios``). The tested number is the released sum, less the
mean times the released rows; it varies through the noise and through the sampling of the rows. The sampling is taken to
be normal, with the released variance. This needs some rows, so intervals are given from ``FROM_ROWS`` noisy rows on.
In units of the standard deviation of noise and sampling together, the quantile of this number depends on the mean and
on the noise's share of the variance; it is interpolated between a few pairs of these.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends
from spark_jobs.diagnostics._simulation import normal
from spark_jobs.diagnostics.aggregates.ratios import PLACES, kept_ratios
from spark_jobs.diagnostics.aggregates.simulated import SimulatedNoise
from spark_jobs.mechanisms.noise import SeededNoise

FROM_ROWS = 30
"""The noisy number of rows from which a mean has an interval for the population."""
RATIOS, PARTS = 41, 33
_AT_ONCE = 1 << 12


def population_means(
    sums: FloatArray, rows: FloatArray, variances: FloatArray, law: SimulatedNoise, level: float, noise: SeededNoise
) -> Ends[FloatArray]:
    """The intervals of the population's ``sums / rows`` within [-1, 1].

    Args:
        sums: noisy sums of numbers from -1 to 1, one for each cell.
        rows: noisy numbers of rows.
        variances: variance of each sum through the sampling.
        law: the noise in ``sums`` and ``rows``.
        level: nominal level of an interval for the population's mean.
        noise: a seeded sampler, for simulations.
    """
    relative = _relative_quantiles(law, level, noise)
    parts = [
        _of_some(sums[part], rows[part], variances[part], law, relative)
        for part in (slice(start, start + _AT_ONCE) for start in range(0, rows.size, _AT_ONCE))
    ]
    lower, upper = (np.concatenate([part[end] for part in parts]) for end in range(2))
    return Ends(lower, upper)


def _relative_quantiles(law: SimulatedNoise, level: float, noise: SeededNoise) -> FloatArray:
    """By ratio and by the part of the noise in the variance; shape (PLACES, PARTS)."""
    ratios, places = np.linspace(-1, 1, RATIOS), np.linspace(-1, 1, PLACES)
    sampling = normal(noise, law.rows.shape)
    columns = []
    for part in np.linspace(0, 1, PARTS):
        differences = (law.sums - ratio * law.rows for ratio in ratios)
        scaled = (np.sqrt(part) * one / one.std() + np.sqrt(1 - part) * sampling for one in differences)
        columns.append(np.interp(places, ratios, [np.quantile(np.abs(one), level, method="higher") for one in scaled]))
    return np.stack(columns, axis=-1)


def _of_some(
    sums: FloatArray, rows: FloatArray, variances: FloatArray, law: SimulatedNoise, relative: FloatArray
) -> tuple[FloatArray, FloatArray]:
    places = np.linspace(-1, 1, PLACES)
    of_noise = np.var(law.sums) - 2 * places * np.cov(law.sums, law.rows)[0, 1] + places**2 * np.var(law.rows)
    whole = variances[:, None] + of_noise
    at = of_noise / whole * (PARTS - 1)
    first = np.minimum(at.astype(np.int64), PARTS - 2)
    after, place = at - first, np.arange(PLACES)
    reach = ((1 - after) * relative[place, first] + after * relative[place, first + 1]) * np.sqrt(whole)
    return kept_ratios(sums, rows, places, reach)
