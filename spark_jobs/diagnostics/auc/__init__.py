"""Private area under the ROC curve: the probability that a positive row scores above a negative one; ties count half.

Methods (``average_precision`` has the same ones, with another ``auto``):
    auto: ``counts`` above an epsilon of 60, where the grid is their only error, and if the scale of the scores has few
        steps. Otherwise the noisy sizes of the classes decide: if the size of the smaller class times epsilon is at
        least 120, ``polynomial``; if it is less, ``counts``, because they are more accurate there.
    polynomial: noise with polynomial tails, scaled by a smooth bound on the figure's sensitivity; pure DP.
    cauchy: Cauchy noise with its smallest exact scale; pure DP, with intervals about half again as wide.
    laplace: Laplace noise, which needs a delta; the method of Boyd, Lantz and Page (2015).
    counts: the area of a ROC curve from noisy counts of both classes.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``) or replaced (``REPLACE_ONE``);
``(epsilon, delta)``-DP for ``laplace``. Proof: the bound is valid for every kernel in [0, 1] (Boyd, Lantz, Page,
theorem 3) and is smooth (``mechanisms.smooth_sensitivity.auc_bound``); for the noise see ``mechanisms.pure_release``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> statistic = ScoreCounts.from_arrays([0, 1] * 5000, [0.2, 0.7] * 5000)
    >>> result = release(statistic, epsilon=1, noise=SeededNoise(1))
    >>> round(result.figure.value, 2), result.figure.lower <= 1.0 <= result.figure.upper, result.guarantee
    (1.0, True, 'NOT PRIVATE')
"""

from __future__ import annotations

from functools import partial

from spark_jobs.contract.options import AucOptions, AucSettings
from spark_jobs.contract.results.score_figures import Auc
from spark_jobs.diagnostics._score_figures.measurement import FigureDraw, measure_figure
from spark_jobs.diagnostics._score_figures.shared import figure_of_groups
from spark_jobs.diagnostics._score_figures.summary import summarise_as
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.statistics import ScoreCounts

__all__ = ["DIAGNOSTIC", "Auc", "FigureDraw", "measure", "release", "summarise"]


class Call(AucSettings, Terms):
    """The arguments of ``release``."""


def summarise(draw: FigureDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> Auc:
    """The released figure of a draw; a function of the draw and the seed."""
    return summarise_as(Auc, draw, seed=seed, sampling=sampling)


DIAGNOSTIC = Diagnostic(
    options=AucOptions,
    call=Call,
    measurement=Measurement[ScoreCounts, FigureDraw](draw=FigureDraw, measure=partial(measure_figure, figure="auc")),
    summarise=summarise,
    read_shared=partial(figure_of_groups, figure="auc"),
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
