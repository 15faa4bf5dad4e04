"""The summary of a draw as a model in the user's units; deterministic post-processing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figures import DEFINED_ABOVE, OK, SHRUNK, UNDEFINED
from spark_jobs.diagnostics._fits.intervals import spreads
from spark_jobs.diagnostics._fits.measurement import FitDraw
from spark_jobs.diagnostics._fits.result import PrivateFit
from spark_jobs.diagnostics._fits.solving import Solution, solve
from spark_jobs.diagnostics.undefined import publishable

DIGITS = 10
BASIS = "differentially_private"
Line = Callable[[Solution], tuple[FloatArray, FloatArray]]
"""Maps solutions to intercept and slopes of the linear predictor on features in [-1, 1]; shapes (...) and (..., p)."""


def summarise_fit(
    draw: FitDraw, *, kind: str, line: Line, fit: Callable[[Solution], dict[str, float]], seed: int
) -> PrivateFit:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        kind: ``linear`` or ``logistic``.
        line: computes the linear predictor, in units of the outcome.
        fit: computes figures of the fit, by name.
        seed: public seed of the simulations behind intervals.
    """
    products = draw.products
    solution = solve(products.matrix, stddev=products.stddev, step=1 / products.layout.steps)

    def finish(solution: Solution) -> FloatArray:
        intercept, slopes = line(solution)
        return _in_units(draw, intercept, slopes)

    coefficients = _significant(finish(solution))
    noisy, sampled = spreads(products, solution, finish=finish, confidence=draw.confidence, seed=seed)
    rows = float(products.matrix[0, 0])
    status = _status(rows, draw, solution)
    released = PrivateFit(
        kind=kind,
        terms=terms_of(draw),
        coefficients=coefficients,
        lower=np.minimum(_significant(noisy[0]), coefficients),
        upper=np.maximum(_significant(noisy[1]), coefficients),
        lower_population=np.minimum(_significant(np.minimum(sampled[0], noisy[0])), coefficients),
        upper_population=np.maximum(_significant(np.maximum(sampled[1], noisy[1])), coefficients),
        spans=np.array([1.0, *(2 * feature.half for feature in draw.features), *_ones(draw)]),
        ridge=_digits(float(solution.ridge)),
        rows=_digits(max(rows, 0.0)),
        fit={name: _digits(value) for name, value in fit(solution).items()},
        model=_model(draw, kind, coefficients),
        status=status,
        method=products.method,
        confidence=draw.confidence,
        epsilon=draw.epsilon,
        delta=draw.delta,
        neighbours=draw.neighbours,
        guarantee=draw.guarantee,
    )
    if status == UNDEFINED:
        released = replace(released, fit=dict.fromkeys(released.fit, math.nan))
    return publishable(f"{kind}_fit", released)


def terms_of(draw: FitDraw) -> tuple[str, ...]:
    """The names of the terms, the intercept first."""
    names = (f"{levels.column} = {level}" for levels in draw.categorical for level in levels.coded_levels)
    return ("intercept", *(feature.name for feature in draw.features), *names)


def _ones(draw: FitDraw) -> list[float]:
    return [1.0 for levels in draw.categorical for _ in levels.coded_levels]


def _in_units(draw: FitDraw, intercept: FloatArray, slopes: FloatArray) -> FloatArray:
    """Coefficients for columns in their own units: intercept, then slopes; shape (..., p + 1)."""
    features = draw.features
    halves = np.array([*(feature.half for feature in features), *_ones(draw)])
    middles = np.array([*(feature.middle for feature in features), *(0.0 for _ in _ones(draw))])
    own = slopes / halves
    start = intercept - (own * middles).sum(axis=-1)
    return np.concatenate([np.asarray(start)[..., None], own], axis=-1)


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


def _status(rows: float, draw: FitDraw, solution: Solution) -> str:
    if rows < max(1.0, DEFINED_ABOVE * draw.products.stddev):
        return UNDEFINED
    return SHRUNK if solution.ridge > 0 else OK


def _digits(value: float) -> float:
    return float(f"{value:.{DIGITS}g}") + 0.0


def _significant(values: FloatArray) -> FloatArray:
    return np.array([_digits(value) for value in values.tolist()])
