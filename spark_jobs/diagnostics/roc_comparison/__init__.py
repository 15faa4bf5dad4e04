"""The ROC curves and the AUC difference of two models on the same rows, or of a model and an earlier release.

For two models, rows are counted by label and pair of scores. First, each model's curve is released by the default
method of ``diagnostics.roc_curve``. Then three sums are released for each class: the number of rows, and the sum and
the sum of squares of the differences between a row's placements by both models. The sums give the difference of the
AUCs with its interval and test for the population: DeLong's for paired areas, with the noise included (``difference``).
In a request with other diagnostics of the first model's scores, the first model's curve is read from the noisy counts
that these diagnostics share.

With ``compare_with``, the request's model is compared with the curve that an earlier release published, whose rows are
taken as independent.

Guarantee: ``epsilon``-DP for one row added or removed, or replaced. The steps compose sequentially, and their costs add
up to ``epsilon``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> from spark_jobs.statistics import PairedScoreCounts
    >>> labels = [0, 0, 1, 1] * 2500
    >>> good, bad = ([0.2, 0.4, 0.6, 0.8] * 2500, [0.2, 0.6, 0.4, 0.8] * 2500)
    >>> result = release(PairedScoreCounts.from_arrays(labels, good, bad), epsilon=2, noise=SeededNoise(1))
    >>> result.auc_p_value < 0.01, round(result.auc_difference.number, 2)
    (True, 0.25)
"""

from __future__ import annotations

from spark_jobs.contract.options import RocComparisonOptions, RocComparisonSettings
from spark_jobs.contract.results.curves import RocComparison
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.roc_comparison.influences import influences
from spark_jobs.diagnostics.roc_comparison.measurement import (
    ComparisonDraw,
    measure_comparison,
    measure_rest,
    read_shared,
)
from spark_jobs.diagnostics.roc_comparison.summary import summarise
from spark_jobs.statistics import PairedScoreCounts, ScoreCounts

__all__ = ["DIAGNOSTIC", "ComparisonDraw", "RocComparison", "measure", "release", "summarise"]


class Call(RocComparisonSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=RocComparisonOptions,
    call=Call,
    measurement=Measurement[PairedScoreCounts | ScoreCounts, ComparisonDraw](
        draw=ComparisonDraw, measure=measure_comparison
    ),
    summarise=summarise,
    read_shared=read_shared,
    measure_rest=measure_rest,
    influences=influences,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
