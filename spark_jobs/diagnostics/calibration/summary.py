"""From a draw to a released calibration: deterministic, and free of charge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.diagnostics._score_groups.measurement import GroupsDraw
from spark_jobs.diagnostics._score_groups.pools import Pools, Triples, interval, p_value, pools, tidy, zone
from spark_jobs.diagnostics.calibration.intervals import Excesses, error_estimate, statistic_interval
from spark_jobs.diagnostics.calibration.result import Calibration
from spark_jobs.diagnostics.undefined import publishable

EXPECTED = 5.0
"""Rows that a pool is expected to have of either class, by released figures: below, a chi-squared sum of so few is
ruled by its smallest denominator (Hosmer, Lemeshow, Sturdivant 2013, section 5.2)."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The numbers of a calibration, with their intervals."""

    statistic: float = 0.0
    statistic_interval: tuple[float, float] = (0.0, 0.0)
    p_value: float = 1.0
    ece: float = 0.0
    ece_interval: tuple[float, float] = (0.0, 1.0)
    ece_calibrated: float = 1.0


def summarise(measurement: GroupsDraw, *, seed: int) -> Calibration:
    """The calibration that a measurement makes; the same measurement and seed give the same one.

    Args:
        measurement: the draw.
        seed: of the simulations behind intervals and the p-value; public.
    """
    made = pools(measurement, seed=seed, expected=EXPECTED)
    seen, count, confidence = made.seen, made.seen.lower.size, measurement.confidence
    predicted, observed = seen.predicted, seen.observed if made.defined else seen.predicted
    lower, upper, zone_lower, zone_upper = (np.full(count, end) for end in (0.0, 1.0, 0.0, 1.0))
    if made.defined:
        lower, upper = interval(seen.share, made.again().share, confidence)
        zone_lower, zone_upper = (predicted + end for end in zone(made.null().mean_excess, confidence))
    rows = float(np.maximum(seen.positives + seen.negatives, 0.0).sum())
    figures = _figures(made, confidence) if made.defined else Figures(statistic_interval=(0.0, max(rows, 1.0)))
    edges = measurement.bins / measurement.groups.grid
    of_bin = made.pool_of
    released = Calibration(
        lower=edges[:-1],
        upper=edges[1:],
        pool=of_bin,
        predicted=tidy(predicted)[of_bin],
        observed=tidy(observed)[of_bin],
        observed_lower=tidy(np.minimum(np.clip(lower, 0.0, 1.0), observed))[of_bin],
        observed_upper=tidy(np.maximum(np.clip(upper, 0.0, 1.0), observed))[of_bin],
        zone_lower=tidy(np.clip(zone_lower, 0.0, 1.0))[of_bin],
        zone_upper=tidy(np.clip(zone_upper, 0.0, 1.0))[of_bin],
        rows=tidy(np.maximum(seen.positives + seen.negatives, 0.0))[of_bin],
        statistic=_number(figures.statistic),
        statistic_interval=(_number(figures.statistic_interval[0]), _number(figures.statistic_interval[1])),
        degrees=count,
        p_value=_number(figures.p_value),
        ece=_number(figures.ece),
        ece_interval=(_number(figures.ece_interval[0]), _number(figures.ece_interval[1])),
        ece_calibrated=_number(figures.ece_calibrated),
        positives=_number(max(float(seen.positives.sum()), 0.0)),
        negatives=_number(max(float(seen.negatives.sum()), 0.0)),
        status=OK if made.defined else UNDEFINED,
        confidence=confidence,
        epsilon=measurement.epsilon,
        neighbours=measurement.neighbours,
        guarantee=measurement.guarantee,
    )
    return publishable("calibration", released)


def _figures(made: Pools, confidence: float) -> Figures:
    seen, null, noise = made.seen, made.null(), made.noise_variance
    excesses = Excesses(
        seen=seen.excess,
        variance=np.maximum(seen.variance, _LEAST_VARIANCE),
        noise=made.errors[:, 0] - made.errors[:, 2],
        rows=float(seen.rows.sum()),
    )
    statistic = float(hosmer_lemeshow(seen, noise))
    low, high = statistic_interval(excesses, statistic, confidence)
    ece, (ece_low, ece_high) = error_estimate(excesses, confidence)
    unexplained = max(float(calibration_error(seen)) - ece, 0.0)
    calibrated = float(np.quantile(calibration_error(null), confidence))
    return Figures(
        statistic=max(statistic, 0.0),
        statistic_interval=(min(low, max(statistic, 0.0)), max(high, statistic, 0.0)),
        p_value=calibration_test(made),
        ece=min(ece, 1.0),
        ece_interval=(min(ece_low, ece, 1.0), min(max(ece_high, ece), 1.0)),
        ece_calibrated=float(np.clip(calibrated - unexplained, 0.0, 1.0)),
    )


def calibration_test(made: Pools) -> float:
    """How often a model with true scores would be released with pools at least as far off, noise included."""
    noise = made.noise_variance
    return p_value(float(_standardised(made.seen, noise)), _standardised(made.null(), noise))


def hosmer_lemeshow(seen: Triples, noise_variance: FloatArray) -> FloatArray:
    """``sum (O1 - E1)^2 / E1 + (O0 - E0)^2 / E0``, less what the noise adds to the squares on average.

    Both terms of a pool have the numerator ``excess^2``, and ``1 / E1 + 1 / E0 = rows / (E1 E0) = 1 / variance``.
    """
    statistic: FloatArray = ((seen.excess**2 - noise_variance) / np.maximum(seen.variance, _LEAST_VARIANCE)).sum(
        axis=-1
    )
    return statistic


def calibration_error(seen: Triples) -> FloatArray:
    """``sum |excess|`` over the number of rows."""
    error: FloatArray = np.abs(seen.excess).sum(axis=-1) / np.maximum(seen.rows.sum(axis=-1), 1.0)
    return error


def _standardised(seen: Triples, noise_variance: FloatArray) -> FloatArray:
    """The statistic of the test: every square over its variance under a model with true scores, noise included."""
    variance = np.maximum(seen.variance + noise_variance, _LEAST_VARIANCE)
    statistic: FloatArray = (seen.excess**2 / variance).sum(axis=-1)
    return statistic


_LEAST_VARIANCE = 1e-9


def _number(value: float) -> float:
    return float(tidy(np.array(value)))
