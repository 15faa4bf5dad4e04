"""A private distribution function at chosen thresholds, and quantiles by search, from a number of paid evaluations.

For the whole function, ``ecdf`` is more accurate. Here the table only answers how many rows lie below a point. In a
federation, silos send keys once, and two servers answer from these keys at points that may be chosen later.

Guarantee: ``epsilon``-DP for one row added, removed or replaced. See ``mechanisms.paid_counts``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> amounts = ValueCounts.from_arrays([1.0, 2.0, 3.0, 4.0, 5.0] * 2000, lower=0, upper=8, cells=64)
    >>> released = release(amounts, epsilon=1, thresholds=[2.5], quantiles=[0.5], noise=SeededNoise(1))
    >>> released.cdf.value.round(1).tolist(), released.quantiles[0].figure.value, released.guarantee
    ([0.4], 3.0, 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options import CdfPointsOptions
from spark_jobs.contract.results.values import CdfPoints
from spark_jobs.diagnostics.cdf_points.measurement import CdfPointsChoices, CdfPointsDraw, measure_points
from spark_jobs.diagnostics.cdf_points.summary import summarise
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.statistics import ScoreCounts, ValueCounts

__all__ = ["DIAGNOSTIC", "CdfPoints", "CdfPointsDraw", "measure", "release", "summarise"]


class Call(CdfPointsChoices, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=CdfPointsOptions,
    call=Call,
    measurement=Measurement[ValueCounts | ScoreCounts, CdfPointsDraw](draw=CdfPointsDraw, measure=measure_points),
    summarise=summarise,
    of_population=False,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
