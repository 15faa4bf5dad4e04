"""Private average precision: the mean, over the positive rows, of the precision at their score.

Methods are those of ``spark_jobs.diagnostics.auc``, except ``auto``, and one more:
    weighted_counts: noisy counts of both classes in a few cells, narrow at the highest scores, and one noisy sum over
        all rows. A row's weight in the sum is its influence on the average precision of the noisy counts.
    auto: ``weighted_counts`` if rows times epsilon, as noisy histograms estimate it, is at least 1,100, unless scores
        take few values or the whole grid can be counted; otherwise ``counts``.

Direct releases (``polynomial``, ``cauchy``, ``laplace``) rank tied negatives first (Boyd, Lantz, Page 2015); the other
methods treat ties as scikit-learn does.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``) or replaced (``REPLACE_ONE``);
``(epsilon, delta)``-DP for ``laplace``. Proof, by method: ``mechanisms.smooth_sensitivity.average_precision_bound`` and
``mechanisms.pure_release`` for direct releases; ``diagnostics.roc_curve.measure`` for ``counts``;
``diagnostics._score_figures.weighted.measure_precision`` and ``mechanisms.weighted_sums`` for ``weighted_counts``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> statistic = ScoreCounts.from_arrays([0, 1] * 5000, [0.2, 0.7] * 5000)
    >>> result = release(statistic, epsilon=1, noise=SeededNoise(1))
    >>> round(result.figure.value, 2), result.figure.lower <= 1.0 <= result.figure.upper, result.guarantee
    (1.0, True, 'NOT PRIVATE')
"""

from __future__ import annotations

from functools import partial

from spark_jobs.contract.options import AveragePrecisionOptions, AveragePrecisionSettings
from spark_jobs.contract.results.score_figures import AveragePrecision
from spark_jobs.diagnostics._score_figures.measurement import FigureDraw, measure_figure
from spark_jobs.diagnostics._score_figures.shared import figure_of_groups
from spark_jobs.diagnostics._score_figures.summary import summarise_as
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.statistics import ScoreCounts

__all__ = ["DIAGNOSTIC", "AveragePrecision", "FigureDraw", "measure", "release", "summarise"]


class Call(AveragePrecisionSettings, Terms):
    """The arguments of ``release``."""


def summarise(draw: FigureDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> AveragePrecision:
    """The released figure of a draw; a function of the draw and the seed."""
    return summarise_as(AveragePrecision, draw, seed=seed, sampling=sampling)


DIAGNOSTIC = Diagnostic(
    options=AveragePrecisionOptions,
    call=Call,
    measurement=Measurement[ScoreCounts, FigureDraw](
        draw=FigureDraw, measure=partial(measure_figure, figure="average_precision")
    ),
    summarise=summarise,
    read_shared=partial(figure_of_groups, figure="average_precision"),
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
