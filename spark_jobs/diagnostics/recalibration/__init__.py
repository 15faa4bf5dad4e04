"""Scores as probabilities: Brier score, log loss, calibration slope and intercept, and a map that recalibrates scores.

All of them are computed from noisy counts and sums of scores in groups, so they cost nothing in a request whose
diagnostics share these counts and sums. Groups are at most 0.7 wide in log-odds: the figures depend on where the scores
lie inside a group, and their intervals allow for this (``inside_groups``).

Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``, with twice the
noise); see ``_shared_groups``. The rest is post-processing, the map included.

Example:
    >>> from spark_jobs.mechanisms.noise import SeededNoise
    >>> statistic = ScoreCounts.from_arrays([0, 0, 0, 1] * 5000 + [1, 1, 1, 0] * 5000, [0.1] * 20000 + [0.9] * 20000)
    >>> result = release(statistic, epsilon=1, noise=SeededNoise(1))
    >>> round(result.slope.number, 1), round(result.brier.number, 2), result.map["clip"]
    (0.5, 0.21, 0.001)
"""

from __future__ import annotations

from spark_jobs.contract.options import RecalibrationOptions, RecalibrationSettings
from spark_jobs.contract.results.score_figures import Recalibration
from spark_jobs.diagnostics.diagnostic import Diagnostic, Measurement, Terms
from spark_jobs.diagnostics.recalibration.measurement import (
    RecalibrationDraw,
    measure_recalibration,
    recalibration_of_groups,
)
from spark_jobs.diagnostics.recalibration.summary import summarise
from spark_jobs.statistics import ScoreCounts

__all__ = ["DIAGNOSTIC", "Recalibration", "RecalibrationDraw", "measure", "release", "summarise"]


class Call(RecalibrationSettings, Terms):
    """The arguments of ``release``."""


DIAGNOSTIC = Diagnostic(
    options=RecalibrationOptions,
    call=Call,
    measurement=Measurement[ScoreCounts, RecalibrationDraw](draw=RecalibrationDraw, measure=measure_recalibration),
    summarise=summarise,
    read_shared=recalibration_of_groups,
)
measure, release = DIAGNOSTIC.measure, DIAGNOSTIC.release
