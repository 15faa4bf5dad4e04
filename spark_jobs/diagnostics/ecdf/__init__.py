"""A private empirical distribution function: fractions, quantiles, bands and distances, from counts on a grid.

The counts are ``ValueCounts`` (a column of numbers, on a linear or a logarithmic grid) or ``ScoreCounts`` (a model's
scores, both classes together).

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). One tree of disjoint counts is released. If the request gives no bounds, a quarter of the budget is spent first
on finding them with the sparse vector technique. See ``measurement.measure_function``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> amounts = ValueCounts.from_arrays([1.0, 2.0, 3.0, 4.0] * 2500, lower=0, upper=10, cells=64)
    >>> released = release(amounts, epsilon=1, noise=SeededNoise(1))
    >>> released.evaluate([0.5, 2.5, 20]).round(1).tolist(), released.guarantee
    ([0.0, 0.5, 1.0], 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options import EcdfOptions
from spark_jobs.contract.results.values import Distance, EcdfComparison, Quantile
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.ecdf.distance import distance_between, distance_to
from spark_jobs.diagnostics.ecdf.measurement import EcdfChoices, EcdfDraw, measure_function
from spark_jobs.diagnostics.ecdf.result import Ecdf
from spark_jobs.diagnostics.ecdf.summary import summarise
from spark_jobs.statistics import ScoreCounts, ValueCounts

__all__ = [
    "DIAGNOSTIC",
    "Distance",
    "Ecdf",
    "EcdfComparison",
    "EcdfDraw",
    "Quantile",
    "distance_between",
    "distance_to",
    "measure",
    "release",
    "summarise",
]


class Call(EcdfChoices, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=EcdfOptions,
    call=Call,
    measurement=Measurement[ValueCounts | ScoreCounts, EcdfDraw](draw=EcdfDraw, measure=measure_function),
    summarise=summarise,
    of_population=False,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
