"""The ROC curves of two models on the same rows, and whether they differ.

Each model's curve is released as ``diagnostics.roc_curve`` does by default, at half of the budget; what tells them
apart is made of the two draws by ``roc_curve.compare`` and costs nothing.

Guarantee: ``epsilon``-DP for one row added or removed, or replaced. A row has a score of each model, so it is in both
tables of counts: the two releases compose in sequence, and their costs add up to ``epsilon``.
"""

from __future__ import annotations

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.roc_comparison.measurement import Measurement, measure
from spark_jobs.diagnostics.roc_comparison.result import RocComparison
from spark_jobs.diagnostics.roc_comparison.summary import summarise
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.statistics import ScoreCounts

__all__ = ["Measurement", "RocComparison", "measure", "release", "summarise"]

SECURE = SecureNoise()


def release(
    statistic: tuple[ScoreCounts, ScoreCounts],
    *,
    epsilon: Cost,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    confidence: float = 0.9,
) -> RocComparison:
    """Measure and summarise in one call; ``epsilon``-DP whatever the rows are.

    Args:
        statistic: exact counts of both models' scores on the same rows; private.
        epsilon: what the release may cost; all of it is spent.
        neighbours: ``ADD_REMOVE`` or ``REPLACE_ONE``; the latter doubles all noise.
        noise: where the noise comes from; ``SeededNoise`` stamps the result NOT PRIVATE.
        confidence: nominal level of bands and intervals.

    Raises:
        RequestRefused: an option is out of its bounds.

    Example:
        >>> from spark_jobs.mechanisms.noise import SeededNoise
        >>> labels = [0, 0, 1, 1] * 2500
        >>> good, bad = ([0.2, 0.4, 0.6, 0.8] * 2500, [0.2, 0.6, 0.4, 0.8] * 2500)
        >>> counts = tuple(ScoreCounts.from_arrays(labels, scores) for scores in (good, bad))
        >>> found = release(counts, epsilon=2, noise=SeededNoise(1))
        >>> found.comparison.p_value < 0.01, round(found.comparison.auc_difference, 1)
        (True, 0.2)
    """
    measurement = measure(statistic, epsilon=epsilon, neighbours=neighbours, noise=noise, confidence=confidence)
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
