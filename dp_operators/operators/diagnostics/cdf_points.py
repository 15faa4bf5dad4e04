# Written by `python -m tests.support.operator_source` from spark_jobs.contract.options.cdf_points; do not edit.
"""The operators of the kinds in ``spark_jobs.contract.options.cdf_points``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from dp_operators.operators.diagnostics.arguments import ReleaseArguments
from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later


class CdfPointsOperator(DiagnosticOperator):
    """Releases one ``cdf_points``: distribution function at chosen thresholds, and quantiles by search, of a column or
    of the model's scores.

    Args:
        column: a column of numbers; None for the scores.
        bounds: public bounds of the column's values. None: an ``ecdf`` finds bounds privately, with a part of the
            budget; a ``quantile`` is found on a very wide grid, at no cost; ``cdf_points`` needs them.
        scale: ``linear``, or ``log`` for amounts over several orders of magnitude.
        value_unit: the smallest size that matters, for ``log`` and without bounds.
        cells: the number of cells of the grid, a power of two.
        step: the distance of neighbouring values, where values are a whole number of steps from the lower bound, such
            as 1 for whole numbers and 0.01 for cents: cells are then the values themselves.
        thresholds: values up to which rows are counted, ascending; rows at a threshold count, and so do those in the
            rest of its cell.
        quantiles: levels whose quantiles are found by bisection, in [0, 1]; each takes as many evaluations as the
            number of cells has bits.
        more_evaluations: evaluations that are paid for beside these. Whoever takes part in a federation can ask for
            them later, at points that nobody has to know before.
        silo_rows: in a federation, the number of keys that each silo sends, which is public: rows beyond it, those of
            the largest values, are not counted.
        confidence: nominal level of intervals.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "cdf_points"

    def __init__(
        self,
        *,
        column: str | Later | None = None,
        bounds: Sequence[float] | Later | None = None,
        scale: Literal["linear", "log"] | Later = "linear",
        value_unit: float | Later | None = None,
        cells: Literal[256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144] | Later = 32768,
        step: float | Later | None = None,
        thresholds: Sequence[float] | Later = (),
        quantiles: Sequence[float] | Later = (0.5,),
        more_evaluations: int | Later = 0,
        silo_rows: int | Later = 65536,
        confidence: float | Later = 0.9,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "column": column,
            "bounds": bounds,
            "scale": scale,
            "unit": value_unit,
            "cells": cells,
            "step": step,
            "thresholds": thresholds,
            "quantiles": quantiles,
            "more_evaluations": more_evaluations,
            "silo_rows": silo_rows,
            "confidence": confidence,
        }
        super().__init__(_options=options, **release)
