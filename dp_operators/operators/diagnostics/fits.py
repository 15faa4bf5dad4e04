# Written by `python -m tests.support.operator_source` from spark_jobs.contract.options.fits; do not edit.
"""The operators of the kinds in ``spark_jobs.contract.options.fits``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Unpack

from dp_operators.operators.diagnostics.arguments import ReleaseArguments
from dp_operators.operators.diagnostics.base import DiagnosticOperator, Later


class LinearFitOperator(DiagnosticOperator):
    """Releases one ``linear_fit``: linear model of several features, fitted by noisy sums.

    Args:
        method: the noise of the sums: ``k_norm`` (drawn together), ``laplace``, ``gaussian`` (spends delta), or
            ``auto`` for the least noise that the budget allows, chosen by public facts alone.
        confidence: nominal level of the intervals.
        features: columns or expressions of the allow-list, with public bounds: ``{"age": [18, 80]}``.
        categorical: columns with their public levels, the reference first: ``{"region": ["north", "south"]}``.
        outcome: the number that the model predicts, a column or an expression of the allow-list.
        outcome_bounds: its public bounds; values beyond a bound are clipped to it.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "linear_fit"

    def __init__(
        self,
        *,
        outcome: str | Later,
        method: Literal["auto", "k_norm", "laplace", "gaussian"] | Later = "auto",
        confidence: float | Later = 0.9,
        features: Mapping[str, Sequence[float]] | Later | None = None,
        categorical: Mapping[str, Sequence[bool | int | str]] | Later | None = None,
        outcome_bounds: Sequence[float] | Later | None = None,
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "method": method,
            "confidence": confidence,
            "features": features,
            "categorical": categorical,
            "outcome": outcome,
            "outcome_bounds": outcome_bounds,
        }
        super().__init__(_options=options, **release)


class LogisticFitOperator(DiagnosticOperator):
    """Releases one ``logistic_fit``: logistic model of the request's label, fitted by noisy sums.

    Args:
        method: the noise of the sums: ``k_norm`` (drawn together), ``laplace``, ``gaussian`` (spends delta), or
            ``auto`` for the least noise that the budget allows, chosen by public facts alone.
        confidence: nominal level of the intervals.
        features: columns or expressions of the allow-list, with public bounds: ``{"age": [18, 80]}``.
        categorical: columns with their public levels, the reference first: ``{"region": ["north", "south"]}``.
        radius: where the Newton passes start: at the maximum of a polynomial that approximates the logistic log
            likelihood for linear predictors up to this size. It matters for the result only where the noise leaves
            nothing to pay for passes.
        intercept: of the start. ``matched`` moves it so that the mean probability is the noisy share of positive rows;
            ``polynomial`` leaves it as the polynomial gives it.
        release: every parameter of ``ReleaseDiagnosticsOperator`` except ``diagnostics`` and ``request``.
    """

    kind = "logistic_fit"

    def __init__(
        self,
        *,
        method: Literal["auto", "k_norm", "laplace", "gaussian"] | Later = "auto",
        confidence: float | Later = 0.9,
        features: Mapping[str, Sequence[float]] | Later | None = None,
        categorical: Mapping[str, Sequence[bool | int | str]] | Later | None = None,
        radius: float | Later = 4.0,
        intercept: Literal["matched", "polynomial"] | Later = "matched",
        **release: Unpack[ReleaseArguments],
    ) -> None:
        options = {
            "method": method,
            "confidence": confidence,
            "features": features,
            "categorical": categorical,
            "radius": radius,
            "intercept": intercept,
        }
        super().__init__(_options=options, **release)
