# Written by `python -m tests.support.operator_source` from spark_jobs.contract.options.residuals; do not edit.
"""The operators of the kinds in ``spark_jobs.contract.options.residuals``."""

from __future__ import annotations

from typing import Literal, Unpack

from dp_operators.operators.diagnostics.arguments import ReleaseArguments
from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later


class ResidualPlotOperator(DiagnosticOperator):
    """Releases one ``residual_plot``: residuals against fitted values, with a trend, a spread, tests of both, and a Q-Q
    view.

    Args:
        method: the mechanism that releases the counts, a name of ``spark_jobs.mechanisms.histograms``; ``auto`` chooses
            by public facts.
        bins: the number of bins of each axis, a power of two; None derives it from the scale of the noise.
        coverage: the fraction of rows that the range of each axis should cover.
        confidence: nominal level of intervals.
        outcome: what the model predicts: a column of numbers or booleans, or an expression.
        value_unit: the smallest size that matters, of fitted values and residuals; public.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "residual_plot"

    def __init__(
        self,
        *,
        outcome: str | Later,
        method: Literal[
            "auto",
            "adaptive_grid",
            "ahp",
            "dawa",
            "geometric",
            "greedy_h",
            "hb",
            "laplace",
            "mwem",
            "shrunken_tree",
            "uniform",
        ]
        | Later = "auto",
        bins: int | Later | None = None,
        coverage: float | Later = 0.95,
        confidence: float | Later = 0.9,
        value_unit: float | Later = 1.0,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "method": method,
            "bins": bins,
            "coverage": coverage,
            "confidence": confidence,
            "outcome": outcome,
            "unit": value_unit,
        }
        super().__init__(_options=options, **release)
