"""The released result of a private fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.undefined import plain_fields


@dataclass(frozen=True, kw_only=True, eq=False)
class PrivateFit:
    """A privately fitted model, with intervals; arrays have one value for each term, the intercept first.

    Attributes:
        kind: ``linear`` or ``logistic``.
        terms: ``intercept``, features, and ``column = level`` for each level except the reference.
        coefficients: change of the linear predictor per unit of each column; for a linear model in units of the
            outcome, for a logistic one in log-odds.
        lower, upper: ends of intervals, at level ``confidence``, for the same rows and ridge without noise.
        lower_population, upper_population: ends of intervals for the noise and the sampling of the rows together; the
            sampling error is that of a model that is right.
        spans: range of each term by its public bounds; 1 for the intercept and for a level.
        ridge: ridge that shrinks the slopes towards 0, in units of the sums that they solve; 0 if the noise is small.
        rows: noisy number of rows, at least 0.
        fit: ``residual_stddev``, in units of the outcome, and ``r_squared`` of a linear model, with the ends of its
            intervals (``linear_fit.R_SQUARED``); the share of ``positives`` of a logistic one. All come from the noisy
            sums, and are NaN if the noise hides them.
        model: the model as the ``model`` of a request; it clips values to the bounds of the fit.
        status: ``ok``; ``shrunk`` if there is a ridge, or if the noise let a logistic fit end before the maximum of the
            likelihood; ``undefined`` if the noisy number of rows is too small for its
            noise; then coefficients, intervals and figures are NaN, and there is no model.
        method: ``k_norm``, ``laplace`` or ``gaussian`` noise.
        confidence: nominal level.
        epsilon, delta: cost of the release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    kind: str
    terms: tuple[str, ...]
    coefficients: FloatArray
    lower: FloatArray
    upper: FloatArray
    lower_population: FloatArray
    upper_population: FloatArray
    spans: FloatArray
    ridge: float
    rows: float
    fit: dict[str, float]
    model: dict[str, Any] | None
    status: str
    method: str
    confidence: float
    epsilon: Decimal
    delta: Decimal
    neighbours: Neighbours
    guarantee: str

    @property
    def intercept(self) -> float:
        """The linear predictor if every feature is 0 and every level is the reference."""
        return float(self.coefficients[0])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        fields = plain_fields(self)
        fit = fields.pop("fit")
        del fields["kind"]
        return {**fields, **{name: None if math.isnan(value) else value for name, value in fit.items()}}
