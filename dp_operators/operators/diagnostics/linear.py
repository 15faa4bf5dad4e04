# Written by `python -m tests.support.operator_source` from spark_jobs.contract.options.linear; do not edit.
"""The operators of the kinds in ``spark_jobs.contract.options.linear``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from dp_operators.operators.diagnostics.arguments import ReleaseArguments
from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later


class LinearRegressionOperator(DiagnosticOperator):
    """Releases one ``linear_regression``: a private line through the points of each group.

    Args:
        method: see ``spark_jobs.diagnostics.linear_regression``; methods of zCDP spend delta. Theil-Sen and gradient
            descent need the single points, of which a request may count 2^26 cells; the other methods need sums.
        at: where the line is evaluated, as fractions of the way from the lower bound of x to the upper one.
        size_bound: a public estimate of the rows of a group, by which ``auto`` chooses if sizes are private.
        matchings: for Theil-Sen methods: how many partners each row gets. None stands for all other rows in groups of
            at most 256 rows, and for 10 in larger groups.
        public_sizes: under ``replace_one``: whether each group's size is public, and a row that is replaced stays in
            its group and within the request's filter. This is a weaker guarantee than the relation's, so the request
            must ask for it. What decides which rows are used may then read only declared public columns, and not what x
            or y reads.
        confidence: nominal level of intervals.
        x, y: each a column of numbers or booleans, or an expression.
        x_bounds, y_bounds: public bounds of their values, which are clipped to them.
        group_by: the column that assigns rows to groups.
        groups: public keys of the groups, in the order in which they are released: texts or whole numbers, which are
            compared with the column as text.
        cells: the number of cells of each axis, a power of two.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "linear_regression"

    def __init__(
        self,
        *,
        x: str | Later,
        y: str | Later,
        method: Literal[
            "auto",
            "noisy_moments",
            "noisy_moments_zcdp",
            "noisy_stats",
            "noisy_stats_zcdp",
            "noisy_intercept",
            "dp_exp_theil_sen",
            "dp_wide_theil_sen",
            "dp_ss_theil_sen",
            "dp_grad_descent",
            "dp_grad_descent_zcdp",
        ]
        | Later = "auto",
        at: Sequence[float] | Later = (0.25, 0.75),
        size_bound: int | Later | None = None,
        matchings: int | Later | None = None,
        public_sizes: bool | Later = False,
        confidence: float | Later = 0.9,
        x_bounds: Sequence[float] | Later | None = None,
        y_bounds: Sequence[float] | Later | None = None,
        group_by: str | Later | None = None,
        groups: Sequence[str | int] | Mapping[str, Any] | Later | None = None,
        cells: int | Later = 1024,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "method": method,
            "at": at,
            "size_bound": size_bound,
            "matchings": matchings,
            "public_sizes": public_sizes,
            "confidence": confidence,
            "x": x,
            "y": y,
            "x_bounds": x_bounds,
            "y_bounds": y_bounds,
            "group_by": group_by,
            "groups": groups,
            "cells": cells,
        }
        super().__init__(_options=options, **release)
