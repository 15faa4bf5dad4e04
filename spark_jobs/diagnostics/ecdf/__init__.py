"""A private empirical distribution function: fractions, quantiles, bands and distances, from counts on a grid.

It is made of ``ValueCounts`` (a column of numbers, on a linear or a logarithmic grid) or of ``ScoreCounts`` (a model's
scores, of both classes together).

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). One tree of disjoint counts is released; where the user has no bounds, a quarter of the budget finds them first
by sparse-vector searches. See ``measure``.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.contract.options import EarlierFunction, ReferenceDistribution
from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.diagnostics.ecdf.distance import distance_between, distance_to
from spark_jobs.diagnostics.ecdf.measurement import QUANTILES, SECURE, Measurement, measure
from spark_jobs.diagnostics.ecdf.result import Comparison, Distance, Ecdf, Quantile
from spark_jobs.diagnostics.ecdf.summary import summarise
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.statistics import ScoreCounts, ValueCounts

__all__ = [
    "Comparison",
    "Distance",
    "Ecdf",
    "Measurement",
    "Quantile",
    "distance_between",
    "distance_to",
    "measure",
    "release",
    "summarise",
]


def release(
    statistic: ValueCounts | ScoreCounts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    find_bounds: str | None = None,
    size_public: bool = False,
    points: int = 512,
    smoothing: str = "2-norm",
    confidence: float = 0.9,
    quantiles: Sequence[float] = QUANTILES,
    reference: ReferenceDistribution | None = None,
    compare_with: EarlierFunction | None = None,
    named: str | None = None,
) -> Ecdf:
    """Measure and summarise in one call; ``epsilon``-DP, whatever the rows are.

    Args:
        statistic: exact counts of values, or of both classes' scores; private.
        epsilon: what the release may cost; all of it is spent.
        delta: accepted for a uniform signature; the release is pure and spends none.
        neighbours: ``ADD_REMOVE`` or ``REPLACE_ONE``; the latter doubles all noise.
        noise: where the noise comes from; ``SeededNoise`` stamps the release NOT PRIVATE.
        find_bounds: ``linear`` or ``log`` to find bounds privately on a wide logarithmic grid; see ``measure``.
        size_public: whether the number of counted rows is public; see ``measure`` for when it is.
        points: rows of the summary.
        smoothing: ``2-norm`` or ``1-norm``.
        confidence: nominal level of bands and intervals.
        quantiles: levels to report.
        reference: a distribution to hold the values against.
        compare_with: an earlier release's function on the very same grid, to hold them against.
        named: what the values are called in plots.

    Raises:
        RequestRefused: an option is out of its bounds.

    Example:
        >>> from spark_jobs.mechanisms.noise import SeededNoise
        >>> amounts = ValueCounts.from_arrays([1.0, 2.0, 3.0, 4.0] * 2500, lower=0, upper=10, cells=64)
        >>> released = release(amounts, epsilon=1, noise=SeededNoise(1))
        >>> released.evaluate([0.5, 2.5, 20]).round(1).tolist(), released.guarantee
        ([0.0, 0.5, 1.0], 'NOT PRIVATE')
    """
    Budget(epsilon=epsilon, delta=delta)
    measurement = measure(
        statistic,
        epsilon=epsilon,
        neighbours=neighbours,
        noise=noise,
        find_bounds=find_bounds,
        size_public=size_public,
        points=points,
        smoothing=smoothing,
        confidence=confidence,
        quantiles=quantiles,
        reference=reference,
        compare_with=compare_with,
        named=named,
    )
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
