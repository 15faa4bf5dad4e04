"""The summary of a draw as a released calibration; deterministic post-processing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._populations import RatioNoise, population_interval, privacy_share
from spark_jobs.diagnostics._score_groups.excesses import (
    MIN_VARIANCE,
    Excesses,
    MeanDistance,
    mean_distance,
    statistic_interval,
)
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw
from spark_jobs.diagnostics._score_groups.pools import Pools, Triples, p_value, pools
from spark_jobs.diagnostics._score_groups.result import rounded_ends, rounded_number, shared_fields
from spark_jobs.diagnostics._simulation import central_range, possible_interval, solved_interval
from spark_jobs.diagnostics.calibration.result import Calibration
from spark_jobs.diagnostics.undefined import publishable

EXPECTED = 5.0
"""Smallest expected number of rows of either class in a pool. With fewer, the smallest denominator dominates the
chi-squared sum (Hosmer, Lemeshow, Sturdivant 2013, section 5.2)."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The numbers of a calibration, with their intervals."""

    statistic: float = 0.0
    statistic_interval: tuple[float, float] = (0.0, 0.0)
    p_value: float = 1.0
    error: MeanDistance = field(default_factory=MeanDistance)


def summarise(draw: GroupsDraw, *, seed: int) -> Calibration:
    """The result of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind intervals and the p-value.
    """
    pooled = pools(draw, seed=seed, expected=EXPECTED)
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
        )
        zone = central_range(pooled.null_copies().mean_excess, draw.confidence)
        zone_lower, zone_upper = (np.clip(predicted + end, 0.0, 1.0) for end in zone)
        figures = _figures(pooled, draw.confidence)
    else:  # placeholders, which ``publishable`` replaces by NaN and None
        observed = lower = upper = lowest = highest = zone_lower = zone_upper = predicted
        figures = Figures()
    result = Calibration(
        **shared_fields(draw, pooled, zone=(zone_lower, zone_upper)),
        observed=pooled.of_bins(observed),
        observed_lower=pooled.of_bins(lower),
        observed_upper=pooled.of_bins(upper),
        observed_population_lower=pooled.of_bins(lowest),
        observed_population_upper=pooled.of_bins(highest),
        observed_privacy_share=pooled.of_bins(privacy_share((lower, upper), (lowest, highest))),
        statistic=rounded_number(figures.statistic),
        statistic_interval=rounded_ends(figures.statistic_interval),
        degrees=predicted.size,
        p_value=rounded_number(figures.p_value),
        ece=rounded_number(figures.error.value),
        ece_interval=rounded_ends(figures.error.interval),
        ece_population_interval=rounded_ends(figures.error.population_interval),
        ece_privacy_share=rounded_number(figures.error.privacy_share),
        ece_calibrated=rounded_number(figures.error.calibrated),
    )
    return publishable("calibration", result)


def _figures(pooled: Pools, confidence: float) -> Figures:
    excesses = Excesses.of_pools(pooled)
    statistic = float(hosmer_lemeshow(pooled.released, pooled.noise_variance))
    low, high = statistic_interval(excesses, statistic, confidence)
    return Figures(
        statistic=max(statistic, 0.0),
        statistic_interval=(min(low, max(statistic, 0.0)), max(high, statistic, 0.0)),
        error=mean_distance(pooled, excesses, confidence),
        p_value=calibration_test(pooled),
    )


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
