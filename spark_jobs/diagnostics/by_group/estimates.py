"""Single figures of a group with intervals for its population, from the noisy counts; deterministic post-processing.

A rate is the share of a noisy number in the sum of itself and another one, whose noise is independent. Its interval is
that of ``_populations``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from spark_jobs.contract.figures import DEFINED_ABOVE
from spark_jobs.diagnostics._populations import RatioNoise, population_interval
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.mechanisms.noise import laplace_variance


class Estimate(NamedTuple):
    """A figure and the ends of its interval for the population; NaN if it is undefined."""

    value: float
    lower: float
    upper: float


NOTHING = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Noisy:
    """A noisy number of rows, with the variance of its noise."""

    rows: float
    variance: float

    def __add__(self, other: Noisy) -> Noisy:
        return Noisy(self.rows + other.rows, self.variance + other.variance)

    @property
    def is_known(self) -> bool:
        """Whether it is at least 1, and at least three standard deviations of its noise."""
        return self.rows >= max(1.0, DEFINED_ABOVE * math.sqrt(self.variance))


def class_rows(group: SharedGroups, first: int = 0, last: int | None = None) -> tuple[Noisy, Noisy]:
    """The positives and negatives in the cells from ``first`` to before ``last`` of a group's cuts."""
    negatives, positives = group.trees
    last = group.groups.positives.size if last is None else last
    of_negatives, of_positives = (
        Noisy(float(tree.counts()[first:last].sum()), tree.range_variance(first, last))
        for tree in (negatives, positives)
    )
    return of_positives, of_negatives


def rate(part: Noisy, rest: Noisy, confidence: float) -> Estimate:
    """The share of ``part`` in ``part + rest``."""
    whole = part + rest
    if not whole.is_known:
        return NOTHING
    value = min(max(part.rows / whole.rows, 0.0), 1.0)
    noise = RatioNoise(*map(np.asarray, (part.variance, part.variance, whole.variance)))
    low, high = population_interval(np.asarray(value), np.asarray(whole.rows), noise, confidence=confidence)
    return Estimate(value, float(low), float(high))


def rates_at(group: SharedGroups, cell: int, confidence: float) -> dict[str, Estimate]:
    """Rates at a threshold, given as a cell that is an edge of the group's cells."""
    edge = int(np.searchsorted(group.groups.cuts, cell))
    (true_above, false_above), (true_below, false_below) = class_rows(group, edge), class_rows(group, 0, edge)
    return {
        "predicted_positive_rate": rate(true_above + false_above, true_below + false_below, confidence),
        "recall": rate(true_above, true_below, confidence),
        "false_positive_rate": rate(false_above, false_below, confidence),
        "precision": rate(true_above, false_above, confidence),
    }


def mean_residual(group: SharedGroups, confidence: float) -> Estimate:
    """The share of positives less the mean score."""
    positives, negatives = class_rows(group)
    whole = positives + negatives
    if not whole.is_known:
        return NOTHING
    groups, rows = group.groups, whole.rows
    middles, (of_counts, of_sums) = groups.middles, groups.scales()
    value = float((groups.values()[0] - groups.values()[2]).sum()) / rows
    squares = groups.positives * (1 - middles) ** 2 + groups.negatives * middles**2
    sampling = max(float(squares.sum()) / rows - value**2, 0.0) / rows
    noise = sum(
        laplace_variance(float(of_count)) * ((1 - middle - value) ** 2 + (middle + value) ** 2)
        + (laplace_variance(float(of_sum)) / (2 * groups.grid) ** 2 if of_sum else 0.0)
        for middle, of_count, of_sum in zip(middles, of_counts, of_sums, strict=True)
    )
    reach = float(ndtri((1 + confidence) / 2)) * math.sqrt(sampling + noise / rows**2)
    shown = min(max(value, -1.0), 1.0)
    return Estimate(shown, max(shown - reach, -1.0), min(shown + reach, 1.0))
