# Written by `python -m tests.support.operator_source` from spark_jobs.contract.options.score_figures; do not edit.
"""The operators of the kinds in ``spark_jobs.contract.options.score_figures``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from dp_operators.operators.diagnostics.arguments import ReleaseArguments
from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later


class AucOperator(DiagnosticOperator):
    """Releases one ``auc``: area under the ROC curve.

    Args:
        method: how noise is scaled; see ``spark_jobs.diagnostics.auc``. ``laplace`` spends delta.
        interval: whether to spend a small part of the budget on noisy class sizes, which the interval needs; ``auto``
            always does.
        confidence: nominal level of the interval.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "auc"

    def __init__(
        self,
        *,
        method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] | Later = "auto",
        interval: bool | Later = True,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "method": method,
            "interval": interval,
            "confidence": confidence,
        }
        super().__init__(_options=options, **release)


class AveragePrecisionOperator(DiagnosticOperator):
    """Releases one ``average_precision``: average precision, the area under the precision-recall curve, by steps.

    Args:
        method: how noise is scaled; see ``spark_jobs.diagnostics.average_precision``. ``laplace`` spends delta;
            ``weighted_counts`` releases counts, and one sum over all rows with weights that these counts determine.
        interval: for a direct release: whether to spend a small part of the budget on noisy class sizes, which the
            interval needs.
        confidence: nominal level of the interval.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "average_precision"

    def __init__(
        self,
        *,
        method: Literal["auto", "polynomial", "cauchy", "laplace", "counts", "weighted_counts"] | Later = "auto",
        interval: bool | Later = True,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "method": method,
            "interval": interval,
            "confidence": confidence,
        }
        super().__init__(_options=options, **release)


class BinormalRocOperator(DiagnosticOperator):
    """Releases one ``binormal_roc``: symmetric binormal ROC curve through a private AUC.

    Args:
        method: the method of the AUC, as in ``AucSettings``.
        points: the number of points of the curve.
        confidence: nominal level of the band.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "binormal_roc"

    def __init__(
        self,
        *,
        method: Literal["auto", "polynomial", "cauchy", "laplace", "counts"] | Later = "auto",
        points: int | Later = 201,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "method": method,
            "points": points,
            "confidence": confidence,
        }
        super().__init__(_options=options, **release)


class ConfusionMatrixOperator(DiagnosticOperator):
    """Releases one ``confusion_matrix``: confusion matrices at given thresholds, with the rates that follow from them.

    Args:
        thresholds: a row counts as positive if its score is at least this; from 0 to 1, ascending.
        confidence: nominal level of the intervals.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "confusion_matrix"

    def __init__(
        self,
        *,
        thresholds: Sequence[float] | Later = (0.5,),
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "thresholds": thresholds,
            "confidence": confidence,
        }
        super().__init__(_options=options, **release)


class RankingFiguresOperator(DiagnosticOperator):
    """Releases one ``ranking_figures``: precision-recall curve, gains and lift, KS, Gini, and the threshold of least
    cost.

    Args:
        depths: fractions of all rows, those with the highest scores first, for gains and lift; above 0, at most 1,
            ascending.
        points: the number of recalls at which the precision is given: the middles of as many equal parts of [0, 1].
        false_positive_cost: the cost of a negative row that is predicted positive.
        false_negative_cost: the cost of a positive row that is predicted negative.
        confidence: nominal level of intervals and bands.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "ranking_figures"

    def __init__(
        self,
        *,
        depths: Sequence[float] | Later = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        points: int | Later = 50,
        false_positive_cost: float | Later = 1.0,
        false_negative_cost: float | Later = 1.0,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "depths": depths,
            "points": points,
            "false_positive_cost": false_positive_cost,
            "false_negative_cost": false_negative_cost,
            "confidence": confidence,
        }
        super().__init__(_options=options, **release)


class RecalibrationOperator(DiagnosticOperator):
    """Releases one ``recalibration``: brier score, log loss, calibration slope and intercept, and a map that
    recalibrates scores.

    Args:
        clip: scores are clipped to [clip, 1 - clip] for the log loss, which would otherwise be unbounded, and where
            their log-odds count: in the slope, the intercept and the map.
        confidence: nominal level of intervals and bands.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "recalibration"

    def __init__(
        self,
        *,
        clip: float | Later = 0.001,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "clip": clip,
            "confidence": confidence,
        }
        super().__init__(_options=options, **release)
