"""Figures of a classifier's ranking: precision-recall curve, gains and lift, KS, Gini, and the threshold of least cost.

All of them are computed from the counts of a private ROC curve, so they cost nothing in a request whose diagnostics
share these counts.

Guarantee: that of ``spark_jobs.diagnostics.roc_curve``, which draws the counts; the rest is post-processing.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> statistic = ScoreCounts.from_arrays([0, 1] * 5000, [0.2, 0.7] * 5000)
    >>> figures = release(statistic, epsilon=1, noise=SeededNoise(1), depths=(0.25, 0.5))
    >>> figures.lift.value.round(1).tolist(), round(figures.ks.number, 1), round(figures.gini.number, 1)
    ([2.0, 2.0], 1.0, 1.0)
"""

from __future__ import annotations

from spark_jobs.contract.options import RankingFiguresOptions, RankingFiguresSettings
from spark_jobs.contract.results.curves import RankingFigures
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.ranking_figures.measurement import RankingDraw, measure_ranking, ranking_of_groups
from spark_jobs.diagnostics.ranking_figures.summary import summarise
from spark_jobs.statistics import ScoreCounts

__all__ = ["DIAGNOSTIC", "RankingDraw", "RankingFigures", "measure", "release", "summarise"]


class Call(RankingFiguresSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=RankingFiguresOptions,
    call=Call,
    measurement=Measurement[ScoreCounts, RankingDraw](draw=RankingDraw, measure=measure_ranking),
    summarise=summarise,
    read_shared=ranking_of_groups,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
