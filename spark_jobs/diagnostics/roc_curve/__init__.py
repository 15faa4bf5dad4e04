"""A private ROC curve with its area, a band and an interval, from counts of both classes on a grid of scores.

Methods:
    auto: few cells, placed where the scores are by a small part of the budget and as many as the noise asks for; a tree
        over the whole grid where rows times epsilon reach 200,000. The default.
    tree: a consistent tree over the whole grid, for each class.
    equi_depth: as many placed cells as the curve has points.
    fixed_cells: as many cells of equal width as the curve has points.
    recursive_medians: cells between recursive medians of the scores (PriROC: Chen 2018, algorithm 11, with the noise
        that its privacy needs). Alone in spending delta: 1e-30 for each median that a row sees.

The last two may leave their counts to a ``histogram`` method (PriROC's own is ``dawa``; on fixed cells: PriROC-fix).
Where that adapts to the rows, the law of its error is not public, and bands and interval are [0, 1].

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). Every step counts disjoint cells, of sensitivity 1 (or 2), or a tree over them; steps compose in sequence,
classes in parallel; what the steps are depends on public facts and earlier releases alone. See
``measurement.measure_curve``, and ``histograms`` for the classes by histogram methods.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> statistic = ScoreCounts.from_arrays([0, 1] * 5000, [0.2, 0.7] * 5000)
    >>> curve = release(statistic, epsilon=1, noise=SeededNoise(1))
    >>> curve.status, round(curve.auc, 1), curve.guarantee
    ('ok', 1.0, 'NOT PRIVATE')
"""

from __future__ import annotations

from spark_jobs.contract.options import RocCurveOptions, RocCurveSettings
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.roc_curve.comparison import CurveDifference, compare
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw, measure_curve
from spark_jobs.diagnostics.roc_curve.result import RocCurve
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
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
