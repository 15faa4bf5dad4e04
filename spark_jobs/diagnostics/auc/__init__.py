"""The private area under the ROC curve: how often a positive row scores above a negative one, ties counting half.

Methods; ``average_precision`` has them too, and another ``auto``:
    auto: ``polynomial`` up to an epsilon of 60, ``counts`` beyond, where the grid is the only error.
    polynomial: noise with polynomial tails, scaled by a smooth bound of the figure's sensitivity; pure.
    cauchy: Cauchy noise with its smallest exact scale; pure, and about half again as wide.
    laplace: Laplace noise, for a delta; as Boyd, Lantz and Page (2015) released it.
    counts: from noisy counts of both classes, as a ROC curve is made.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``) or replaced (``REPLACE_ONE``);
``(epsilon, delta)``-DP for ``laplace``. Proof: the bound holds for every kernel in [0, 1] (Boyd, Lantz, Page,
theorem 3) and is smooth (``mechanisms.smooth_sensitivity.auc_bound``); for the noise see ``mechanisms.pure_release``.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.contract.options import AucOptions
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics._score_figures.measurement import Measurement, measure_figure
from spark_jobs.diagnostics._score_figures.result import ScoreFigure
from spark_jobs.diagnostics._score_figures.summary import summarise_as
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.statistics import ScoreCounts

__all__ = ["Auc", "Measurement", "measure", "release", "summarise"]

SECURE = SecureNoise()


@dataclass(frozen=True, kw_only=True)
class Auc(ScoreFigure):
    """A released area under the ROC curve; 1/2 where a class is empty."""


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
    """Draw the noise of an AUC; see the package for the guarantee.

    Args:
        statistic: exact counts of both classes; private.
        epsilon: what the release may cost; a direct release spends at most 10.
        delta: what ``laplace`` may spend; the others spend none.
        neighbours: the relation.
        noise: where the noise comes from.
        method: see the package.
        interval: whether to pay a twentieth for noisy class sizes, without which no interval can be given.
        confidence: nominal level of the interval.

    Raises:
        RequestRefused: an option is out of its bounds, or ``laplace`` without a delta.
    """
    options = AucOptions(kind="auc", method=method, interval=interval, confidence=confidence)
    return measure_figure(
        statistic,
        figure="auc",
        method=options.method,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        noise=noise,
        interval=options.interval,
        confidence=options.confidence,
    )


def summarise(measurement: Measurement, *, seed: int) -> Auc:
    """The AUC that a measurement makes; the same measurement and seed give the same one."""
    return summarise_as(Auc, measurement, seed=seed)


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
) -> Auc:
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
