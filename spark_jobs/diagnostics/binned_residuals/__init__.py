"""Private binned residuals of a classifier with their error bars and a test of fit, from counts on a grid of scores.

Methods:
    auto: bins of near-equal depth, placed by one or two noisy histograms and counted together as the noise asks for.
        The default.
    recursive_medians: PriBRP (Chen 2018, algorithm 13) with its privacy corrected: a noisy size, bins by recursive
        medians, merged by nested counts until they are large enough.
    fixed_bins: bins of equal width; nothing is spent on placing them.

In every bin the positives, the negatives and the *centred* sum of scores are released (``mechanisms.group_sums``).

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). See ``measure``.
"""

from __future__ import annotations

from spark_jobs.contract.options import BinnedResidualsOptions
from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.diagnostics._score_groups.measurement import Measurement, measure_groups
from spark_jobs.diagnostics.binned_residuals.result import BinnedResiduals
from spark_jobs.diagnostics.binned_residuals.summary import summarise
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.statistics import ScoreCounts

__all__ = ["BinnedResiduals", "Measurement", "measure", "release", "summarise"]

SECURE = SecureNoise()
DEFAULT_BINS = {"auto": 20, "recursive_medians": 16, "fixed_bins": 20}


def measure(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    bins: int | None = None,
    confidence: float = 0.95,
) -> Measurement:
    """Draw the noise of binned residuals; ``epsilon``-DP for one row added, removed or replaced.

    Spendings compose sequentially: what places and merges the bins, then the three numbers of every bin, of which a row
    changes one bin's (two bins' when it is replaced). What is counted depends on public facts and earlier releases.

    Args:
        statistic: exact counts; private.
        epsilon: what the release may cost; all of it is spent.
        neighbours: the relation. ``REPLACE_ONE`` doubles all noise; the class sizes stay private under it.
        noise: where the noise comes from.
        method: ``auto``, ``recursive_medians`` or ``fixed_bins``; see the package.
        bins: bins of the release; None for 20, or 16 of recursive medians, which need a power of two.
        confidence: nominal level of intervals and zones.

    Raises:
        RequestRefused: an option is out of its bounds, or more bins than cells.
    """
    options = BinnedResidualsOptions(kind="binned_residuals", method=method, bins=bins, confidence=confidence)
    default = DEFAULT_BINS[options.method]
    while default > statistic.cells:
        default //= 2
    return measure_groups(
        statistic,
        epsilon=epsilon,
        neighbours=neighbours,
        noise=noise,
        method=options.method,
        bins=default if options.bins is None else options.bins,
        confidence=options.confidence,
    )


def release(
    statistic: ScoreCounts,
    *,
    epsilon: Cost,
    delta: Cost = 0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    noise: Noise = SECURE,
    method: str = "auto",
    bins: int | None = None,
    confidence: float = 0.95,
) -> BinnedResiduals:
    """Measure and summarise in one call; ``epsilon``-DP, whatever the rows are.

    Args:
        statistic: exact counts of both classes; private.
        epsilon: what the release may cost; all of it is spent.
        delta: accepted for a uniform signature; the release is pure and spends none.
        neighbours: ``ADD_REMOVE`` or ``REPLACE_ONE``; the latter doubles all noise.
        noise: where the noise comes from; ``SeededNoise`` stamps the result NOT PRIVATE.
        method: see the package.
        bins: bins of the release; None for 20, or 16 of recursive medians, which need a power of two.
        confidence: nominal level of intervals and zones.

    Raises:
        RequestRefused: an option is out of its bounds.

    Example:
        >>> from spark_jobs.mechanisms.noise import SeededNoise
        >>> statistic = ScoreCounts.from_arrays([0, 1, 1, 1] * 3000, [0.25, 0.25, 0.75, 0.75] * 3000)
        >>> residuals = release(statistic, epsilon=1, noise=SeededNoise(1))
        >>> residuals.status, residuals.residual.size, residuals.p_value < 0.001, residuals.guarantee
        ('ok', 20, True, 'NOT PRIVATE')
    """
    Budget(epsilon=epsilon, delta=delta)
    measurement = measure(
        statistic,
        epsilon=epsilon,
        neighbours=neighbours,
        noise=noise,
        method=method,
        bins=bins,
        confidence=confidence,
    )
    return summarise(measurement, seed=int(noise.words(1)[0] >> 1))
