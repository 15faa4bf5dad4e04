# Written by `python -m tests.support.operator_source` from spark_jobs.contract.options.by_group; do not edit.
"""The operators of the kinds in ``spark_jobs.contract.options.by_group``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from dp_operators.operators.diagnostics.arguments import ReleaseArguments
from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later


class ByGroupOperator(DiagnosticOperator):
    """Releases one ``by_group``: what scores say of each group of a public list, at the cost of one release, and
    whether the groups are equal.

    Args:
        kinds: the diagnostics of scores that each group gets: kinds, or kinds with their options. All of them are read
            from one noisy release of the group.
        confidence: nominal level of the intervals by which groups are compared.
        group_by: the column that assigns rows to groups.
        groups: public keys of the groups, in the order in which they are released: texts or whole numbers, which are
            compared with the column as text. All other rows form the group ``other``.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "by_group"

    def __init__(
        self,
        *,
        kinds: str | Sequence[str | Mapping[str, Any]] | Later,
        group_by: str | Later,
        confidence: float | Later = 0.9,
        groups: Sequence[str | int] | Mapping[str, Any] | Later | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "kinds": kinds,
            "confidence": confidence,
            "group_by": group_by,
            "groups": groups,
        }
        super().__init__(_options=options, **release)
