"""Private binned residuals of a classifier with their error bars and a test of fit, from counts on a grid of scores.

Methods:
    auto: bins of near-equal depth, placed by up to three noisy histograms; the more noise, the more bins are
        counted together. The default.
    recursive_medians: PriBRP (Chen 2018, algorithm 13) with its privacy corrected: a noisy size of the table is drawn,
        bins are placed by recursive medians, and merged by nested counts until they are large enough.
    fixed_bins: bins of equal width, which cost no budget to place.

In every bin the positives, the negatives and the *centred* sum of scores are released (``mechanisms.group_sums``).

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). See ``_score_groups.measurement``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> statistic = ScoreCounts.from_arrays([0, 1, 1, 1] * 3000, [0.25, 0.25, 0.75, 0.75] * 3000)
    >>> residuals = release(statistic, epsilon=1, noise=SeededNoise(1))
    >>> residuals.status, residuals.residual.value.size, residuals.p_value < 0.001, residuals.guarantee
    ('ok', 20, True, 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options import BinnedResidualsOptions, BinnedResidualsSettings
from spark_jobs.contract.results.pooled import BinnedResiduals
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw, measure_groups
from spark_jobs.diagnostics._score_groups.shared import groups_of_groups
from spark_jobs.diagnostics.binned_residuals.summary import summarise
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.statistics import ScoreCounts

__all__ = ["DIAGNOSTIC", "BinnedResiduals", "GroupsDraw", "measure", "release", "summarise"]


class Call(BinnedResidualsSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=BinnedResidualsOptions,
    call=Call,
    measurement=Measurement[ScoreCounts, GroupsDraw](draw=GroupsDraw, measure=measure_groups),
    summarise=summarise,
    read_shared=groups_of_groups,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
