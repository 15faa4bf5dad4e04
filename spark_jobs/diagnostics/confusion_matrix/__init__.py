"""Private confusion matrices at given thresholds, with accuracy, precision, recall, specificity and F1.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). Rows are counted between the thresholds, each class by itself: disjoint counts; rates follow from them for
nothing. See ``measure``.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.diagnostics.confusion_matrix.measurement import SECURE, Measurement, measure
from spark_jobs.diagnostics.confusion_matrix.result import ConfusionMatrix
from spark_jobs.diagnostics.confusion_matrix.summary import summarise
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.statistics import ScoreCounts

__all__ = ["ConfusionMatrix", "Measurement", "measure", "release", "summarise"]


def release(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    thresholds: Sequence[float] = (0.5,),
    confidence: float = 0.9,
) -> ConfusionMatrix:
    """Measure and summarise in one call; ``epsilon``-DP, whatever the rows are.

    Args:
        statistic: exact counts of both classes; private.
        epsilon: what the release may cost; all of it is spent.
        delta: accepted for a uniform signature; the release is pure and spends none.
        neighbours: the relation.
        noise: where the noise comes from.
        thresholds: from 0 to 1, ascending; public.
        confidence: nominal level of intervals.

    Raises:
        RequestRefused: an option is out of its bounds.

    Example:
        >>> from spark_jobs.mechanisms.noise import SeededNoise
        >>> statistic = ScoreCounts.from_arrays([0, 1] * 5000, [0.2, 0.7] * 5000)
        >>> found = release(statistic, epsilon=1, noise=SeededNoise(1), thresholds=(0.1, 0.5))
        >>> found.rates["precision"].round(2).tolist(), found.rates["recall"].round(2).tolist()
        ([0.5, 1.0], [1.0, 1.0])
    """
    Budget(epsilon=epsilon, delta=delta)
    measurement = measure(
        statistic,
        epsilon=epsilon,
        neighbours=neighbours,
        noise=noise,
        thresholds=thresholds,
        confidence=confidence,
    )
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
