"""Single figures of one or several groups together, with intervals for their population; from noisy counts.

A rate is ``part / (part + rest)``, of two noisy numbers with independent noise. Its interval is that of
``_populations``. All is deterministic post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from spark_jobs.contract.figure import Ends, Figure
from spark_jobs.contract.figures import DEFINED_ABOVE
from spark_jobs.diagnostics._populations import RatioNoise, population_interval
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.mechanisms.noise import laplace_variance

NOTHING: Figure[float] = Figure(value=math.nan, interval=Ends(math.nan, math.nan))
"""A figure that the noise leaves undefined."""


@dataclass(frozen=True)
class Noisy:
    """A noisy number of rows, with the variance of its noise."""

    rows: float
    variance: float

    def __add__(self, other: Noisy) -> Noisy:
        return Noisy(self.rows + other.rows, self.variance + other.variance)

    @property
    def is_known(self) -> bool:
        """Whether the number is at least 1, and at least three standard deviations of its noise."""
        return self.rows >= max(1.0, DEFINED_ABOVE * math.sqrt(self.variance))


Groups = Sequence[SharedGroups]
"""The draws of groups that share no row: of one group, or of all of them."""


def class_rows(groups: Groups, first: int = 0, last: int | None = None) -> tuple[Noisy, Noisy]:
    """The positives and the negatives whose scores lie in the cells ``first`` to ``last - 1`` of the grid.

    ``first`` and ``last`` must be edges of the cells of every group.
    """
    counted = [_class_rows(group, first, group.groups.grid if last is None else last) for group in groups]
    of_positives, of_negatives = (sum(one, Noisy(0.0, 0.0)) for one in zip(*counted, strict=True))
    return of_positives, of_negatives


def _class_rows(group: SharedGroups, first: int, last: int) -> tuple[Noisy, Noisy]:
    negatives, positives = group.trees
    start, end = map(int, np.searchsorted(group.groups.cuts, (first, last)))
    of_negatives, of_positives = (
        Noisy(float(tree.counts()[start:end].sum()), tree.range_variance(start, end)) for tree in (negatives, positives)
    )
    return of_positives, of_negatives


def rate(part: Noisy, rest: Noisy, confidence: float, effect: float = 1.0) -> Figure[float]:
    """The share of ``part`` in ``part + rest``; ``effect`` is the design effect of the sampling."""
    whole = part + rest
    if not whole.is_known:
        return NOTHING
    value = min(max(part.rows / whole.rows, 0.0), 1.0)
    noise = RatioNoise(*map(np.asarray, (part.variance, part.variance, whole.variance)))
    low, high = population_interval(
        np.asarray(value), np.asarray(whole.rows), noise, confidence=confidence, effect=effect
    )
    return Figure(value=value, interval=Ends(float(low), float(high)))


def rates_at(groups: Groups, cell: int, confidence: float, effects: Mapping[str, float]) -> dict[str, Figure[float]]:
    """The rates at a threshold, given as a cell of the grid whose lower edge is an edge of every group's cells."""
    (true_above, false_above), (true_below, false_below) = class_rows(groups, cell), class_rows(groups, 0, cell)
    parts = {
        "predicted_positive_rate": (true_above + false_above, true_below + false_below),
        "recall": (true_above, true_below),
        "false_positive_rate": (false_above, false_below),
        "precision": (true_above, false_above),
    }
    return {name: rate(part, rest, confidence, effects.get(name, 1.0)) for name, (part, rest) in parts.items()}


def mean_residual(groups: Groups, confidence: float, effect: float = 1.0) -> Figure[float]:
    """The share of positives less the mean score."""
    positives, negatives = class_rows(groups)
    whole = positives + negatives
    if not whole.is_known:
        return NOTHING
    rows = whole.rows
    value = sum(float((one.groups.values()[0] - one.groups.values()[2]).sum()) for one in groups) / rows
    squares = sum(
        float((one.groups.positives * (1 - middles) ** 2 + one.groups.negatives * middles**2).sum())
        for one in groups
        for middles in (one.groups.middles,)
    )
    sampling = effect * max(squares / rows - value**2, 0.0) / rows
    noise = sum(_residual_variance(one, value) for one in groups)
    reach = float(ndtri((1 + confidence) / 2)) * math.sqrt(sampling + noise / rows**2)
    shown = min(max(value, -1.0), 1.0)
    return Figure(value=shown, interval=Ends(max(shown - reach, -1.0), min(shown + reach, 1.0)))


def _residual_variance(group: SharedGroups, value: float) -> float:
    """The variance of the noise in the sum of a group's residuals less ``value`` for each of its rows."""
    groups = group.groups
    variances = (
        laplace_variance(float(of_count)) * ((1 - middle - value) ** 2 + (middle + value) ** 2)
        + (laplace_variance(float(of_sum)) * unit**2 if of_sum else 0.0)
        for middle, of_count, of_sum, unit in zip(groups.middles, *groups.scales(), groups.units, strict=True)
    )
    return float(sum(variances))
