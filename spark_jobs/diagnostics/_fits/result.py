"""Released models."""

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
    """A model that was fitted privately, with intervals; arrays have one value for each term, the intercept first.

    Attributes:
        kind: ``linear`` or ``logistic``.
        terms: ``intercept``, features, and ``column = level`` for each level but the reference.
        coefficients: in the units of the columns; of a linear model, of the outcome.
        lower, upper: ends of intervals, at level ``confidence``, for what the same rows would give without noise, and
            with the same ridge: they measure the noise.
        lower_population, upper_population: ends of intervals that measure the noise and the sampling of the rows.
        spans: how far each term can move, by its public bounds: the upper less the lower; 1 for the intercept and for
            a level.
        ridge: how far slopes were pulled towards 0, in rows; 0 where the noise is small enough for a plain fit.
        rows: noisy number of rows, at least 0.
        fit: of a linear model, ``residual_stddev`` in units of the outcome and ``r_squared``; of a logistic one, the
            share of ``positives``; all from the noisy sums, NaN where the noise hides them.
        model: what a request's ``model`` takes; values are clipped to the bounds of the fit.
        status: ``ok``; ``shrunk`` where there is a ridge; ``undefined`` where the number of rows cannot be told from
            noise, so that coefficients, intervals and figures are NaN and there is no model.
        method: ``laplace`` or ``gaussian`` noise.
        confidence: nominal level.
        epsilon, delta: what the release cost.
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
        """The model's output where every feature is 0 and every level the reference."""
        return float(self.coefficients[0])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        fields = plain_fields(self)
        fit = fields.pop("fit")
        del fields["kind"]
        return {**fields, **{name: None if math.isnan(value) else value for name, value in fit.items()}}
