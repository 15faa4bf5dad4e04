"""Private calibration of a classifier: reliability diagram, Hosmer-Lemeshow test, expected calibration error.

Methods:
    auto: groups of near-equal depth (deciles by default), placed by one or two noisy histograms, fewer where rows times
        epsilon is small. The default.
    recursive_medians: groups by recursive medians, merged by nested counts until they are large enough.
    fixed_bins: groups of equal width; nothing is spent on placing them.

In every group the positives, the negatives and the *centred* sum of scores are released (``mechanisms.group_sums``);
the four sums of the Hosmer-Lemeshow statistic follow from these three (Barczewski, Mawass, Ramon, *Differentially
private empirical cumulative distribution functions*, algorithm 2, pays for all four).

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). See ``measure``.
"""

from __future__ import annotations

from spark_jobs.contract.options import CalibrationOptions
from spark_jobs.contract.privacy import Budget, Neighbours
from spark_jobs.diagnostics._score_groups.measurement import Measurement, measure_groups
from spark_jobs.diagnostics.calibration.result import Calibration
from spark_jobs.diagnostics.calibration.summary import summarise
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise
from spark_jobs.statistics import ScoreCounts

__all__ = ["Calibration", "Measurement", "measure", "release", "summarise"]

SECURE = SecureNoise()
DEFAULT_BINS = {"auto": 10, "recursive_medians": 8, "fixed_bins": 10}


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
    """Draw the noise of a calibration; ``epsilon``-DP for one row added, removed or replaced.

    Spendings compose sequentially: what places and merges the groups, then the three numbers of every group, of which a
    row changes one group's (two groups' when it is replaced). What is counted depends on public facts and on earlier
    releases.

    Args:
        statistic: exact counts; private.
        epsilon: what the release may cost; all of it is spent.
        neighbours: the relation. ``REPLACE_ONE`` doubles all noise; the class sizes stay private under it.
        noise: where the noise comes from.
        method: ``auto``, ``recursive_medians`` or ``fixed_bins``; see the package.
        bins: groups of the release; None for 10, or 8 of recursive medians, which need a power of two.
        confidence: nominal level of intervals and zones.

    Raises:
        RequestRefused: an option is out of its bounds, or more bins than cells.
    """
    options = CalibrationOptions(kind="calibration", method=method, bins=bins, confidence=confidence)
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
) -> Calibration:
    """Measure and summarise in one call; ``epsilon``-DP, whatever the rows are.

    Args:
        statistic: exact counts of both classes; private.
        epsilon: what the release may cost; all of it is spent.
        delta: accepted for a uniform signature; the release is pure and spends none.
        neighbours: ``ADD_REMOVE`` or ``REPLACE_ONE``; the latter doubles all noise.
        noise: where the noise comes from; ``SeededNoise`` stamps the result NOT PRIVATE.
        method: see the package.
        bins: groups of the release; None for 10, or 8 of recursive medians, which need a power of two.
        confidence: nominal level of intervals and zones.

    Raises:
        RequestRefused: an option is out of its bounds.

    Example:
        >>> from spark_jobs.mechanisms.noise import SeededNoise
        >>> statistic = ScoreCounts.from_arrays([0, 1, 1, 1] * 3000, [0.25, 0.25, 0.75, 0.75] * 3000)
        >>> found = release(statistic, epsilon=1, noise=SeededNoise(1))
        >>> found.status, round(found.ece, 2), found.p_value < 0.001, found.guarantee
        ('ok', 0.25, True, 'NOT PRIVATE')
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
