# Written by `python -m tests.support.operator_source` from spark_jobs.contract.options.aggregates; do not edit.
"""The operators of the kinds in ``spark_jobs.contract.options.aggregates``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from dp_operators.operators.diagnostics.arguments import ReleaseArguments
from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later


class AggregatesOperator(DiagnosticOperator):
    """Releases one ``aggregates``: counts, sums and means by up to four public dimensions, with intervals that hold for
    groups of any size.

    Args:
        marginals: tables by fewer of the dimensions that are measured too; an empty list stands for the total. Each
            table gets an equal share of the budget, and all are made to agree. Without any, the cells get all of it.
        confidence: nominal level of intervals.
        by: the dimensions: columns with a domain, or with their values, edges of bins or calendar periods. The cells of
            the table are all their combinations; without any, there is one cell of all rows.
        measures: the numbers whose means and sums are released: columns with a domain, or columns and expressions with
            their bounds. Rows are counted in any case; a row without a value of one of the measures is counted apart.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "aggregates"

    def __init__(
        self,
        *,
        marginals: Sequence[Sequence[str]] | Later = (),
        confidence: float | Later = 0.9,
        by: str | Sequence[str | Mapping[str, Any]] | Later = (),
        measures: str | Sequence[str | Mapping[str, Any]] | Later = (),
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "marginals": marginals,
            "confidence": confidence,
            "by": by,
            "measures": measures,
        }
        super().__init__(_options=options, **release)
