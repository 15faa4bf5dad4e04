# Written by `python -m tests.support.operator_source` from spark_jobs.contract.options.comparisons; do not edit.
"""The operators of the kinds in ``spark_jobs.contract.options.comparisons``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from dp_operators.operators.diagnostics.arguments import ReleaseArguments
from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later


class RocComparisonOperator(DiagnosticOperator):
    """Releases one ``roc_comparison``: the ROC curves of two models, the difference of their AUCs with intervals, and a
    test of whether it is 0.

    Args:
        names: what the report calls the two models, the request's first; None for "first model" and "second model", or
            "earlier release".
        compare_with: the ROC curve of an earlier release, with which the model's curve is compared instead of a second
            model's. A request names the release, ``{"release": URI}``; ``dp_operators.releasing`` fills in the curve
            itself from the committed manifest.
        confidence: nominal level of bands and intervals.
        other: the second model, on the same rows, which cannot be a saved pipeline; the first one is the request's.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "roc_comparison"

    def __init__(
        self,
        *,
        names: Sequence[str] | Later | None = None,
        compare_with: str | Mapping[str, Any] | Later | None = None,
        confidence: float | Later = 0.9,
        other: Mapping[str, Any] | Later | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "names": names,
            "compare_with": compare_with,
            "confidence": confidence,
            "other": other,
        }
        super().__init__(_options=options, **release)
