"""Private calibration of a classifier: reliability diagram, Hosmer-Lemeshow test, expected calibration error.

Methods:
    auto: groups of near-equal depth (deciles by default), placed by up to three noisy histograms; fewer groups if rows
        times epsilon is small. The default.
    recursive_medians: groups by recursive medians, merged by nested counts until they are large enough.
    fixed_bins: groups of equal width, which cost no budget to place.

In every group the positives, the negatives and the *centred* sum of scores are released (``mechanisms.group_sums``).
The four sums of the Hosmer-Lemeshow statistic follow from these three, so that budget is spent on three sums only.
(Algorithm 2 of Barczewski, Mawass, Ramon, *Differentially private empirical cumulative distribution functions*, spends
budget on all four.)

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). See ``_score_groups.measurement``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> statistic = ScoreCounts.from_arrays([0, 1, 1, 1] * 3000, [0.25, 0.25, 0.75, 0.75] * 3000)
    >>> result = release(statistic, epsilon=1, noise=SeededNoise(1))
    >>> result.status, round(result.ece.number, 2), result.p_value < 0.001, result.guarantee
    ('ok', 0.25, True, 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options import CalibrationOptions, CalibrationSettings
from spark_jobs.contract.results.pooled import Calibration
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw, measure_groups
from spark_jobs.diagnostics._score_groups.shared import groups_of_groups
from spark_jobs.diagnostics.calibration.summary import summarise
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.statistics import ScoreCounts

__all__ = ["DIAGNOSTIC", "Calibration", "GroupsDraw", "measure", "release", "summarise"]


class Call(CalibrationSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=CalibrationOptions,
    call=Call,
    measurement=Measurement[ScoreCounts, GroupsDraw](draw=GroupsDraw, measure=measure_groups),
    summarise=summarise,
    read_shared=groups_of_groups,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
