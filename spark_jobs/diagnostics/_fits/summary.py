"""The summary of a draw as a model in the user's units; deterministic post-processing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.results.fits import PrivateFit
from spark_jobs.diagnostics._fits.measurement import FitDraw

DIGITS = 10
BASIS = "differentially_private"
R = TypeVar("R", bound=PrivateFit)


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A linear predictor on features in [-1, 1], and simulated copies of it; the intercept first.

    Attributes:
        line: the coefficients, in units of the outcome or in log-odds; shape (p + 1,).
        noisy: copies with fresh noise; shape (copies, p + 1).
        sampled: copies with fresh noise and other rows of the population; shape (copies, p + 1).
        moved: how far rounding may have moved coefficients, in the columns' own units; shape (p + 1,).
        rows, ridge, status, method: as in ``PrivateFit``.
    """

    line: FloatArray
    noisy: FloatArray
    sampled: FloatArray
    rows: float
    ridge: float
    status: str
    method: str
    moved: FloatArray | float = 0.0


def released_fit(result_type: type[R], draw: FitDraw, fitted: Fitted, **figures: Any) -> R:
    """The result of a draw, in the user's units, with the figures of its kind.

    Intervals are of the basic bootstrap: the copies deviate from the released coefficients as these deviate from the
    exact ones. Both ends are moved outwards by what rounding may have changed.
    """
    coefficients = _significant(in_units(draw, fitted.line))
    noisy, sampled = (_ends(draw, fitted, copies) for copies in (fitted.noisy, fitted.sampled))
    lower, upper = np.minimum(_significant(noisy[0]), coefficients), np.maximum(_significant(noisy[1]), coefficients)
    low, high = np.minimum(sampled[0], noisy[0]), np.maximum(sampled[1], noisy[1])
    return result_type(
        terms=terms_of(draw),
        coefficients=Figure(
            value=coefficients,
            interval=Ends(lower, upper),
            population=Ends(np.minimum(_significant(low), coefficients), np.maximum(_significant(high), coefficients)),
        ),
        spans=np.array([1.0, *(2 * feature.half for feature in draw.features), *_ones(draw)]),
        ridge=digits(fitted.ridge),
        rows=digits(max(fitted.rows, 0.0)),
        model=_model(draw, result_type.KIND, coefficients),
        status=fitted.status,
        method=fitted.method,
        confidence=draw.confidence,
        delta=draw.delta,
        **draw.stated,
        **figures,
    )


def _ends(draw: FitDraw, fitted: Fitted, copies: FloatArray) -> tuple[FloatArray, FloatArray]:
    centre, tail = in_units(draw, fitted.line), (1 - draw.confidence) / 2
    low, high = np.quantile(in_units(draw, copies) - centre, [tail, 1 - tail], axis=0)
    return np.minimum(centre - high - fitted.moved, centre), np.maximum(centre - low + fitted.moved, centre)


def terms_of(draw: FitDraw) -> tuple[str, ...]:
    """The names of the terms, the intercept first."""
    names = (f"{levels.column} = {level}" for levels in draw.categorical for level in levels.coded_levels)
    return ("intercept", *(feature.name for feature in draw.features), *names)


def _ones(draw: FitDraw) -> list[float]:
    return [1.0 for levels in draw.categorical for _ in levels.coded_levels]


def in_units(draw: FitDraw, line: FloatArray) -> FloatArray:
    """Coefficients converted to the columns' own units; intercept, then slopes; shape (..., p + 1)."""
    coded = [levels.half for levels in draw.categorical for _ in levels.coded_levels]
    halves = np.array([*(feature.half for feature in draw.features), *coded])
    middles = np.array([*(feature.middle for feature in draw.features), *(1.0 - half for half in coded)])
    own = line[..., 1:] / halves
    start = line[..., 0] - (own * middles).sum(axis=-1)
    return np.concatenate([start[..., None], own], axis=-1)


def _model(draw: FitDraw, kind: str, coefficients: FloatArray) -> dict[str, Any]:
    values = iter(coefficients.tolist())
    model: dict[str, Any] = {"kind": kind, "basis": BASIS, "intercept": next(values)}
    model["coefficients"] = {feature.name: next(values) for feature in draw.features}
    if draw.features:
        model["bounds"] = {feature.name: [feature.lower, feature.upper] for feature in draw.features}
    if draw.categorical:
        model["categorical"] = {
            levels.column: {levels.levels[0]: 0.0, **{level: next(values) for level in levels.coded_levels}}
            for levels in draw.categorical
        }
    return model


def digits(value: float) -> float:
    """A number rounded as it is published, to ``DIGITS`` significant digits."""
    return float(f"{value:.{DIGITS}g}") + 0.0


def _significant(values: FloatArray) -> FloatArray:
    return np.array([digits(value) for value in values.tolist()])
