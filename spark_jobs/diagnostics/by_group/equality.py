"""A test of whether several groups have the same figure, from estimates with intervals; post-processing.

The difference d of two groups is divided by its standard error e. The intervals of the two estimates give e: of each
interval, the half that lies between the estimates is used (Zou, Donner, Statistics in Medicine 2008). The statistic is
the largest ``d / e`` over all pairs. Its distribution among equal groups is simulated from independent errors, normal
on either side of 0; the spread on each side is that of the same half of the interval (Tukey's and Kramer's comparison
of means, for unequal variances).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import DECIMALS, Figure
from spark_jobs.diagnostics._simulation import normal
from spark_jobs.mechanisms.noise import SeededNoise

COPIES = 4000
P_VALUE_FLOOR = round(1 / (COPIES + 1), DECIMALS)
_SMALLEST = 1e-9


@dataclass(frozen=True, kw_only=True)
class LargestDifference:
    """The pair of groups that differ most, in standard errors.

    Attributes:
        highest, lowest: indices of the two groups.
        difference: between their estimates; at least 0.
        interval: for the difference, simultaneous for all pairs.
        p_value: the probability that the largest difference of equal groups is at least as large.
    """

    highest: int
    lowest: int
    difference: float
    interval: tuple[float, float]
    p_value: float


def largest_difference(
    estimates: Sequence[Figure[float]], *, confidence: float, noise: SeededNoise
) -> LargestDifference | None:
    """The largest difference among the groups with an estimate; None if there are fewer than two.

    Args:
        estimates: the figure of each group, with an interval at level ``confidence``.
        confidence: nominal level of these intervals and of the interval of the difference.
        noise: sampler with a public seed.
    """
    places = [place for place, estimate in enumerate(estimates) if np.isfinite(estimate.value)]
    if len(places) < 2:
        return None
    value, lower, upper = np.array([(one.value, *one.ends()) for one in (estimates[place] for place in places)]).T
    deviate = float(ndtri((1 + confidence) / 2))
    below, above = (np.maximum(half, _SMALLEST) / deviate for half in (value - lower, upper - value))
    spread = np.sqrt(np.add.outer(below**2, above**2))
    apart = _differences(value) / spread
    highest, lowest = np.unravel_index(int(np.argmax(apart)), apart.shape)
    errors = normal(noise, (COPIES, len(places)))
    errors = np.where(errors > 0, below, above) * errors
    largest = np.array([(_differences(copy) / spread).max() for copy in errors])
    reach = float(np.quantile(largest, confidence))
    difference = float(value[highest] - value[lowest])
    outer = float(np.hypot(above[highest], below[lowest]))
    return LargestDifference(
        highest=places[int(highest)],
        lowest=places[int(lowest)],
        difference=difference,
        interval=(difference - reach * float(spread[highest, lowest]), difference + reach * outer),
        p_value=float(1 + (largest >= apart[highest, lowest]).sum()) / (COPIES + 1),
    )


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values, adjusted for multiple tests by Holm's method (Scandinavian Journal of Statistics 1979)."""
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    result: list[float | None] = [None] * len(p_values)
    lowest = 0.0
    for number, (p, place) in enumerate(order):
        lowest = max(lowest, min(1.0, p * (len(order) - number)))
        result[place] = round(lowest, DECIMALS)
    return result


def _differences(values: FloatArray) -> FloatArray:
    """What each group has more than each other one."""
    apart: FloatArray = np.subtract.outer(values, values)
    return apart
