# Written by `python -m tests.support.operator_source` from spark_jobs.contract.options.values; do not edit.
"""The operators of the kinds in ``spark_jobs.contract.options.values``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from dp_operators.operators.diagnostics.arguments import ReleaseArguments
from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later


class EcdfOperator(DiagnosticOperator):
    """Releases one ``ecdf``: distribution function with its inverse, of a column or of the model's scores.

    Args:
        column: a column of numbers; None for the scores.
        bounds: public bounds of the column's values. None: an ``ecdf`` finds bounds privately, with a part of the
            budget; a ``quantile`` is found on a very wide grid, at no cost; ``cdf_points`` needs them.
        scale: ``linear``, or ``log`` for amounts over several orders of magnitude.
        value_unit: the smallest size that matters, for ``log`` and without bounds.
        cells: the number of cells of the grid, a power of two.
        step: the distance of neighbouring values, where values are a whole number of steps from the lower bound, such
            as 1 for whole numbers and 0.01 for cents: cells are then the values themselves.
        points: the number of rows of the released summary; the data file has every cell.
        smoothing: the norm in which noisy fractions are made monotone.
        confidence: nominal level of bands and intervals.
        quantiles: levels whose quantiles are reported, in [0, 1].
        reference: a distribution with which the values are compared, by the Kolmogorov-Smirnov distance.
        compare_with: the distribution function of an earlier release on the same grid, with which the values are
            compared in the same way. A request names the release, ``{"release": URI}``; ``dp_operators.releasing``
            fills in the function itself from the committed manifest.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "ecdf"

    def __init__(
        self,
        *,
        column: str | Later | None = None,
        bounds: Sequence[float] | Later | None = None,
        scale: Literal["linear", "log"] | Later = "linear",
        value_unit: float | Later | None = None,
        cells: Literal[256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144] | Later = 32768,
        step: float | Later | None = None,
        points: int | Later = 512,
        smoothing: Literal["2-norm", "1-norm"] | Later = "2-norm",
        confidence: float | Later = 0.9,
        quantiles: Sequence[float] | Later = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95),
        reference: Mapping[str, Any] | Later | None = None,
        compare_with: str | Mapping[str, Any] | Later | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "column": column,
            "bounds": bounds,
            "scale": scale,
            "unit": value_unit,
            "cells": cells,
            "step": step,
            "points": points,
            "smoothing": smoothing,
            "confidence": confidence,
            "quantiles": quantiles,
            "reference": reference,
            "compare_with": compare_with,
        }
        super().__init__(_options=options, **release)


class QuantileOperator(DiagnosticOperator):
    """Releases one ``quantile``: one quantile of a column or of the model's scores, far more accurate than one read off
    a whole function.

    Args:
        column: a column of numbers; None for the scores.
        bounds: public bounds of the column's values. None: an ``ecdf`` finds bounds privately, with a part of the
            budget; a ``quantile`` is found on a very wide grid, at no cost; ``cdf_points`` needs them.
        scale: ``linear``, or ``log`` for amounts over several orders of magnitude.
        value_unit: the smallest size that matters, for ``log`` and without bounds.
        cells: the number of cells of the grid, a power of two.
        step: the distance of neighbouring values, where values are a whole number of steps from the lower bound, such
            as 1 for whole numbers and 0.01 for cents: cells are then the values themselves.
        level: the share of the rows that do not exceed it, with at most six decimals; 0.5 for the median.
        interval: whether half of the budget pays for an interval; without one, all of it is for the value.
        confidence: nominal level of the interval.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "quantile"

    def __init__(
        self,
        *,
        column: str | Later | None = None,
        bounds: Sequence[float] | Later | None = None,
        scale: Literal["linear", "log"] | Later = "linear",
        value_unit: float | Later | None = None,
        cells: Literal[256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144] | Later = 32768,
        step: float | Later | None = None,
        level: float | Later = 0.5,
        interval: bool | Later = True,
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
            "level": level,
            "interval": interval,
            "confidence": confidence,
        }
        super().__init__(_options=options, **release)
