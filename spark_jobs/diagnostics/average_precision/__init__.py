"""Private average precision: the mean over the positive rows of the precision at their score.

Methods are those of ``spark_jobs.diagnostics.auc``, and:
    weighted_counts: from noisy counts of both classes in a few cells, narrow at the top of the ranking, and one noisy
        sum over all rows of weights that these counts choose: what each row changes in the figure.
    auto: ``weighted_counts`` where there are 1,100 rows times epsilon and more, by the looks at the scores that place
        the cells, else ``counts``, as where the looks find few values or more than enough signal.

Direct releases (``polynomial``, ``cauchy``, ``laplace``) take tied negatives first (Boyd, Lantz, Page 2015); counts
count tied scores as scikit-learn does.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``) or replaced (``REPLACE_ONE``);
``(epsilon, delta)``-DP for ``laplace``. Proof: ``mechanisms.smooth_sensitivity.average_precision_bound`` and
``mechanisms.pure_release``, ``diagnostics.roc_curve.measure``, or
``diagnostics.score_figures.weighted.measure_precision`` and ``mechanisms.weighted_sums``.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.contract.options import AveragePrecisionOptions
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics._score_figures.measurement import Measurement, measure_figure
from spark_jobs.diagnostics._score_figures.result import ScoreFigure
from spark_jobs.diagnostics._score_figures.summary import summarise_as
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.statistics import ScoreCounts

__all__ = ["AveragePrecision", "Measurement", "measure", "release", "summarise"]

SECURE = SecureNoise()


@dataclass(frozen=True, kw_only=True)
class AveragePrecision(ScoreFigure):
    """A released average precision; 0 without positives."""


def measure(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    interval: bool = True,
    confidence: float = 0.9,
) -> Measurement:
    """Draw the noise of an average precision; see the package for the guarantee.

    Args:
        statistic: exact counts of both classes; private.
        epsilon: what the release may cost; a direct release spends at most 10 of it.
        delta: what ``laplace`` may spend; the others spend none.
        neighbours: the relation.
        noise: where the noise comes from.
        method: see the package.
        interval: of a direct release, whether to pay a twentieth for noisy class sizes, without which no interval can
            be given; counts have one in any case.
        confidence: nominal level of the interval.

    Raises:
        RequestRefused: an option is out of its bounds, or ``laplace`` without a delta.
    """
    options = AveragePrecisionOptions(kind="average_precision", method=method, interval=interval, confidence=confidence)
    return measure_figure(
        statistic,
        figure="average_precision",
        method=options.method,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        noise=noise,
        interval=options.interval,
        confidence=options.confidence,
    )


def summarise(measurement: Measurement, *, seed: int) -> AveragePrecision:
    """The figure that a measurement makes; the same measurement and seed give the same one."""
    return summarise_as(AveragePrecision, measurement, seed=seed)


def release(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    interval: bool = True,
    confidence: float = 0.9,
) -> AveragePrecision:
    """Measure and summarise in one call; see ``measure`` for arguments and the package for the guarantee.

    Raises:
        RequestRefused: an option is out of its bounds, or ``laplace`` without a delta.

    Example:
        >>> from spark_jobs.mechanisms.noise import SeededNoise
        >>> statistic = ScoreCounts.from_arrays([0, 1] * 5000, [0.2, 0.7] * 5000)
        >>> found = release(statistic, epsilon=1, noise=SeededNoise(1))
        >>> round(found.value, 2), found.interval[0] <= 1.0 <= found.interval[1], found.guarantee
        (1.0, True, 'NOT PRIVATE')
    """
    measurement = measure(
        statistic,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        noise=noise,
        method=method,
        interval=interval,
        confidence=confidence,
    )
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
