"""Private confusion matrices at given thresholds, with accuracy, precision, recall, specificity and F1.

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise). The rows of each class are counted between the thresholds, in disjoint cells; counts and rates at the
thresholds follow by post-processing. See ``measurement.measure_counts``.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> statistic = ScoreCounts.from_arrays([0, 1] * 5000, [0.2, 0.7] * 5000)
    >>> result = release(statistic, epsilon=1, noise=SeededNoise(1), thresholds=(0.1, 0.5))
    >>> result.precision.value.round(2).tolist(), result.recall.value.round(2).tolist()
    ([0.5, 1.0], [1.0, 1.0])
"""

from __future__ import annotations

from spark_jobs.contract.options import ConfusionMatrixOptions, ConfusionMatrixSettings
from spark_jobs.contract.results.score_figures import ConfusionMatrix
from spark_jobs.diagnostics.confusion_matrix.influences import influences
from spark_jobs.diagnostics.confusion_matrix.measurement import ConfusionDraw, measure_counts
from spark_jobs.diagnostics.confusion_matrix.shared import confusion_of_groups
from spark_jobs.diagnostics.confusion_matrix.summary import summarise
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.statistics import ScoreCounts

__all__ = ["DIAGNOSTIC", "ConfusionDraw", "ConfusionMatrix", "measure", "release", "summarise"]


class Call(ConfusionMatrixSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=ConfusionMatrixOptions,
    call=Call,
    measurement=Measurement[ScoreCounts, ConfusionDraw](draw=ConfusionDraw, measure=measure_counts),
    summarise=summarise,
    read_shared=confusion_of_groups,
    influences=influences,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
