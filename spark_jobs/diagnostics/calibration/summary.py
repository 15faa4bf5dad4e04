"""The summary of a draw as a released calibration; deterministic post-processing."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Figure, Number
from spark_jobs.contract.results.pooled import Calibration
from spark_jobs.diagnostics._populations import RatioNoise, population_interval
from spark_jobs.diagnostics._score_groups.excesses import (
    MIN_VARIANCE,
    Excesses,
    mean_distance,
    statistic_interval,
)
from spark_jobs.diagnostics._score_groups.fields import binned, rounded_figure, rounded_number, shared_fields
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw
from spark_jobs.diagnostics._score_groups.pools import Pools, Triples, p_value, pools
from spark_jobs.diagnostics._simulation import central_range, possible_interval, solved_interval
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling

EXPECTED = 5.0
"""Smallest expected number of rows of either class in a pool. With fewer, the smallest denominator dominates the
chi-squared sum (Hosmer, Lemeshow, Sturdivant 2013, section 5.2)."""
FEWEST_EXPECTED = 1.0
"""Rows of either class that each pool expects for sure, if the statistic is defined. A sum of ``S^2 / V`` says nothing
if a ``V`` may be all noise."""

_NOTHING: dict[str, Any] = {
    "statistic": Figure(value=None),
    "ece": Figure(value=None),
    "ece_calibrated": None,
    "p_value": None,
}


def summarise(draw: GroupsDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> Calibration:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind intervals and the p-value.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    pooled = pools(draw, seed=seed, expected=EXPECTED, effect=sampling.effect().value)
    released, predicted = pooled.released, pooled.released.predicted
    if pooled.defined:
        observed = released.observed
        interval = solved_interval(released.share, pooled.possible_copies().share, draw.confidence)
        lower, upper = possible_interval(interval, observed, 0.0, 1.0)
        lowest, highest = population_interval(
            observed,
            released.rows,
            RatioNoise.of_copies(pooled.errors[:, 0], pooled.errors[:, :2].sum(axis=1)),
            confidence=draw.confidence,
            effect=pooled.effect,
        )
        zone = central_range(pooled.null_copies().mean_excess, draw.confidence)
        zone_lower, zone_upper = (np.clip(predicted + end, 0.0, 1.0) for end in zone)
        figures = _figures(pooled, draw.confidence)
    else:  # placeholders, which the result withholds
        observed = lower = upper = lowest = highest = zone_lower = zone_upper = predicted
        figures = {}
    return Calibration(
        **shared_fields(draw, pooled, zone=(zone_lower, zone_upper)),
        observed=binned(pooled, observed, (lower, upper), (lowest, highest)),
        degrees=predicted.size,
        **{**_NOTHING, **figures},
    )


def _figures(pooled: Pools, confidence: float) -> dict[str, Any]:
    excesses = Excesses.of_pools(pooled)
    statistic = _statistic(pooled, excesses, confidence)
    distance, calibrated = mean_distance(pooled, excesses, confidence)
    return {
        "statistic": statistic,
        "ece": rounded_figure(distance),
        "ece_calibrated": rounded_number(calibrated),
        "p_value": rounded_number(calibration_test(pooled)),
    }


def _statistic(pooled: Pools, excesses: Excesses, confidence: float) -> Number:
    """The Hosmer-Lemeshow statistic with its interval; undefined if the noise hides that each pool expects a row."""
    possible = pooled.possible_copies()
    expected = possible.rows * np.minimum(possible.predicted, 1.0 - possible.predicted)
    if (np.quantile(expected, (1 - confidence) / 2, axis=0) < FEWEST_EXPECTED).any():
        return Figure(value=None)
    statistic = float(hosmer_lemeshow(pooled.released, pooled.noise_variance))
    low, high = statistic_interval(excesses, statistic, confidence)
    ends = Ends(min(low, max(statistic, 0.0)), max(high, statistic, 0.0))
    return rounded_figure(Figure(value=max(statistic, 0.0), interval=ends))


def calibration_test(pooled: Pools) -> float:
    """The p-value of perfect calibration, by simulation of labels and noise."""
    noise = pooled.noise_variance
    return p_value(float(_standardised(pooled.released, noise)), _standardised(pooled.null_copies(), noise))


def hosmer_lemeshow(released: Triples, noise_variance: FloatArray) -> FloatArray:
    """``sum (O1 - E1)^2 / E1 + (O0 - E0)^2 / E0``, less the mean contribution of the noise.

    Both terms of a pool have the numerator ``excess^2``, and ``1 / E1 + 1 / E0 = rows / (E1 E0) = 1 / variance``.
    """
    statistic: FloatArray = ((released.excess**2 - noise_variance) / np.maximum(released.variance, MIN_VARIANCE)).sum(
        axis=-1
    )
    return statistic


def _standardised(released: Triples, noise_variance: FloatArray) -> FloatArray:
    """The statistic of the test: squared excesses over their variances for a calibrated model, noise included."""
    variance = np.maximum(released.variance + noise_variance, MIN_VARIANCE)
    statistic: FloatArray = (released.excess**2 / variance).sum(axis=-1)
    return statistic
