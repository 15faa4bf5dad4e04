"""A private ROC curve with its area, a band and an interval, from counts of both classes on a grid of scores.

Methods:
    auto: few cells, placed where the scores are by a small part of the budget and as many as the noise asks for; a tree
        over the whole grid where rows times epsilon reach 200,000. The default.
    tree: a consistent tree over the whole grid, for each class.
    equi_depth: as many placed cells as the curve has points.
    fixed_cells: as many cells of equal width as the curve has points.
    recursive_medians: cells between recursive medians of the scores (PriROC: Chen 2018, algorithm 11, with the noise
        that its privacy needs). Alone in spending delta: 1e-30 for each median that a row sees.

The last two may leave their counts to a ``histogram`` method (PriROC's own is ``dawa``; on fixed cells: PriROC-fix).
Where that adapts to the rows, the law of its error is not public, and bands and interval are [0, 1].

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). Every step counts disjoint cells, of sensitivity 1 (or 2), or a tree over them; steps compose in sequence,
classes in parallel; what the steps are depends on public facts and earlier releases alone. See ``measure``, and
``histograms`` for the classes by histogram methods.
"""

from __future__ import annotations

from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.diagnostics.roc_curve.comparison import Comparison, compare
from spark_jobs.diagnostics.roc_curve.measurement import SECURE, Measurement, measure
from spark_jobs.diagnostics.roc_curve.result import RocCurve
from spark_jobs.diagnostics.roc_curve.summary import summarise
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.statistics import ScoreCounts

__all__ = ["Comparison", "Measurement", "RocCurve", "compare", "measure", "release", "summarise"]


def release(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    thresholds: int | None = None,
    confidence: float = 0.9,
    histogram: str | None = None,
) -> RocCurve:
    """Measure and summarise in one call; ``epsilon``-DP whatever the rows are (``recursive_medians``: see ``measure``).

    Args:
        statistic: exact counts of both classes; private.
        epsilon: what the release may cost; all of it is spent.
        delta: what it may cost in delta; ``recursive_medians`` alone spends of it, next to nothing.
        neighbours: ``ADD_REMOVE`` or ``REPLACE_ONE``; the latter doubles all noise.
        noise: where the noise comes from; ``SeededNoise`` stamps the curve NOT PRIVATE.
        method: see the module.
        thresholds: points of the curve; None for a number that depends on epsilon and the method alone.
        confidence: nominal level of bands and intervals.
        histogram: what releases the counts of ``fixed_cells`` and ``recursive_medians``; None for a tree.

    Raises:
        RequestRefused: an option is out of its bounds.

    Example:
        >>> from spark_jobs.mechanisms.noise import SeededNoise
        >>> statistic = ScoreCounts.from_arrays([0, 1] * 5000, [0.2, 0.7] * 5000)
        >>> curve = release(statistic, epsilon=1, noise=SeededNoise(1))
        >>> curve.status, round(curve.auc, 1), curve.guarantee
        ('ok', 1.0, 'NOT PRIVATE')
    """
    Budget(epsilon=epsilon, delta=delta)
    measurement = measure(
        statistic,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        noise=noise,
        method=method,
        thresholds=thresholds,
        confidence=confidence,
        histogram=histogram,
    )
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
