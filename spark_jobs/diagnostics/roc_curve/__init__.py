"""Private ROC curve with its area, bands and an interval, from counts of both classes on a grid of scores.

Methods:
    auto: cells of equal depth, placed with a small share of the budget; the noise decides their number. If the size of
        the rarer class times epsilon is at least 300,000, a tree over the whole grid. The default.
    tree: a consistent tree over the whole grid, for each class.
    equi_depth: cells of equal depth, as many as the curve has points.
    fixed_cells: cells of equal width, as many as the curve has points.
    recursive_medians: cells between recursive medians of the scores (PriROC: Chen 2018, algorithm 11, with the noise
        that its privacy needs). The only method that spends delta: 1e-30 for each median that a row takes part in.

``fixed_cells`` and ``recursive_medians`` may count with a ``histogram`` method (PriROC's own is ``dawa``; on fixed
cells: PriROC-fix). If the histogram method adapts to the rows, the distribution of its error is not public, and bands
and interval are [0, 1].

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). Every step counts disjoint cells, with sensitivity 1 (or 2), or a tree over them. Steps compose sequentially,
classes in parallel. The steps depend on public facts and on earlier releases alone. See ``measurement.measure_curve``,
and ``histograms`` for the histogram methods.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> statistic = ScoreCounts.from_arrays([0, 1] * 5000, [0.2, 0.7] * 5000)
    >>> curve = release(statistic, epsilon=1, noise=SeededNoise(1))
    >>> curve.status, round(curve.auc.number, 1), curve.guarantee
    ('ok', 1.0, 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options import RocCurveOptions, RocCurveSettings
from spark_jobs.contract.results.curves import RocCurve
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.roc_curve.comparison import CurveDifference, compare
from spark_jobs.diagnostics.roc_curve.influences import influences
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw, measure_curve
from spark_jobs.diagnostics.roc_curve.shared import curve_of_groups
from spark_jobs.diagnostics.roc_curve.summary import summarise
from spark_jobs.statistics import ScoreCounts

__all__ = ["DIAGNOSTIC", "CurveDifference", "RocCurve", "RocDraw", "compare", "measure", "release", "summarise"]


class Call(RocCurveSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=RocCurveOptions,
    call=Call,
    measurement=Measurement[ScoreCounts, RocDraw](draw=RocDraw, measure=measure_curve),
    summarise=summarise,
    read_shared=curve_of_groups,
    influences=influences,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
