# Written by `python -m tests.support.operator_source` from spark_jobs.contract.options.scores; do not edit.
"""The operators of the kinds in ``spark_jobs.contract.options.scores``."""

from __future__ import annotations

from typing import Literal, Unpack

from dp_operators.operators.diagnostics.arguments import ReleaseArguments
from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later


class RocCurveOperator(DiagnosticOperator):
    """Releases one ``roc_curve``: ROC curve with AUC and bands.

    Args:
        method: how the counted cells are chosen; see ``spark_jobs.diagnostics.roc_curve``. ``recursive_medians`` spends
            delta.
        thresholds: the number of cells of [0, 1] on which the curve is released; None lets the method choose it from
            public facts.
        confidence: nominal level of the band and of the AUC's interval.
        histogram: the mechanism that releases the counts of ``fixed_cells`` and ``recursive_medians``, a name of
            ``spark_jobs.mechanisms.histograms``; None for a tree of counts, whose noise has a known distribution.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "roc_curve"

    def __init__(
        self,
        *,
        method: Literal["auto", "tree", "fixed_cells", "equi_depth", "recursive_medians"] | Later = "auto",
        thresholds: int | Later | None = None,
        confidence: float | Later = 0.9,
        histogram: Literal[
            "adaptive_grid", "ahp", "dawa", "geometric", "greedy_h", "hb", "laplace", "mwem", "shrunken_tree", "uniform"
        ]
        | Later
        | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "method": method,
            "thresholds": thresholds,
            "confidence": confidence,
            "histogram": histogram,
        }
        super().__init__(_options=options, **release)


class BinnedResidualsOperator(DiagnosticOperator):
    """Releases one ``binned_residuals``: binned residuals with error bars and a test of fit.

    Args:
        method: how the bins are chosen; see the diagnostic's package. Only ``auto`` can share a measurement.
        bins: the number of bins; None for the diagnostic's default. Recursive medians need a power of two.
        confidence: nominal level of intervals and zones.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "binned_residuals"

    def __init__(
        self,
        *,
        method: Literal["auto", "recursive_medians", "fixed_bins"] | Later = "auto",
        bins: int | Later | None = None,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "method": method,
            "bins": bins,
            "confidence": confidence,
        }
        super().__init__(_options=options, **release)


class CalibrationOperator(DiagnosticOperator):
    """Releases one ``calibration``: reliability diagram with the Hosmer-Lemeshow test and the expected calibration
    error.

    Args:
        method: how the bins are chosen; see the diagnostic's package. Only ``auto`` can share a measurement.
        bins: the number of bins; None for the diagnostic's default. Recursive medians need a power of two.
        confidence: nominal level of intervals and zones.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "calibration"

    def __init__(
        self,
        *,
        method: Literal["auto", "recursive_medians", "fixed_bins"] | Later = "auto",
        bins: int | Later | None = None,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "method": method,
            "bins": bins,
            "confidence": confidence,
        }
        super().__init__(_options=options, **release)
