"""The ROC curves of two models on the same rows, and whether they differ.

Each model's curve is released as ``diagnostics.roc_curve`` does by default, at half of the budget; their
difference is computed from the two draws by ``roc_curve.compare`` and costs nothing.

Guarantee: ``epsilon``-DP for one row added or removed, or replaced. A row has a score of each model, so it is in both
tables of counts: the two releases compose in sequence, and their costs add up to ``epsilon``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> from spark_jobs.statistics import ScoreCounts
    >>> labels = [0, 0, 1, 1] * 2500
    >>> good, bad = ([0.2, 0.4, 0.6, 0.8] * 2500, [0.2, 0.6, 0.4, 0.8] * 2500)
    >>> counts = tuple(ScoreCounts.from_arrays(labels, scores) for scores in (good, bad))
    >>> result = release(counts, epsilon=2, noise=SeededNoise(1))
    >>> result.comparison.p_value < 0.01, round(result.comparison.auc_difference, 1)
    (True, 0.2)
"""

from __future__ import annotations

from spark_jobs.contract.options import RocComparisonOptions, RocComparisonSettings
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.roc_comparison.measurement import BothCounts, ComparisonDraw, measure_both
from spark_jobs.diagnostics.roc_comparison.result import RocComparison
from spark_jobs.diagnostics.roc_comparison.summary import summarise

__all__ = ["DIAGNOSTIC", "ComparisonDraw", "RocComparison", "measure", "release", "summarise"]


class Call(RocComparisonSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=RocComparisonOptions,
    call=Call,
    measurement=Measurement[BothCounts, ComparisonDraw](draw=ComparisonDraw, measure=measure_both),
    summarise=summarise,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
